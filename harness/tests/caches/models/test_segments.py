# SPDX-License-Identifier: Apache-2.0
"""Segments of a log-structured file system: as the plain reference, and as 000's numbers say."""

import numpy as np
import pytest
from caches.reference_nvram import random_stream, stream_of
from caches.reference_nvram import segments as slowly
from riobed_caches.errors import TraceError
from riobed_caches.models.segments import Part, Segment, segments
from riobed_caches.stream.ops import Op

HALF = 512 << 10


def test_segments_are_those_of_the_reference() -> None:
    for seed in range(1500):
        stream = random_stream(seed, "wwwwdf" * (seed % 2), clients=1, scale=(1, 10_000, 40_000)[seed % 3])
        for buffer in (0, 50_000, HALF):
            counts, dirty = segments(stream, buffer)
            expected, expected_dirty = slowly(stream, buffer)
            assert counts.tolist() == expected.tolist(), (seed, buffer)
            assert dirty == expected_dirty, (seed, buffer)
            assert buffer < HALF or not counts[[Segment.TIMER, Segment.FSYNC]].any()


@pytest.mark.parametrize(("kilobytes", "percent"), [(7.9, 36.3), (55.0, 7.6)])
def test_the_overhead_of_a_partial_segment_is_that_of_table_4(kilobytes: float, percent: float) -> None:
    """000, 3: "about one third" on /user6, "about 8%" on /sprite/src/kernel."""
    size = int(kilobytes * 1024)
    span = [min(4096, size - start) for start in range(0, size, 4096)]
    writes = [(0, Op.WRITE, block, 0, bytes_) for block, bytes_ in enumerate(span)]
    stream = stream_of([*writes, (1, Op.FSYNC, 0, 0, 4096)], [0] * len(span), [0] * len(span), span)
    counts, _ = segments(stream, 0)
    number, data, metadata, summary = counts[Segment.FSYNC].tolist()
    assert (number, data) == (1, size)
    assert 100 * (metadata + summary) / (data + metadata + summary) == pytest.approx(percent, abs=0.05)


def test_a_full_segment_has_less_than_one_percent_of_overhead() -> None:
    """000, 3: "less than 1% overhead for full segments"; they are full to the last block that fits."""
    blocks = 1000
    writes = [(0, Op.WRITE, block, 0, 4096) for block in range(blocks)]
    counts, dirty = segments(stream_of(writes, [0] * blocks, [0] * blocks, [4096] * blocks), 0)
    number, data, metadata, summary = counts[Segment.FULL].tolist()
    assert (number, data) == (7, 7 * 126 * 4096)
    assert (metadata + summary) / data < 0.01
    assert data + dirty == blocks * 4096


def test_metadata_grows_by_a_block_each_32_files() -> None:
    for files, blocks in ((1, 1), (32, 1), (33, 2)):
        writes = [(0, Op.WRITE, file, 0, 1) for file in range(files)]
        fsync = (1, Op.FSYNC, 0, 0, 1)
        stream = stream_of([*writes, fsync], [0] * files, list(range(files)), [1] * files)
        assert segments(stream, 0)[0][Segment.FSYNC, Part.METADATA] == blocks * 4096


def test_a_segment_is_full_if_only_the_metadata_of_one_more_file_does_not_fit() -> None:
    span = [4096] * 126 + [1] * 32
    writes = [(0, Op.WRITE, block, 0, bytes_) for block, bytes_ in enumerate(span)]
    stream = stream_of(writes, [0] * len(span), [0] * 126 + list(range(1, 33)), span)
    counts, dirty = segments(stream, 0)
    assert counts[Segment.FULL].tolist() == [1, 126 * 4096 + 31, 4096, 512]
    assert dirty == 1


def test_wrong_requests_are_refused() -> None:
    with pytest.raises(TraceError, match="2 clients"):
        segments(stream_of([], [0, 1], [0, 0], [1, 1]), 0)
    with pytest.raises(TraceError, match="do not fit"):
        segments(stream_of([], [0], [0], [HALF]), 0)
    with pytest.raises(TraceError, match="-1 bytes"):
        segments(stream_of([], [0], [0], [1]), -1)
    assert not np.any(segments(stream_of([], [0], [0], [1]), 0)[0])
