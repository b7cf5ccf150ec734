# SPDX-License-Identifier: Apache-2.0
"""Rows of a log-structured file system that gets the writes of a trace."""

from collections.abc import Iterator

from riobed_caches.models.segments import Part, Segment, segments
from riobed_caches.rows import SegmentRow
from riobed_caches.stream.ops import Stream
from riobed_caches.study.prepare import server

# 000, 3: without a buffer, and with one of half a megabyte.
BUFFERS = (0, 512 << 10)


def segment_rows(trace: str, stream: Stream) -> Iterator[SegmentRow]:
    """Yield a row for each size of the buffer."""
    alone = server(stream)
    for buffer in BUFFERS:
        counts, _ = segments(alone, buffer)
        overhead = counts[:, (Part.METADATA, Part.SUMMARY)].sum(axis=1)
        yield SegmentRow(
            trace=trace,
            buffer=buffer,
            full=int(counts[Segment.FULL, Part.NUMBER]),
            by_timer=int(counts[Segment.TIMER, Part.NUMBER]),
            by_fsync=int(counts[Segment.FSYNC, Part.NUMBER]),
            data=int(counts[:, Part.DATA].sum()),
            data_by_timer=int(counts[Segment.TIMER, Part.DATA]),
            data_by_fsync=int(counts[Segment.FSYNC, Part.DATA]),
            overhead=int(overhead.sum()),
            overhead_by_timer=int(overhead[Segment.TIMER]),
            overhead_by_fsync=int(overhead[Segment.FSYNC]),
        )
