# SPDX-License-Identifier: Apache-2.0
"""The dirty bytes of blocks in caches of several sizes: one range a block and size."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from riobed_caches.compiled import Bools, Floats, Int8s, Int32s, Int64s, kernel
from riobed_caches.models.count import COUNTS, Count
from riobed_caches.stream.ops import Op

_WRITE = int(Op.WRITE)
_OUT, _DELAYED = int(Count.BLOCKS_OUT), int(Count.DELAYED)
_OVERWRITTEN, _DELETED, _GAP = int(Count.OVERWRITTEN), int(Count.DELETED), int(Count.GAP)


class Dirty(NamedTuple):
    """The dirty bytes of blocks, in the sizes whose bits are set.

    `lo`, `hi`, `since` (the operation that began them) and `safe` (bytes that had been fsync'd) have a column
    a size, of which the first holds for all unless `mixed`. `newer` and `older` are the list of dirty blocks
    of a file, `head` its first.
    """

    bits: NDArray[np.uint32]
    mixed: Bools
    lo: Int32s
    hi: Int32s
    since: Int32s
    safe: Int32s
    newer: Int32s
    older: Int32s
    head: Int32s
    file: Int32s


class Sums(NamedTuple):
    """What is summed, by size; `blocks` has the dirty blocks of each file, `area` is dirty bytes times µs."""

    counts: Int64s
    dirty: Int64s
    worst: Int64s
    area: Floats
    files: Int64s
    promised: Int64s
    blocks: Int32s


class Samples(NamedTuple):
    """What a crash would cost at each moment (rows), by size (columns)."""

    bytes: Int64s
    files: Int64s
    oldest: Int64s
    promised: Int64s


def new_dirty(file: Int32s, files: int, sizes: int) -> Dirty:
    """Return clean blocks; `file` has the file of each."""
    n = max(file.size, 1)
    none = np.full(n, -1, np.int32)
    lo, hi, since, safe = (np.zeros((n, sizes), np.int32) for _ in range(4))
    bits, mixed, head = np.zeros(n, np.uint32), np.zeros(n, np.bool_), np.full(files, -1, np.int32)
    return Dirty(bits, mixed, lo, hi, since, safe, none, none.copy(), head, file)


def new_sums(files: int, sizes: int) -> Sums:
    """Return sums of nothing."""
    dirty, worst, promised, of_files = (np.zeros(sizes, np.int64) for _ in range(4))
    counts, blocks = np.zeros((COUNTS, sizes), np.int64), np.zeros((files, sizes), np.int32)
    return Sums(counts, dirty, worst, np.zeros(sizes, np.float64), of_files, promised, blocks)


def no_samples(moments: int, sizes: int) -> Samples:
    """Return room for the samples of moments."""
    return Samples(*(np.zeros((moments, sizes), np.int64) for _ in range(4)))


@kernel
def write(dirty: Dirty, sums: Sums, b: int, lo: int, hi: int, i: int, now: int) -> None:
    """Make bytes of a block dirty in all sizes."""
    sizes = sums.dirty.size
    every = (np.uint32(1) << np.uint32(sizes)) - np.uint32(1)
    bits = dirty.bits[b]
    if bits == 0:
        dirty.lo[b, 0], dirty.hi[b, 0], dirty.since[b, 0], dirty.safe[b, 0] = lo, hi, i, 0
        for g in range(sizes):
            _begin(dirty, sums, b, g, hi - lo, now)
        _enlist(dirty, b)
    elif bits == every and not dirty.mixed[b]:
        more = _widen(dirty, sums, b, 0, lo, hi)
        # _widen counted what was overwritten for the first size.
        for g in range(1, sizes):
            sums.counts[_OVERWRITTEN, g] += max(hi - lo - more, 0)
            sums.counts[_GAP, g] += max(more - (hi - lo), 0)
        if more:
            for g in range(sizes):
                _grow(sums, g, more, now)
    else:
        _mix(dirty, b, sizes)
        for g in range(sizes):
            if (bits >> np.uint32(g)) & np.uint32(1):
                _grow(sums, g, _widen(dirty, sums, b, g, lo, hi), now)
            else:
                dirty.lo[b, g], dirty.hi[b, g], dirty.since[b, g], dirty.safe[b, g] = lo, hi, i, 0
                _begin(dirty, sums, b, g, hi - lo, now)
    dirty.bits[b] = every


@kernel
def _mix(dirty: Dirty, b: int, sizes: int) -> None:
    """Give each size a column of its own."""
    if not dirty.mixed[b]:
        dirty.mixed[b] = True
        for g in range(1, sizes):
            dirty.lo[b, g], dirty.hi[b, g] = dirty.lo[b, 0], dirty.hi[b, 0]
            dirty.since[b, g], dirty.safe[b, g] = dirty.since[b, 0], dirty.safe[b, 0]


@kernel
def _begin(dirty: Dirty, sums: Sums, b: int, g: int, size: int, now: int) -> None:
    """Count a block that was clean in a size, and is dirty now."""
    _grow(sums, g, size, now)
    sums.blocks[dirty.file[b], g] += 1
    if sums.blocks[dirty.file[b], g] == 1:
        sums.files[g] += 1


@kernel
def _grow(sums: Sums, g: int, more: int, now: int) -> None:
    sums.dirty[g] += more
    sums.area[g] -= more * float(now)
    sums.worst[g] = max(sums.worst[g], sums.dirty[g])


@kernel
def _widen(dirty: Dirty, sums: Sums, b: int, g: int, lo: int, hi: int) -> int:
    """Add a write to the dirty range of a column, and return by how many bytes it grew."""
    old = dirty.hi[b, g] - dirty.lo[b, g]
    dirty.lo[b, g] = min(dirty.lo[b, g], lo)
    dirty.hi[b, g] = max(dirty.hi[b, g], hi)
    more = dirty.hi[b, g] - dirty.lo[b, g] - old
    sums.counts[_OVERWRITTEN, g] += max(hi - lo - more, 0)
    sums.counts[_GAP, g] += max(more - (hi - lo), 0)
    return int(more)


@kernel
def _enlist(dirty: Dirty, b: int) -> None:
    """Put a block that was clean into the list of its file."""
    f = dirty.file[b]
    dirty.newer[b], dirty.older[b] = -1, dirty.head[f]
    if dirty.head[f] >= 0:
        dirty.newer[dirty.head[f]] = b
    dirty.head[f] = b


@kernel
def clean(dirty: Dirty, sums: Sums, b: int, bits: np.uint32, now: int, cause: int) -> None:
    """Make a block clean in the sizes of `bits`, in which it is dirty: its bytes went out, or died."""
    if bits == 0:
        return
    for g in range(sums.dirty.size):
        if (bits >> np.uint32(g)) & np.uint32(1):
            col = g if dirty.mixed[b] else 0
            size = dirty.hi[b, col] - dirty.lo[b, col]
            sums.counts[cause, g] += size
            if cause != _DELETED:
                sums.counts[_OUT, g] += 1
            sums.dirty[g] -= size
            sums.area[g] += size * float(now)
            sums.promised[g] -= dirty.safe[b, col]
            sums.blocks[dirty.file[b], g] -= 1
            if sums.blocks[dirty.file[b], g] == 0:
                sums.files[g] -= 1
    dirty.bits[b] &= ~bits
    if dirty.bits[b] == 0:
        dirty.mixed[b] = False
        older, newer = dirty.older[b], dirty.newer[b]
        if newer >= 0:
            dirty.older[newer] = older
        else:
            dirty.head[dirty.file[b]] = older
        if older >= 0:
            dirty.newer[older] = newer


@kernel
def cut(dirty: Dirty, sums: Sums, b: int, end: int, now: int) -> None:
    """Let the dirty bytes from `end` on die."""
    sizes = sums.dirty.size
    if dirty.bits[b] == 0:
        return
    _mix(dirty, b, sizes)
    for g in range(sizes):
        bit = np.uint32(1) << np.uint32(g)
        if dirty.bits[b] & bit and dirty.hi[b, g] > end:
            if dirty.lo[b, g] >= end:
                clean(dirty, sums, b, bit, now, _DELETED)
                continue
            gone = dirty.hi[b, g] - end
            dirty.hi[b, g] = end
            sums.counts[_DELETED, g] += gone
            _grow(sums, g, -gone, now)
            less = min(dirty.safe[b, g], gone)
            dirty.safe[b, g] -= less
            sums.promised[g] -= less


@kernel
def promise(dirty: Dirty, sums: Sums, b: int) -> None:
    """Note that the dirty bytes of a block were fsync'd, in a cache that did not write them for it."""
    for g in range(sums.dirty.size):
        if (dirty.bits[b] >> np.uint32(g)) & np.uint32(1):
            col = g if dirty.mixed[b] else 0
            sums.promised[g] += dirty.hi[b, col] - dirty.lo[b, col] - dirty.safe[b, col]
    columns = sums.dirty.size if dirty.mixed[b] else 1
    for col in range(columns):
        dirty.safe[b, col] = dirty.hi[b, col] - dirty.lo[b, col]


@kernel
def clean_old(
    dirty: Dirty,
    sums: Sums,
    time: Int64s,
    op: Int8s,
    block: Int32s,
    aged: int,
    until: int,
    look: int,
    now: int,
    delay: int,
    scan: int,
    whole: bool,
) -> tuple[int, int]:
    """Do the looks up to `now`; returns the first operation no look saw as old, and the next look."""
    while look <= now:
        while aged < until and time[aged] + delay <= look:
            if op[aged] == _WRITE:
                _clean_from(dirty, sums, block[aged], aged, look, whole)
            aged += 1
        if aged == until and look + scan <= now:
            # Nothing is dirty that a later look would find, before the next operation.
            look += (now - look) // scan * scan
        look += scan
    return aged, look


@kernel
def _clean_from(dirty: Dirty, sums: Sums, b: int, began: int, now: int, whole: bool) -> None:
    """Write a block back in the sizes in which it is dirty since an operation, and its file with it."""
    bits = np.uint32(0)
    for g in range(sums.dirty.size):
        bit = np.uint32(1) << np.uint32(g)
        if dirty.bits[b] & bit and dirty.since[b, g if dirty.mixed[b] else 0] == began:
            bits |= bit
    if bits == 0:
        return
    if not whole:
        clean(dirty, sums, b, bits, now, _DELAYED)
        return
    other = dirty.head[dirty.file[b]]
    while other >= 0:
        older = dirty.older[other]
        clean(dirty, sums, other, bits & dirty.bits[other], now, _DELAYED)
        other = older


@kernel
def sample(
    samples: Samples,
    m: int,
    now: int,
    dirty: Dirty,
    sums: Sums,
    time: Int64s,
    op: Int8s,
    block: Int32s,
    oldest: Int64s,
    until: int,
) -> None:
    """Note what a crash would cost now; `oldest` has by size the operation that began the oldest byte."""
    for g in range(sums.dirty.size):
        samples.bytes[m, g] = sums.dirty[g]
        samples.files[m, g] = sums.files[g]
        samples.promised[m, g] = sums.promised[g]
        at = oldest[g]
        while at < until and not _began(dirty, op, block, at, g):
            at += 1
        oldest[g] = at
        samples.oldest[m, g] = now - time[at] if at < until else -1


@kernel
def _began(dirty: Dirty, op: Int8s, block: Int32s, at: int, g: int) -> bool:
    """Return whether an operation began bytes that are dirty."""
    b = block[at]
    if op[at] != _WRITE or not (dirty.bits[b] >> np.uint32(g)) & np.uint32(1):
        return False
    return bool(dirty.since[b, g if dirty.mixed[b] else 0] == at)
