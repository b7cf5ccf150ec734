# SPDX-License-Identifier: Apache-2.0
"""The dirty bytes of blocks in caches of several sizes: one range a block and size."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from riobed_caches.compiled import Bools, Floats, Int32s, Int64s, kernel
from riobed_caches.models.count import COUNTS, Count

_OUT, _REPLACED, _DELAYED = int(Count.BLOCKS_OUT), int(Count.REPLACED), int(Count.DELAYED)
_OVERWRITTEN, _DELETED, _GAP = int(Count.OVERWRITTEN), int(Count.DELETED), int(Count.GAP)


class Dirty(NamedTuple):
    """The dirty bytes of blocks, each block in a slot of its own, in the sizes whose bits are set.

    `lo`, `hi`, `since` (the operation that began them) and `safe` (bytes that had been fsync'd) have a row a
    size, of which the first holds for all unless `mixed`. `newer` and `older` are the list of the slots of a
    file, `head` its first. `slot` is that of a block, or -1; `block` and `file` are those of a slot. `free`
    has the slots that are not used, and their number behind them.
    """

    bits: NDArray[np.uint32]
    mixed: Bools
    lo: Int32s
    hi: Int32s
    since: Int32s
    safe: Int32s
    newer: Int32s
    older: Int32s
    block: Int32s
    file: Int32s
    head: Int32s
    slot: Int32s
    free: Int32s


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


def new_dirty(blocks: int, files: int, sizes: int, most: int) -> Dirty:
    """Return clean blocks, of which at most so many may be dirty at once."""
    slots = max(min(blocks, most), 1)
    # The four of a slot are neighbours in memory.
    lo, hi, since, safe = np.moveaxis(np.zeros((sizes, slots, 4), np.int32), 2, 0)
    bits, mixed = np.zeros(slots, np.uint32), np.zeros(slots, np.bool_)
    newer, older, block, file = np.zeros((4, slots), np.int32)
    head, slot = np.full(files, -1, np.int32), np.full(blocks, -1, np.int32)
    free = np.append(np.arange(slots)[::-1], slots).astype(np.int32)
    return Dirty(bits, mixed, lo, hi, since, safe, newer, older, block, file, head, slot, free)


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
    """Make bytes of a block dirty in all sizes; it is dirty in some."""
    s, sizes = dirty.slot[b], sums.dirty.size
    every = (np.uint32(1) << np.uint32(sizes)) - np.uint32(1)
    bits = dirty.bits[s]
    if bits == every and not dirty.mixed[s]:
        more = _widen(dirty, sums, s, 0, lo, hi)
        # _widen counted what was overwritten for the first size.
        for g in range(1, sizes):
            sums.counts[_OVERWRITTEN, g] += max(hi - lo - more, 0)
            sums.counts[_GAP, g] += max(more - (hi - lo), 0)
        if more:
            for g in range(sizes):
                _grow(sums, g, more, now)
    else:
        _mix(dirty, s, sizes)
        for g in range(sizes):
            if (bits >> np.uint32(g)) & np.uint32(1):
                _grow(sums, g, _widen(dirty, sums, s, g, lo, hi), now)
            else:
                dirty.lo[g, s], dirty.hi[g, s], dirty.since[g, s], dirty.safe[g, s] = lo, hi, i, 0
                begin(sums, dirty.file[s], g, 1)
                _grow(sums, g, hi - lo, now)
    dirty.bits[s] = every


@kernel
def write_clean(dirty: Dirty, sizes: int, b: int, file: int, lo: int, hi: int, i: int) -> None:
    """Make bytes dirty of a clean block, which needs a free slot; it must be counted in each size."""
    dirty.free[-1] -= 1
    s, head = dirty.free[dirty.free[-1]], dirty.head[file]
    dirty.slot[b], dirty.block[s], dirty.file[s] = s, b, file
    dirty.bits[s], dirty.mixed[s] = (np.uint32(1) << np.uint32(sizes)) - np.uint32(1), False
    dirty.lo[0, s], dirty.hi[0, s], dirty.since[0, s], dirty.safe[0, s] = lo, hi, i, 0
    dirty.newer[s], dirty.older[s], dirty.head[file] = -1, head, s
    if head >= 0:
        dirty.newer[head] = s


@kernel
def _mix(dirty: Dirty, s: int, sizes: int) -> None:
    """Give each size a row of its own."""
    if not dirty.mixed[s]:
        dirty.mixed[s] = True
        for g in range(1, sizes):
            dirty.lo[g, s], dirty.hi[g, s] = dirty.lo[0, s], dirty.hi[0, s]
            dirty.since[g, s], dirty.safe[g, s] = dirty.since[0, s], dirty.safe[0, s]


@kernel
def begin(sums: Sums, file: int, g: int, number: int) -> None:
    """Count some blocks of a file that were clean in a size, and are dirty now, but for their bytes."""
    if sums.blocks[file, g] == 0:
        sums.files[g] += 1
    sums.blocks[file, g] += number


@kernel
def _grow(sums: Sums, g: int, more: int, now: int) -> None:
    sums.dirty[g] += more
    sums.area[g] -= more * float(now)
    sums.worst[g] = max(sums.worst[g], sums.dirty[g])


@kernel
def _widen(dirty: Dirty, sums: Sums, s: int, g: int, lo: int, hi: int) -> int:
    """Add a write to the dirty range of a row, and return by how many bytes it grew."""
    old = dirty.hi[g, s] - dirty.lo[g, s]
    dirty.lo[g, s] = min(dirty.lo[g, s], lo)
    dirty.hi[g, s] = max(dirty.hi[g, s], hi)
    more = dirty.hi[g, s] - dirty.lo[g, s] - old
    sums.counts[_OVERWRITTEN, g] += max(hi - lo - more, 0)
    sums.counts[_GAP, g] += max(more - (hi - lo), 0)
    return int(more)


@kernel
def clean(dirty: Dirty, sums: Sums, b: int, now: int, cause: int) -> None:
    """Make a block clean in all sizes: its bytes went out, or died."""
    s = dirty.slot[b]
    if s >= 0:
        _clean(dirty, sums, s, dirty.bits[s], now, cause)


@kernel
def _clean(dirty: Dirty, sums: Sums, s: int, bits: np.uint32, now: int, cause: int) -> None:
    """Make a block clean in the sizes of `bits`, in which it is dirty."""
    if bits == 0:
        return
    for g in range(sums.dirty.size):
        if (bits >> np.uint32(g)) & np.uint32(1):
            _grow(sums, g, -_lose(dirty, sums, s, g, cause), now)
    _forget(dirty, s, bits)


@kernel
def replaced(dirty: Dirty, sums: Sums, b: int, g: int) -> int:
    """Make a block clean in one size, and return how many bytes went out, which `sums` has still as dirty."""
    s, bit = dirty.slot[b], np.uint32(1) << np.uint32(g)
    if s < 0 or dirty.bits[s] & bit == 0:
        return 0
    size = _lose(dirty, sums, s, g, _REPLACED)
    _forget(dirty, s, bit)
    return size


@kernel
def _lose(dirty: Dirty, sums: Sums, s: int, g: int, cause: int) -> int:
    """Count what a size loses with a block that was dirty, but for its bytes, which are returned."""
    row = g if dirty.mixed[s] else 0
    size = int(dirty.hi[row, s] - dirty.lo[row, s])
    sums.counts[cause, g] += size
    if cause != _DELETED:
        sums.counts[_OUT, g] += 1
    sums.promised[g] -= dirty.safe[row, s]
    left = sums.blocks[dirty.file[s], g] - 1
    sums.blocks[dirty.file[s], g] = left
    if left == 0:
        sums.files[g] -= 1
    return size


@kernel
def _forget(dirty: Dirty, s: int, bits: np.uint32) -> None:
    """Clear bits of a block, and with the last give up its slot."""
    dirty.bits[s] &= ~bits
    if dirty.bits[s] == 0:
        older, newer = dirty.older[s], dirty.newer[s]
        if newer >= 0:
            dirty.older[newer] = older
        else:
            dirty.head[dirty.file[s]] = older
        if older >= 0:
            dirty.newer[older] = newer
        dirty.slot[dirty.block[s]] = -1
        dirty.free[dirty.free[-1]] = s
        dirty.free[-1] += 1


@kernel
def cut(dirty: Dirty, sums: Sums, b: int, end: int, now: int) -> None:
    """Let the dirty bytes from `end` on die."""
    s, sizes = dirty.slot[b], sums.dirty.size
    if s < 0:
        return
    _mix(dirty, s, sizes)
    bits = dirty.bits[s]
    for g in range(sizes):
        bit = np.uint32(1) << np.uint32(g)
        if bits & bit and dirty.hi[g, s] > end:
            if dirty.lo[g, s] >= end:
                _clean(dirty, sums, s, bit, now, _DELETED)
                continue
            gone = dirty.hi[g, s] - end
            dirty.hi[g, s] = end
            sums.counts[_DELETED, g] += gone
            _grow(sums, g, -gone, now)
            less = min(dirty.safe[g, s], gone)
            dirty.safe[g, s] -= less
            sums.promised[g] -= less


@kernel
def promise(dirty: Dirty, sums: Sums, b: int) -> None:
    """Note that the dirty bytes of a block were fsync'd, in a cache that did not write them for it."""
    s = dirty.slot[b]
    if s < 0:
        return
    for g in range(sums.dirty.size):
        if (dirty.bits[s] >> np.uint32(g)) & np.uint32(1):
            row = g if dirty.mixed[s] else 0
            sums.promised[g] += dirty.hi[row, s] - dirty.lo[row, s] - dirty.safe[row, s]
    rows = sums.dirty.size if dirty.mixed[s] else 1
    for row in range(rows):
        dirty.safe[row, s] = dirty.hi[row, s] - dirty.lo[row, s]


@kernel
def clean_old(
    dirty: Dirty,
    sums: Sums,
    time: Int64s,
    block: Int32s,
    writes: Int32s,
    aged: int,
    until: int,
    look: int,
    now: int,
    delay: int,
    scan: int,
    whole: bool,
) -> tuple[int, int]:
    """Do the looks up to `now`; returns the first of `writes` that no look saw as old, and the next look."""
    while look <= now:
        while aged < writes.size and writes[aged] < until and time[writes[aged]] + delay <= look:
            _clean_from(dirty, sums, block[writes[aged]], writes[aged], look, whole)
            aged += 1
        if (aged == writes.size or writes[aged] >= until) and look + scan <= now:
            # Nothing is dirty that a later look would find, before the next operation.
            look += (now - look) // scan * scan
        look += scan
    return aged, look


@kernel
def _clean_from(dirty: Dirty, sums: Sums, b: int, began: int, now: int, whole: bool) -> None:
    """Write a block back in the sizes in which it is dirty since an operation, and its file with it."""
    s, bits = dirty.slot[b], np.uint32(0)
    if s < 0:
        return
    for g in range(sums.dirty.size):
        bit = np.uint32(1) << np.uint32(g)
        if dirty.bits[s] & bit and dirty.since[g if dirty.mixed[s] else 0, s] == began:
            bits |= bit
    if bits == 0:
        return
    if not whole:
        _clean(dirty, sums, s, bits, now, _DELAYED)
        return
    other = dirty.head[dirty.file[s]]
    while other >= 0:
        older = dirty.older[other]
        _clean(dirty, sums, other, bits & dirty.bits[other], now, _DELAYED)
        other = older


@kernel
def sample(
    samples: Samples,
    m: int,
    now: int,
    dirty: Dirty,
    sums: Sums,
    time: Int64s,
    block: Int32s,
    writes: Int32s,
    aged: int,
    oldest: Int64s,
    until: int,
) -> None:
    """Note what a crash would cost now; `oldest` has by size which of the `writes` began the oldest byte.

    None before `aged` did.
    """
    for g in range(sums.dirty.size):
        samples.bytes[m, g] = sums.dirty[g]
        samples.files[m, g] = sums.files[g]
        samples.promised[m, g] = sums.promised[g]
        k = max(oldest[g], aged)
        while k < writes.size and writes[k] < until and not _began(dirty, block[writes[k]], writes[k], g):
            k += 1
        oldest[g] = k
        samples.oldest[m, g] = now - time[writes[k]] if k < writes.size and writes[k] < until else -1


@kernel
def _began(dirty: Dirty, b: int, at: int, g: int) -> bool:
    """Return whether an operation began bytes of its block that are dirty."""
    s = dirty.slot[b]
    if s < 0 or not (dirty.bits[s] >> np.uint32(g)) & np.uint32(1):
        return False
    return bool(dirty.since[g if dirty.mixed[s] else 0, s] == at)
