# SPDX-License-Identifier: Apache-2.0
"""NVRAM that knows the future: it gives up the block whose next modification is the furthest away (000, 2.4).

A modification is a write or a deletion. A block that is recalled before that goes out in any case, so it
counts as one that is never modified. Reads do not enter: the NVRAM holds dirty blocks alone. The paper calls
it optimal in blocks; in bytes it is not, because a block may have few dirty bytes.
"""

from itertools import pairwise

import numpy as np

from riobed_caches.compiled import Int8s, Int32s, Int64s, kernel
from riobed_caches.models.count import COUNTS, Count
from riobed_caches.stream.ops import Op, Stream

_NEVER = 2**62
_WRITE, _DELETE, _CUT, _RECALL, _INVALIDATE = map(
    int, (Op.WRITE, Op.DELETE, Op.CUT, Op.RECALL, Op.INVALIDATE)
)
_OUT, _REPLACED, _RECALLED = int(Count.BLOCKS_OUT), int(Count.REPLACED), int(Count.RECALLED)
_OVERWRITTEN, _DELETED = int(Count.OVERWRITTEN), int(Count.DELETED)
_REMAINING, _GAP = int(Count.REMAINING), int(Count.GAP)


def omniscient(stream: Stream, nv_blocks: int) -> Int64s:
    """Run a stream through such an NVRAM of `nv_blocks` blocks a client; returns its Counts."""
    counts = np.zeros(COUNTS, np.int64)
    changes = np.isin(stream.op, (Op.WRITE, Op.DELETE, Op.CUT, Op.RECALL, Op.INVALIDATE))
    op, block = stream.op[changes], stream.block[changes]
    lo, hi = stream.lo[changes], stream.hi[changes]
    following = np.full(len(op), _NEVER, np.int64)
    _look_ahead(op, block, np.full(stream.blocks, _NEVER, np.int64), following)
    order = np.argsort(stream.client[block], kind="stable")
    ends = np.searchsorted(stream.client[block[order]], np.arange(stream.clients + 1))
    ranges = np.zeros((stream.blocks, 2), np.int32)
    keys = np.full(stream.blocks, -1, np.int64)
    for first, last in pairwise(ends):
        mine = order[first:last]
        heap = np.zeros((len(mine) + 2, 2), np.int64)
        _run(
            op[mine], block[mine], lo[mine], hi[mine], following[mine], nv_blocks, ranges, keys, heap, counts
        )
    left = keys >= 0
    counts[Count.REMAINING] = (ranges[left, 1] - ranges[left, 0]).sum()
    return counts


@kernel
def _look_ahead(op: Int8s, block: Int32s, coming: Int64s, following: Int64s) -> None:
    """Set `following` to the next operation that modifies the block of each; `coming` has one a block."""
    for i in range(op.size - 1, -1, -1):
        b = block[i]
        following[i] = coming[b]
        if op[i] in (_WRITE, _DELETE):
            coming[b] = i
        elif op[i] != _CUT:
            coming[b] = _NEVER


@kernel
def _run(
    op: Int8s,
    block: Int32s,
    lo: Int32s,
    hi: Int32s,
    following: Int64s,
    room: int,
    ranges: Int32s,
    keys: Int64s,
    heap: Int64s,
    counts: Int64s,
) -> None:
    """Run one client. `keys` has when a block in NVRAM is modified next, and -1 for one that is not there.

    `heap` has keys and blocks, also those of blocks that got another key or left since; its size is heap[0,
    0].
    """
    held = 0
    for i in range(op.size):
        kind, b = op[i], block[i]
        inside = keys[b] >= 0
        if kind == _WRITE:
            if inside:
                old = ranges[b, 1] - ranges[b, 0]
                ranges[b, 0], ranges[b, 1] = min(ranges[b, 0], lo[i]), max(ranges[b, 1], hi[i])
                more = ranges[b, 1] - ranges[b, 0] - old
                counts[_OVERWRITTEN] += max(hi[i] - lo[i] - more, 0)
                counts[_GAP] += max(more - (hi[i] - lo[i]), 0)
            else:
                if held == room:
                    _leave(_furthest(heap, keys), ranges, keys, counts, _REPLACED)
                    held -= 1
                ranges[b, 0], ranges[b, 1] = lo[i], hi[i]
                held += 1
            keys[b] = following[i]
            _push(heap, following[i], b)
        elif inside and kind == _CUT:
            gone = max(ranges[b, 1] - max(lo[i], ranges[b, 0]), 0)
            counts[_DELETED] += gone
            ranges[b, 1] -= gone
            if ranges[b, 1] == ranges[b, 0]:
                keys[b] = -1
                held -= 1
        elif inside:
            _leave(b, ranges, keys, counts, _DELETED if kind == _DELETE else _RECALLED)
            held -= 1


@kernel
def _leave(b: int, ranges: Int32s, keys: Int64s, counts: Int64s, cause: int) -> None:
    """Take a block out of NVRAM."""
    counts[cause] += ranges[b, 1] - ranges[b, 0]
    if cause != _DELETED:
        counts[_OUT] += 1
    keys[b] = -1


@kernel
def _furthest(heap: Int64s, keys: Int64s) -> int:
    """Return the block in NVRAM with the largest key, and of several the one with the largest number."""
    while True:
        key, b = _pop(heap)
        if keys[b] == key:
            return int(b)


@kernel
def _after(heap: Int64s, i: int, key: int, b: int) -> bool:
    """Return whether an element of the heap comes before a key and block."""
    return bool(heap[i, 0] > key or (heap[i, 0] == key and heap[i, 1] > b))


@kernel
def _push(heap: Int64s, key: int, b: int) -> None:
    heap[0, 0] += 1
    i = heap[0, 0]
    while i > 1 and not _after(heap, i // 2, key, b):
        heap[i, 0], heap[i, 1] = heap[i // 2, 0], heap[i // 2, 1]
        i //= 2
    heap[i, 0], heap[i, 1] = key, b


@kernel
def _pop(heap: Int64s) -> tuple[int, int]:
    """Take the first element of the heap."""
    out_key, out_block = heap[1, 0], heap[1, 1]
    size = heap[0, 0]
    key, b = heap[size, 0], heap[size, 1]
    size -= 1
    heap[0, 0] = size
    i = 1
    while 2 * i <= size:
        j = 2 * i
        if j < size and _after(heap, j + 1, heap[j, 0], heap[j, 1]):
            j += 1
        if not _after(heap, j, key, b):
            break
        heap[i, 0], heap[i, 1] = heap[j, 0], heap[j, 1]
        i = j
    heap[i, 0], heap[i, 1] = key, b
    return out_key, out_block
