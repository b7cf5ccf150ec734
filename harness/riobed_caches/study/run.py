# SPDX-License-Identifier: Apache-2.0
"""Runs traces through all models, and keeps the rows in a folder."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import chain
from pathlib import Path

import numpy as np

from riobed_caches.compiled import Int64s
from riobed_caches.errors import TraceError
from riobed_caches.models.moments import moments_of
from riobed_caches.models.tree import every_size
from riobed_caches.rowfiles import write_rows
from riobed_caches.rows import (
    CacheRow,
    ConsistencyRow,
    FateRow,
    LifetimeRow,
    Row,
    SegmentRow,
    SizeRow,
    TraceRow,
)
from riobed_caches.stream.lifetimes import lifetimes
from riobed_caches.stream.ops import Stream
from riobed_caches.study.lru import lru_rows
from riobed_caches.study.nvram import nvram_rows
from riobed_caches.study.prepare import Options, Ready, about, prepare, shared
from riobed_caches.study.segments import segment_rows
from riobed_caches.trace.header import Has

# 000, Figure 2 has delays up to a day; the last is never.
DELAYS = (1, 5, 15, 30, 60, 120, 240, 480, 960, 1920, 3600, 7200, 14400, 28800, 57600, 86400, -1)
# Of the curve over every size, as many points as a figure shows.
POINTS = 200
KINDS: tuple[type[Row], ...] = (
    TraceRow,
    LifetimeRow,
    FateRow,
    ConsistencyRow,
    CacheRow,
    SizeRow,
    SegmentRow,
)


def study(paths: list[Path], out: Path, options: Options, say: Callable[[str], None]) -> None:
    """Run each trace through all models that it supports, and write the rows of all into the folder `out`.

    `say` gets a line when a trace is done; there are as many at a time as processors. Raises TraceError if
    two traces have one name, or one of them is wrong; nothing is written then.
    """
    names = [path.stem for path in paths]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise TraceError(twice, "two traces have this name", "rename one")
    rows: list[Row] = []
    with ProcessPoolExecutor(min(len(paths), len(os.sched_getaffinity(0)))) as pool:
        for name, found in zip(names, pool.map(rows_of, paths, [options] * len(paths)), strict=True):
            rows += found
            say(f"{name}: {len(found)} rows")
    for kind in KINDS:
        write_rows(out, kind, [row for row in rows if isinstance(row, kind)])


def rows_of(path: Path, options: Options) -> list[Row]:
    """Return all rows of a trace; TraceError if it is wrong."""
    ready = prepare(path, options)
    return [about(ready, options), *chain.from_iterable(_rows(ready))]


def sizes_of(stream: Stream) -> Int64s:
    """Return sizes in blocks: powers of two from one to the first that holds all blocks of a client."""
    most = int(np.bincount(stream.client, minlength=1).max())
    found: Int64s = 1 << np.arange((max(most, 1) - 1).bit_length() + 1, dtype=np.int64)
    return found


def _rows(ready: Ready) -> Iterator[list[Row]]:
    """Yield the rows of a trace, by kind of model."""
    name, stream = ready.name, ready.stream
    if Has.TIMES in ready.has and Has.DIRECTIONS in ready.has:
        yield _lifetimes(ready)
    if Has.OPENS in ready.has:
        yield [ConsistencyRow(trace=name, **shared(ready))]
    yield list(lru_rows(name, stream, sizes_of(stream), moments_of(stream)))
    yield _every_size(name, stream)
    yield list(nvram_rows(name, stream))
    yield list(segment_rows(name, stream))


def _lifetimes(ready: Ready) -> list[Row]:
    found = lifetimes(ready.actions)
    never = 2**62
    delays = np.array([never if delay < 0 else delay * 1_000_000 for delay in DELAYS], np.int64)
    sent, risk = found.sent(delays), found.at_risk(delays)
    curve = [
        LifetimeRow(
            trace=ready.name, delay=delay, written=found.written, sent=int(sent[i]), at_risk=float(risk[i])
        )
        for i, delay in enumerate(DELAYS)
    ]
    fates = [
        FateRow(trace=ready.name, fate=fate.name, bytes=number) for fate, number in found.fates().items()
    ]
    return [*curve, *fates]


def _every_size(name: str, stream: Stream) -> list[Row]:
    largest = int(np.bincount(stream.client, minlength=1).max())
    if not largest:
        return []
    found = every_size(stream, largest)
    at = np.unique(np.geomspace(1, largest, POINTS).astype(np.int64))
    return [
        SizeRow(
            trace=name,
            size=int(size) * stream.block_size,
            misses=int(found.misses[size - 1]),
            out=int(found.out[size - 1] + found.remaining[size - 1]),
        )
        for size in at
    ]
