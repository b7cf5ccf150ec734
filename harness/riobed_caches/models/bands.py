# SPDX-License-Identifier: Apache-2.0
"""LRU caches of several sizes in one pass, with all that happens to dirty bytes.

A cache of C blocks has the blocks in places 1 to C of a stack with holes. An access puts its block in place
1; the blocks above its old place, or above the topmost hole if that is higher, move down by one. A deleted
block leaves a hole (Mattson et al. 1970; with deletions, Thompson and Smith 1989). The places are cut into
bands at the sizes wanted: a list of blocks each, and a number of holes. A block that is carried over the
lower end of a band leaves the cache of that size at that moment.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from riobed_caches.compiled import Floats, Int8s, Int32s, Int64s, kernel
from riobed_caches.errors import TraceError
from riobed_caches.models.count import Count
from riobed_caches.models.moments import Moments
from riobed_caches.models.ranges import (
    Dirty,
    Samples,
    Sums,
    clean,
    clean_old,
    cut,
    new_dirty,
    new_sums,
    no_samples,
    promise,
    sample,
    write,
)
from riobed_caches.stream.ops import Op, Stream

# One bit of 32 a size.
MAX_SIZES = 31
NEVER = -1
# Sprite's block cleaner looks each 5 s (000, 2.1); so does Linux (dirty_writeback_centisecs).
SCAN = 5_000_000


@dataclass(frozen=True)
class Policy:
    """When a cache writes a dirty block back although it has room.

    `delay` in µs after its first dirty byte, at the next of the looks that are `scan` µs apart (NEVER: not by
    age). `whole_files`: with it go all dirty blocks of its file. `on_fsync`: when it is fsync'd. `on_close`:
    when a handle that wrote it is closed.
    """

    delay: int = NEVER
    scan: int = SCAN
    whole_files: bool = False
    on_fsync: bool = True
    on_close: bool = False


@dataclass(frozen=True)
class Run:
    """What a model counted, for each of `sizes` (blocks a client).

    `counts` has a row for each Count. Of dirty bytes, summed over clients: `mean` over time and `worst`. At
    the moments, a row each: dirty `bytes`, `files` with any, `oldest` (µs since the first of them was
    written, or -1), and `promised`, which had been fsync'd and are still in memory alone.
    """

    sizes: Int64s
    counts: Int64s
    mean: Floats
    worst: Int64s
    bytes: Int64s
    files: Int64s
    oldest: Int64s
    promised: Int64s


class _Lists(NamedTuple):
    """The bands: neighbours and band of each block; by client, first (oldest) and last block, holes."""

    newer: Int32s
    older: Int32s
    where: Int8s
    first: Int32s
    last: Int32s
    holes: Int64s
    top: Int64s


def bands(stream: Stream, sizes: Int64s, policy: Policy, moments: Moments) -> Run:
    """Run a stream through LRU caches of `sizes` blocks a client, ascending.

    Raises TraceError if there are more than MAX_SIZES of them, or they do not ascend from 1.
    """
    sizes = np.asarray(sizes, np.int64)
    if not 0 < len(sizes) <= MAX_SIZES or sizes[0] < 1 or (np.diff(sizes) <= 0).any():
        raise TraceError("sizes", f"they are not 1 to {MAX_SIZES} ascending numbers of blocks", "give others")
    if len(stream.time) >= 2**31:
        raise TraceError("stream", f"it has {len(stream.time)} operations", "use a larger --block")
    files, number = max(stream.files, 1), len(sizes)
    lists = _new_lists(max(stream.blocks, 1), max(stream.clients, 1), sizes)
    dirty, sums = new_dirty(stream.file, files, number), new_sums(files, number)
    found, misses = no_samples(len(moments.at), number), np.zeros((3, number + 1), np.int64)
    ops = (stream.time, stream.op, stream.block, stream.lo, stream.hi, stream.client, stream.span)
    rules = (policy.delay, policy.scan, policy.whole_files, policy.on_fsync, policy.on_close)
    _run(
        *ops,
        lists,
        dirty,
        sums,
        found,
        misses,
        np.zeros(number, np.int64),
        *rules,
        moments.at,
        moments.time,
        stream.end,
    )
    counts = sums.counts
    # A miss in band k is one of each smaller size.
    for row, count in enumerate((Count.READ_MISSES, Count.WRITE_MISSES, Count.FETCHED)):
        counts[count] += np.cumsum(misses[row][::-1])[::-1][1:]
    counts[Count.REMAINING] += sums.dirty
    mean = (sums.area + sums.dirty * float(stream.end)) / max(stream.end, 1)
    return Run(sizes, counts, mean, sums.worst, found.bytes, found.files, found.oldest, found.promised)


_READ, _WRITE, _DELETE, _CUT, _FSYNC, _RECALL, _INVALIDATE, _CLOSE = (int(op) for op in tuple(Op)[:8])
_REPLACED, _DELETED = int(Count.REPLACED), int(Count.DELETED)
_FSYNCED, _RECALLED, _CLOSED = int(Count.FSYNCED), int(Count.RECALLED), int(Count.CLOSED)


@kernel
def _run(
    time: Int64s,
    op: Int8s,
    block: Int32s,
    lo: Int32s,
    hi: Int32s,
    client: Int32s,
    span: Int32s,
    lists: _Lists,
    dirty: Dirty,
    sums: Sums,
    samples: Samples,
    misses: Int64s,
    oldest: Int64s,
    delay: int,
    scan: int,
    whole: bool,
    on_fsync: bool,
    on_close: bool,
    at: Int64s,
    when: Int64s,
    end: int,
) -> None:
    """Run all operations; `misses` are by band (reads, writes, bytes fetched)."""
    aged, look, m = 0, scan, 0
    for i in range(time.size + 1):
        now = time[i] if i < time.size else end
        while m < at.size and at[m] <= i:
            if delay >= 0:
                aged, look = clean_old(
                    dirty, sums, time, op, block, aged, i, look, when[m], delay, scan, whole
                )
            sample(samples, m, when[m], dirty, sums, time, op, block, oldest, i)
            m += 1
        if delay >= 0:
            aged, look = clean_old(dirty, sums, time, op, block, aged, i, look, now, delay, scan, whole)
        if i == time.size:
            break
        kind, b = op[i], block[i]
        if kind <= _WRITE:
            band = _access(lists, dirty, sums, b, client[b], now)
            misses[kind, band] += 1
            if kind == _READ:
                misses[2, band] += span[b]
            else:
                write(dirty, sums, b, lo[i], hi[i], i, now)
        elif kind == _CUT:
            cut(dirty, sums, b, lo[i], now)
        elif kind == _FSYNC:
            if on_fsync:
                clean(dirty, sums, b, dirty.bits[b], now, _FSYNCED)
            else:
                promise(dirty, sums, b)
        elif kind == _CLOSE:
            if on_close:
                clean(dirty, sums, b, dirty.bits[b], now, _CLOSED)
        else:
            clean(dirty, sums, b, dirty.bits[b], now, _DELETED if kind == _DELETE else _RECALLED)
            if kind != _RECALL:
                _remove(lists, b, client[b])


def _new_lists(blocks: int, clients: int, sizes: Int64s) -> _Lists:
    """Return bands that are all holes: the caches are empty."""
    n = sizes.size
    holes = np.empty(clients * n, np.int64)
    for c in range(clients):
        for g in range(n):
            holes[c * n + g] = sizes[g] - (sizes[g - 1] if g else 0)
    ends = np.full(clients * n, -1, np.int32)
    none = np.full(blocks, -1, np.int32)
    where = np.full(blocks, n, np.int8)
    return _Lists(none, none.copy(), where, ends, ends.copy(), holes, np.zeros(clients, np.int64))


@kernel
def _access(lists: _Lists, dirty: Dirty, sums: Sums, b: int, c: int, now: int) -> int:
    """Make a block the most recent of its client, and return the band in which it was."""
    sizes = sums.dirty.size
    band = lists.where[b]
    base = c * sizes
    if band == 0 and lists.last[base] == b:
        return int(band)
    top = lists.top[c]
    while top < sizes and lists.holes[base + top] == 0:
        top += 1
    lists.top[c] = top
    if band < sizes:
        _unlink(lists, b, base + band)
    stop = min(top, band)
    carried = b
    for g in range(stop):
        _append(lists, carried, base + g, g)
        carried = lists.first[base + g]
        _unlink(lists, carried, base + g)
        if (dirty.bits[carried] >> np.uint32(g)) & np.uint32(1):
            clean(dirty, sums, carried, np.uint32(1) << np.uint32(g), now, _REPLACED)
    if stop == sizes:
        lists.where[carried] = sizes
    else:
        _append(lists, carried, base + stop, stop)
        if stop < band:
            lists.holes[base + stop] -= 1
            if band < sizes:
                lists.holes[base + band] += 1
    return int(band)


@kernel
def _unlink(lists: _Lists, b: int, at: int) -> None:
    older, newer = lists.older[b], lists.newer[b]
    if older >= 0:
        lists.newer[older] = newer
    else:
        lists.first[at] = newer
    if newer >= 0:
        lists.older[newer] = older
    else:
        lists.last[at] = older


@kernel
def _append(lists: _Lists, b: int, at: int, band: int) -> None:
    """Make a block the most recent of a band."""
    last = lists.last[at]
    lists.older[b], lists.newer[b] = last, -1
    if last >= 0:
        lists.newer[last] = b
    else:
        lists.first[at] = b
    lists.last[at] = b
    lists.where[b] = band


@kernel
def _remove(lists: _Lists, b: int, c: int) -> None:
    """Take a block out of all caches, which leaves a hole."""
    sizes = lists.holes.size // lists.top.size
    band = lists.where[b]
    if band < sizes:
        _unlink(lists, b, c * sizes + band)
        lists.holes[c * sizes + band] += 1
        lists.where[b] = sizes
        lists.top[c] = min(lists.top[c], band)
