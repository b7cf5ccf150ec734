# SPDX-License-Identifier: Apache-2.0
"""Misses and write-backs of an LRU cache of every size, in one pass (Mattson et al. 1970).

The place of a block in the stack of `bands` is how many blocks and holes are behind it on a time line, which
a tree of sums counts. A block is dirty in caches from a level on: a write sets it to 1, and a read at place
q to at least q, because smaller caches had written it back before. A CUT leaves its block dirty.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from riobed_caches.compiled import Int8s, Int32s, Int64s, kernel
from riobed_caches.stream.ops import Op, Stream

_READ, _WRITE, _FSYNC, _RECALL = int(Op.READ), int(Op.WRITE), int(Op.FSYNC), int(Op.RECALL)
_DELETE, _INVALIDATE, _CUT, _CLOSE = int(Op.DELETE), int(Op.INVALIDATE), int(Op.CUT), int(Op.CLOSE)
# Behind every size.
_FAR = 2**30
_NOTHING, _HOLE = -1, -2
# A group is of so many places that counting those of one takes as long as a way through the tree.
_SHIFT = 6
_MASK = (1 << _SHIFT) - 1
_NOW, _TOTAL, _HOLED = range(3)


@dataclass(frozen=True)
class EverySize:
    """Blocks, summed over clients, for a cache of each size; element 0 is that of one block.

    `misses` of reads and writes; `out`, written back by replacement, fsync or recall; `remaining`, dirty at
    the end.
    """

    misses: Int64s
    out: Int64s
    remaining: Int64s


def every_size(stream: Stream, largest: int, *, on_fsync: bool = True) -> EverySize:
    """Run a stream through LRU caches of 1 to `largest` blocks a client that write back when they must.

    Takes memory for 2 places a block, and O(log n) time an operation.
    """
    sums = np.zeros((3, largest + 2), np.int64)
    order = np.argsort(stream.client[stream.block], kind="stable") if stream.clients > 1 else slice(None)
    op, block = stream.op[order], stream.block[order]
    client = stream.client[block]
    ends = np.searchsorted(client, np.arange(stream.clients + 1))
    places, levels = np.zeros(stream.blocks, np.int32), np.full(stream.blocks, _FAR, np.int32)
    number = np.bincount(stream.client, minlength=stream.clients)
    for (first, last), blocks in zip(pairwise(ends), number, strict=True):
        line = _new_line(int(blocks))
        _run(op[first:last], block[first:last], largest, on_fsync, places, levels, line, sums)
    misses, out, remaining = np.cumsum(sums, axis=1)[:, 1:-1]
    return EverySize(misses, out, remaining)


class _Line(NamedTuple):
    """A time line: `at` has the block at each place from 1 on, _NOTHING or _HOLE. `holes` is a heap of holes.

    `tree` has how many there are in each group of places that is full (Fenwick 1994), but for what `late`
    says: a group, and how many left it. `near` has a group and how many are before it. In `used` are the last
    place, the number of blocks and holes, and that of holes.
    """

    at: Int32s
    tree: Int32s
    holes: Int32s
    late: Int64s
    near: Int64s
    used: Int64s


def _new_line(blocks: int) -> _Line:
    """Return a time line with room for a number of blocks."""
    groups = (2 * blocks >> _SHIFT) + 2
    late, near, used = np.zeros((3, 3), np.int64)
    at = np.full(groups << _SHIFT, _NOTHING, np.int32)
    return _Line(at, np.zeros(groups + 1, np.int32), np.zeros(blocks + 2, np.int32), late, near, used)


@kernel
def _run(
    op: Int8s,
    block: Int32s,
    largest: int,
    on_fsync: bool,
    places: Int32s,
    levels: Int32s,
    line: _Line,
    sums: Int64s,
) -> None:
    """Run one client; `sums` has differences from one size to the next: of misses, write-backs, remaining."""
    misses, out, remaining = sums[0], sums[1], sums[2]
    for i in range(op.size):
        kind, b = op[i], block[i]
        if line.used[_NOW] == line.at.size - 1:
            _renumber(line, places)
        p = places[b]
        if kind <= _WRITE:
            q = line.used[_TOTAL] - _before(line, p) if p else _FAR
            _span(misses, 1, q, largest)
            _span(out, levels[b], q, largest)
            levels[b] = 1 if kind == _WRITE else max(levels[b], q)
            _access(line, b, p)
            places[b] = line.used[_NOW]
        elif p and kind not in (_CUT, _CLOSE):
            q = line.used[_TOTAL] - _before(line, p)
            if kind != _FSYNC or on_fsync:
                _span(out, levels[b], q, largest)
                if kind in (_FSYNC, _RECALL, _INVALIDATE):
                    # It goes out where it is still cached and dirty.
                    _span(out, max(levels[b], q), largest + 1, largest)
                levels[b] = _FAR
            if kind in (_DELETE, _INVALIDATE):
                places[b], line.at[p] = 0, _HOLE
                line.used[_HOLED] = _push(line.holes, line.used[_HOLED], p)
    q = line.used[_TOTAL]
    for i in range(1, line.used[_NOW] + 1):
        b = line.at[i]
        if b >= 0:
            _span(out, levels[b], q, largest)
            _span(remaining, max(levels[b], q), largest + 1, largest)
            places[b] = 0
        if b != _NOTHING:
            q -= 1


@kernel
def _access(line: _Line, b: int, p: int) -> None:
    """Move a block from its place (0: none) to the end; it leaves a hole there if it fills one behind it."""
    gone, holed = p, line.used[_HOLED]
    if holed and line.holes[1] > p:
        gone = line.holes[1]
        line.used[_HOLED] = _fill(line.holes, holed, p)
        if p:
            line.at[p] = _HOLE
    if gone:
        _remove(line, gone)
    else:
        line.used[_TOTAL] += 1
    line.used[_NOW] += 1
    now = line.used[_NOW]
    line.at[now] = b
    if now & _MASK == _MASK:
        _add(line.tree, now >> _SHIFT, _count(line.at, now & ~_MASK, now + 1))


@kernel
def _remove(line: _Line, p: int) -> None:
    """Take what is at a place off the time line."""
    group = p >> _SHIFT
    line.at[p] = _NOTHING
    if group < line.near[0]:
        line.near[1] -= 1
    if group < (line.used[_NOW] + 1) >> _SHIFT:
        if group != line.late[0]:
            _settle(line)
            line.late[0] = group
        line.late[1] += 1


@kernel
def _settle(line: _Line) -> None:
    """Bring the tree up to date."""
    if line.late[1]:
        _add(line.tree, line.late[0], -line.late[1])
        line.late[1] = 0


@kernel
def _before(line: _Line, p: int) -> int:
    """Return how many blocks and holes there are on the time line before a place."""
    group = p >> _SHIFT
    if group != line.near[0]:
        _settle(line)
        total, i = 0, group
        while i > 0:
            total += line.tree[i]
            i -= i & -i
        line.near[0], line.near[1] = group, total
    return int(line.near[1] + _count(line.at, p & ~_MASK, p))


@kernel
def _count(at: Int32s, first: int, end: int) -> int:
    """Return how many blocks and holes there are from a place to before another."""
    total = 0
    for i in range(first, end):
        total += at[i] != _NOTHING
    return total


@kernel
def _add(tree: Int32s, group: int, more: int) -> None:
    i = group + 1
    while i < tree.size:
        tree[i] += more
        i += i & -i


@kernel
def _span(sums: Int64s, first: int, last: int, largest: int) -> None:
    """Add 1 to the sizes from `first` to before `last`."""
    first, last = min(first, largest + 1), min(last, largest + 1)
    if first < last:
        sums[first] += 1
        sums[last] -= 1


@kernel
def _fill(holes: Int32s, holed: int, p: int) -> int:
    """Take the topmost hole from the heap, and put in a place that a block left; returns their number."""
    if p:
        _sink(holes, holed, p)
        return holed
    last = holes[holed]
    if holed > 1:
        _sink(holes, holed - 1, last)
    return holed - 1


@kernel
def _sink(heap: Int32s, size: int, value: int) -> None:
    """Replace the largest of a heap of `size` (from element 1 on) by a value."""
    i = 1
    while 2 * i <= size:
        j = 2 * i
        if j < size and heap[j + 1] > heap[j]:
            j += 1
        if heap[j] <= value:
            break
        heap[i] = heap[j]
        i = j
    heap[i] = value


@kernel
def _push(heap: Int32s, size: int, value: int) -> int:
    """Add a value to a heap, and return its size."""
    size += 1
    i = size
    while i > 1 and heap[i // 2] < value:
        heap[i] = heap[i // 2]
        i //= 2
    heap[i] = value
    return size


@kernel
def _renumber(line: _Line, places: Int32s) -> None:
    """Close the gaps of the time line."""
    at, holes, now = line.at, line.holes, 0
    for i in range(1, at.size):
        b = at[i]
        if b != _NOTHING:
            now += 1
            at[i] = _NOTHING
            at[now] = b
            if b >= 0:
                places[b] = now
    holed = 0
    for i in range(now, 0, -1):
        # From the topmost on, which makes it a heap.
        if at[i] == _HOLE:
            holed += 1
            holes[holed] = i
    line.used[_NOW], line.used[_HOLED] = now, holed
    line.late[1], line.near[0], line.near[1] = 0, 0, 0
    line.tree[:] = 0
    for group in range((now + 1) >> _SHIFT):
        _add(line.tree, group, _count(at, group << _SHIFT, (group + 1) << _SHIFT))
