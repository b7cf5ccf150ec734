# SPDX-License-Identifier: Apache-2.0
"""LRU caches of several sizes in one pass, with all that happens to dirty bytes.

A cache of C blocks has the blocks in places 1 to C of a stack with holes. An access puts its block in place
1; the blocks above its old place, or above the topmost hole if that is higher, move down by one. A deleted
block leaves a hole (Mattson et al. 1970; with deletions, Thompson and Smith 1989). The places are cut into
bands at the sizes wanted: some blocks each, and a number of holes. A block that is carried over the lower end
of a band leaves the cache of that size at that moment. The blocks of all bands are one list by last access,
in which the bands follow each other: an array with a field for each access, where a band is from its first
field to the next band's.
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
    begin,
    clean,
    clean_old,
    cut,
    new_dirty,
    new_sums,
    no_samples,
    promise,
    replaced,
    sample,
    write,
    write_clean,
)
from riobed_caches.stream.ops import Op, Stream

# One bit of 32 a size.
MAX_SIZES = 31
NEVER = -1
# Of the blocks of a transfer so many are done at once, or more.
_AT_ONCE = 1024
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


class _Ops(NamedTuple):
    """Columns of a stream; those from `client` on are by block."""

    time: Int64s
    op: Int8s
    block: Int32s
    lo: Int32s
    hi: Int32s
    client: Int32s
    file: Int32s
    span: Int32s


class _Stack(NamedTuple):
    """Blocks by last access: `at` has the block of each access or -1, `place` the last access of a block.

    By client: `last` access, and `top`, before which no band has a hole. By client and band: the `first`
    access in it, and `holes`.
    """

    at: Int32s
    place: Int32s
    last: Int32s
    top: Int64s
    first: Int32s
    holes: Int64s


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
    stack = _new_stack(stream, sizes)
    # Dirty blocks are in the largest caches, or were just written, before others leave.
    most = max(stream.clients, 1) * int(sizes[-1]) + _AT_ONCE
    dirty, sums = new_dirty(max(stream.blocks, 1), files, number, most), new_sums(files, number)
    found, misses = no_samples(len(moments.at), number), np.zeros((3, number + 1), np.int64)
    ops = _Ops(*(getattr(stream, name) for name in _Ops._fields))
    writes = np.flatnonzero(stream.op == _WRITE).astype(np.int32)
    rules = (policy.delay, policy.scan, policy.whole_files, policy.on_fsync, policy.on_close)
    _run(
        ops,
        writes,
        stack,
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
_DELETED = int(Count.DELETED)
_FSYNCED, _RECALLED, _CLOSED = int(Count.FSYNCED), int(Count.RECALLED), int(Count.CLOSED)


@kernel
def _run(
    ops: _Ops,
    writes: Int32s,
    stack: _Stack,
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
    time, block, lo, client = ops.time, ops.block, ops.lo, ops.client
    aged, look, m, i = 0, scan, 0, 0
    while i <= time.size:
        now = time[i] if i < time.size else end
        while m < at.size and at[m] <= i:
            if delay >= 0:
                aged, look = clean_old(
                    dirty, sums, time, block, writes, aged, i, look, when[m], delay, scan, whole
                )
            sample(samples, m, when[m], dirty, sums, time, block, writes, aged, oldest, i)
            m += 1
        if delay >= 0:
            aged, look = clean_old(dirty, sums, time, block, writes, aged, i, look, now, delay, scan, whole)
        if i == time.size:
            break
        kind, b = ops.op[i], block[i]
        if kind <= _WRITE:
            until = at[m] if m < at.size else time.size
            i += _access(stack, dirty, sums, ops, misses, kind == _WRITE, i, until)
            continue
        if kind == _CUT:
            cut(dirty, sums, b, lo[i], now)
        elif kind == _FSYNC:
            if on_fsync:
                clean(dirty, sums, b, now, _FSYNCED)
            else:
                promise(dirty, sums, b)
        elif kind == _CLOSE:
            if on_close:
                clean(dirty, sums, b, now, _CLOSED)
        else:
            clean(dirty, sums, b, now, _DELETED if kind == _DELETE else _RECALLED)
            if kind != _RECALL:
                _remove(stack, b, client[b])
        i += 1


def _new_stack(stream: Stream, sizes: Int64s) -> _Stack:
    """Return bands that are all holes: the caches are empty."""
    clients = max(stream.clients, 1)
    accesses = np.bincount(stream.client[stream.block[stream.op <= _WRITE]], minlength=clients)
    # An unused field is before those of each client, so that a place of 0 is in no band.
    last = (np.cumsum(accesses + 1) - accesses).astype(np.int32)
    at = np.empty(len(stream.op) + clients + 1, np.int32)
    holes = np.tile(np.diff(sizes, prepend=0), clients)
    first = np.repeat(last + 1, len(sizes)).astype(np.int32)
    return _Stack(
        at, np.zeros(max(stream.blocks, 1), np.int32), last, np.zeros(clients, np.int64), first, holes
    )


@kernel
def _access(
    stack: _Stack, dirty: Dirty, sums: Sums, ops: _Ops, misses: Int64s, writing: bool, i: int, until: int
) -> int:
    """Do an access, and with it those after it that are like it; returns how many, before `until`.

    They are alike if they are of one moment, client and file, each finds its block in the same band, and what
    they write was clean. Then one size does not depend on another, and each may do all of them in turn.
    """
    b, sizes = ops.block[i], sums.dirty.size
    c, begins = ops.client[b], writing and dirty.slot[b] < 0
    first, holes = stack.first[c * sizes : (c + 1) * sizes], stack.holes[c * sizes : (c + 1) * sizes]
    band, top = _band(first, stack.place[b]), stack.top[c]
    while top < sizes and holes[top] == 0:
        top += 1
    stack.top[c] = top
    stop = min(top, band)
    if stop < band:
        until = min(until, i + holes[stop])
    if writing:
        until = min(until, i + (dirty.free[-1] if begins else 1))
    n = _move(stack, dirty, ops, first, band, begins, i, until)
    _carry(stack, dirty, sums, ops, first, stop, begins, i, n)
    if writing and not begins:
        write(dirty, sums, b, ops.lo[i], ops.hi[i], i, ops.time[i])
    if stop < band:
        holes[stop] -= n
        if band < sizes:
            holes[band] += n
    misses[int(writing), band] += n
    if not writing:
        for j in range(i, i + n):
            misses[2, band] += ops.span[ops.block[j]]
    return n


@kernel
def _band(first: Int32s, place: int) -> int:
    """Return the band of a place; behind the last, it is in no cache."""
    band = 0
    while band < first.size and place < first[band]:
        band += 1
    return band


@kernel
def _move(
    stack: _Stack, dirty: Dirty, ops: _Ops, first: Int32s, band: int, begins: bool, i: int, until: int
) -> int:
    """Put the blocks of like accesses in front of all others, and return how many they are."""
    b, kind, now = ops.block[i], ops.op[i], ops.time[i]
    c, file, sizes, j = ops.client[b], ops.file[b], first.size, i
    oldest, newest = first[band] if band < sizes else 0, first[band - 1] if band else stack.at.size
    while True:
        if band < sizes:
            stack.at[stack.place[b]] = -1
        stack.last[c] += 1
        stack.at[stack.last[c]], stack.place[b] = b, stack.last[c]
        if begins:
            write_clean(dirty, sizes, b, file, ops.lo[j], ops.hi[j], j)
        j += 1
        if j == until or ops.op[j] != kind or ops.time[j] != now:
            return j - i
        b = ops.block[j]
        if ops.client[b] != c or ops.file[b] != file or (begins and dirty.slot[b] >= 0):
            return j - i
        if not oldest <= stack.place[b] < newest:
            return j - i


@kernel
def _carry(
    stack: _Stack,
    dirty: Dirty,
    sums: Sums,
    ops: _Ops,
    first: Int32s,
    stop: int,
    begins: bool,
    i: int,
    n: int,
) -> None:
    """Carry a block over the lower end of each band before `stop` for each of `n` accesses."""
    now, file = ops.time[i], ops.file[ops.block[i]]
    for g in range(first.size if begins else stop):
        if begins:
            begin(sums, file, g, n)
        k, size, worst, area = first[g], sums.dirty[g], sums.worst[g], sums.area[g]
        for j in range(i, i + n):
            if g < stop:
                carried = stack.at[k]
                while carried < 0:
                    k += 1
                    carried = stack.at[k]
                k += 1
                if dirty.slot[carried] >= 0:
                    gone = replaced(dirty, sums, carried, g)
                    size -= gone
                    area += gone * float(now)
            if begins:
                more = ops.hi[j] - ops.lo[j]
                size += more
                area -= more * float(now)
                worst = max(worst, size)
        first[g], sums.dirty[g], sums.worst[g], sums.area[g] = k, size, worst, area


@kernel
def _remove(stack: _Stack, b: int, c: int) -> None:
    """Take a block out of all caches, which leaves a hole."""
    sizes = stack.holes.size // stack.top.size
    base = c * sizes
    band = _band(stack.first[base : base + sizes], stack.place[b])
    if band < sizes:
        stack.at[stack.place[b]] = -1
        stack.place[b] = 0
        stack.holes[base + band] += 1
        stack.top[c] = min(stack.top[c], band)
