# SPDX-License-Identifier: Apache-2.0
"""Misses and write-backs of an LRU cache of every size, in one pass (Mattson et al. 1970).

The place of a block in the stack of `bands` is how many blocks and holes are behind it on a time line, which
a tree of sums counts. A block is dirty in caches from a level on: a write sets it to 1, and a read at place
q to at least q, because smaller caches had written it back before. A CUT leaves its block dirty.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from riobed_caches.compiled import Int8s, Int32s, Int64s, kernel
from riobed_caches.stream.ops import Op, Stream

_READ, _WRITE, _FSYNC, _RECALL = int(Op.READ), int(Op.WRITE), int(Op.FSYNC), int(Op.RECALL)
_DELETE, _INVALIDATE, _CUT, _CLOSE = int(Op.DELETE), int(Op.INVALIDATE), int(Op.CUT), int(Op.CLOSE)
# Behind every size.
_FAR = 2**30
_NOTHING, _HOLE = -1, -2


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

    Takes memory for 4 places a block, and O(log n) time an operation.
    """
    sums = np.zeros((3, largest + 2), np.int64)
    order = np.argsort(stream.client[stream.block], kind="stable") if stream.clients > 1 else slice(None)
    op, block = stream.op[order], stream.block[order]
    client = stream.client[block]
    ends = np.searchsorted(client, np.arange(stream.clients + 1))
    places, levels = np.zeros(stream.blocks, np.int32), np.full(stream.blocks, _FAR, np.int32)
    for first, last in pairwise(ends):
        blocks = len(np.unique(block[first:last]))
        size = 1 << (4 * blocks + 16).bit_length()
        at, tree = np.full(size + 1, _NOTHING, np.int32), np.zeros(size + 1, np.int32)
        holes = np.zeros(size + 1, np.int32)
        _run(op[first:last], block[first:last], largest, on_fsync, places, levels, at, tree, holes, sums)
    misses, out, remaining = np.cumsum(sums, axis=1)[:, 1:-1]
    return EverySize(misses, out, remaining)


@kernel
def _run(
    op: Int8s,
    block: Int32s,
    largest: int,
    on_fsync: bool,
    places: Int32s,
    levels: Int32s,
    at: Int32s,
    tree: Int32s,
    holes: Int32s,
    sums: Int64s,
) -> None:
    """Run one client; `sums` has differences from one size to the next: of misses, write-backs, remaining."""
    misses, out, remaining = sums[0], sums[1], sums[2]
    size = at.size - 1
    total, now, holed = 0, 0, 0
    for i in range(op.size):
        kind, b = op[i], block[i]
        if now == size:
            now, holed = _renumber(at, tree, places, holes)
            total = now
        p = places[b]
        q = total - _before(tree, p - 1) if p else _FAR
        if kind <= _WRITE:
            _span(misses, 1, q, largest)
            _span(out, levels[b], q, largest)
            levels[b] = 1 if kind == _WRITE else max(levels[b], q)
            gone = _free(at, holes, p, holed)
            if holed and (p == 0 or holes[1] > p):
                holed = _fill(holes, holed, p)
            if gone:
                at[gone] = _NOTHING
                _add(tree, gone, -1)
                total -= 1
            if p and gone != p:
                at[p] = _HOLE
            now += 1
            total += 1
            at[now], places[b] = b, now
            _add(tree, now, 1)
        elif p and kind not in (_CUT, _CLOSE):
            if kind != _FSYNC or on_fsync:
                _span(out, levels[b], q, largest)
                if kind in (_FSYNC, _RECALL, _INVALIDATE):
                    # It goes out where it is still cached and dirty.
                    _span(out, max(levels[b], q), largest + 1, largest)
                levels[b] = _FAR
            if kind in (_DELETE, _INVALIDATE):
                places[b], at[p] = 0, _HOLE
                holed = _push(holes, holed, p)
    for i in range(1, now + 1):
        b = at[i]
        if b >= 0:
            q = total - _before(tree, i - 1)
            _span(out, levels[b], q, largest)
            _span(remaining, max(levels[b], q), largest + 1, largest)
            places[b] = 0


@kernel
def _span(sums: Int64s, first: int, last: int, largest: int) -> None:
    """Add 1 to the sizes from `first` to before `last`."""
    first, last = min(first, largest + 1), min(last, largest + 1)
    if first < last:
        sums[first] += 1
        sums[last] -= 1


@kernel
def _before(tree: Int32s, i: int) -> int:
    """Return how many blocks and holes there are on the time line up to `i` (Fenwick 1994)."""
    total = 0
    while i > 0:
        total += tree[i]
        i -= i & -i
    return total


@kernel
def _add(tree: Int32s, i: int, more: int) -> None:
    while i < tree.size:
        tree[i] += more
        i += i & -i


@kernel
def _free(at: Int32s, holes: Int32s, p: int, holed: int) -> int:
    """Return which place goes when a block at `p` (0: none) gets the newest: the topmost hole, or its own."""
    return holes[1] if holed and (p == 0 or holes[1] > p) else p


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
def _renumber(at: Int32s, tree: Int32s, places: Int32s, holes: Int32s) -> tuple[int, int]:
    """Close the gaps of the time line; returns its last place, and how many holes there are."""
    now = 0
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
    for i in range(1, tree.size):
        tree[i] = 1 if i <= now else 0
    for i in range(1, tree.size):
        j = i + (i & -i)
        if j < tree.size:
            tree[j] += tree[i]
    return now, holed
