# SPDX-License-Identifier: Apache-2.0
"""For each operation of a stream, the next or the last operation of some kinds on the same block."""

import numpy as np

from riobed_caches.compiled import Bools, Int8s, Int32s, Int64s, compiled
from riobed_caches.stream.ops import Op, Stream


def next_of(stream: Stream, wanted: tuple[Op, ...], ends: tuple[Op, ...]) -> Int64s:
    """Return int64[operations]: the number of the next operation of a wanted kind on the same block.

    It is the number of operations plus that of the block, if there is none before one that `ends` the block:
    so no two blocks have the same.
    """
    return _next(stream.op, stream.block, stream.blocks, _kinds(wanted), _kinds(ends))


def last_of(stream: Stream, wanted: Op, ends: tuple[Op, ...]) -> Int64s:
    """Return int64[operations]: the number of the last operation of this kind on the block, itself included.

    It is -1 if there was none since one that `ends` the block.
    """
    return _last(stream.op, stream.block, stream.blocks, int(wanted), _kinds(ends))


def _kinds(wanted: tuple[Op, ...]) -> Bools:
    return np.isin(list(Op), wanted)


@compiled
def _next(
    op: Int8s,
    block: Int32s,
    blocks: int,
    wanted: Bools,
    ends: Bools,
) -> Int64s:
    found = np.empty(op.size, np.int64)
    coming = op.size + np.arange(blocks)
    for i in range(op.size - 1, -1, -1):
        b = block[i]
        found[i] = coming[b]
        if wanted[op[i]]:
            coming[b] = i
        elif ends[op[i]]:
            coming[b] = op.size + b
    return found


@compiled
def _last(op: Int8s, block: Int32s, blocks: int, wanted: int, ends: Bools) -> Int64s:
    found = np.empty(op.size, np.int64)
    gone = np.full(blocks, -1)
    for i in range(op.size):
        b = block[i]
        if op[i] == wanted:
            gone[b] = i
        elif ends[op[i]]:
            gone[b] = -1
        found[i] = gone[b]
    return found
