# SPDX-License-Identifier: Apache-2.0
"""Splits what clients did to files into operations on blocks."""

from typing import NamedTuple

import numpy as np

from riobed_caches.compiled import Int8s, Int32s, Int64s, compiled, kernel
from riobed_caches.errors import TraceError
from riobed_caches.stream.grow import grown
from riobed_caches.stream.ops import BLOCK, Actions, Op, Stream

# More operations would not fit into memory, and their numbers not into the arrays of a model.
MAX_OPS = 1_000_000_000
# A model keeps bytes within a block in 32 bits, and a block of a file cache is a page or a few.
MIN_BLOCK, MAX_BLOCK = 512, 1 << 20

_READ, _WRITE, _DELETE, _CUT, _FSYNC, _RECALL, _INVALIDATE, _CLOSE = (int(op) for op in tuple(Op)[:8])
_PASSED_READ, _PASSED_WRITE, _SAFE_WRITE, _SYNC = (int(op) for op in tuple(Op)[8:])
# Lists of blocks of a pair: blocks that were used, and those written since the last FSYNC, RECALL, CLOSE.
_USED, _UNSAFE, _UNCALLED, _UNCLOSED = range(4)
_LISTS = 4
# So many neighbours in a file are neighbours in the hash table, which the processor's caches are made for.
_NEAR = 128


class _Ops(NamedTuple):
    time: Int64s
    op: Int8s
    block: Int32s
    lo: Int32s
    hi: Int32s
    used: Int64s


class _Blocks(NamedTuple):
    """Of each block its pair, number in the file and span; `slots` is a hash table of them.

    `head` has the first block of each list of a pair, `length` how many it has, `top` the largest number of
    its blocks. `following` is the next block of a list, -1 at the end, -2 if the block is not in the list.
    `used` is how many blocks there are.
    """

    pair: Int32s
    number: Int64s
    span: Int32s
    following: Int32s
    head: Int32s
    length: Int32s
    top: Int64s
    slots: Int32s
    used: Int64s


def split(actions: Actions, block_size: int = BLOCK) -> Stream:
    """Split actions into operations on blocks of `block_size` bytes.

    Raises TraceError if that is no power of two in MIN_BLOCK to MAX_BLOCK, or there are too many operations.
    """
    if block_size & (block_size - 1) or not MIN_BLOCK <= block_size <= MAX_BLOCK:
        what = f"{block_size} is no power of two from {MIN_BLOCK} to {MAX_BLOCK}"
        raise TraceError("--block", what, f"use {BLOCK}")
    moved = np.isin(actions.op, (_READ, _WRITE, _SAFE_WRITE))
    shift = block_size.bit_length() - 1
    last = (actions.end[moved] - 1) >> shift
    parts = last - (actions.start[moved] >> shift) + 1
    # In floating point, because a wrong trace may have more than 2**63 of them.
    if (number := float(parts.astype(np.float64).sum())) > MAX_OPS:
        what = f"they have {number:.3g} blocks of {block_size} bytes"
        raise TraceError("transfers", what, "use a larger --block, or a part of the trace")
    whole = (actions.time, actions.op, actions.pair, actions.start, actions.end)
    lengths = np.zeros(len(actions.client), np.int64)
    np.maximum.at(lengths, actions.pair[moved], last + 1)
    blocks = _no_blocks(len(lengths), int(min(number, lengths.sum(dtype=np.float64))))
    ops = _split(*whole, *_pairs(actions), shift, _no_ops(int(number)), blocks)
    used, known = ops.used[0], blocks.used[0]
    sizes = actions.end - actions.start
    read, written, safe, passed_read, passed_written = (
        int(sizes[actions.op == op].sum()) for op in (_READ, _WRITE, _SAFE_WRITE, _PASSED_READ, _PASSED_WRITE)
    )
    return Stream(
        time=ops.time[:used],
        op=ops.op[:used],
        block=ops.block[:used],
        lo=ops.lo[:used],
        hi=ops.hi[:used],
        client=actions.client[blocks.pair[:known]],
        file=blocks.pair[:known],
        span=blocks.span[:known],
        clients=actions.clients,
        files=len(actions.client),
        block_size=block_size,
        end=actions.last,
        read=read + passed_read,
        written=written + safe + passed_written,
        passed_read=passed_read,
        passed_written=passed_written,
    )


def _pairs(actions: Actions) -> tuple[Int32s, Int32s, Int32s, Int32s]:
    """Return where the pairs of each client are in a list of all, and the list; for files likewise."""

    def grouped(of: Int32s, number: int) -> tuple[Int32s, Int32s]:
        starts = np.searchsorted(np.sort(of), np.arange(number + 1))
        return starts.astype(np.int32), np.argsort(of, kind="stable").astype(np.int32)

    return *grouped(actions.client, actions.clients), *grouped(actions.file, actions.files)


def _no_ops(number: int) -> _Ops:
    """Return room for the operations of so many reads and writes; some add a second one.

    Large arrays of numpy are of large pages, which the kernel gives sooner than many small ones. Those that
    compiled code makes are not.
    """
    n = max(16, 2 * number)
    block, lo, hi = (np.empty(n, np.int32) for _ in range(3))
    return _Ops(np.empty(n, np.int64), np.empty(n, np.int8), block, lo, hi, np.zeros(1, np.int64))


def _no_blocks(pairs: int, number: int) -> _Blocks:
    """Return room for a number of blocks."""
    return _Blocks(
        np.empty(number, np.int32),
        np.empty(number, np.int64),
        np.zeros(number, np.int32),
        np.full(number * _LISTS, -2, np.int32),
        np.full(pairs * _LISTS, -1, np.int32),
        np.zeros(pairs * _LISTS, np.int32),
        np.full(pairs, -1, np.int64),
        np.full(max(16, 1 << (2 * number).bit_length()), -1, np.int32),
        np.zeros(1, np.int64),
    )


@compiled
def _split(
    time: Int64s,
    op: Int8s,
    pair: Int32s,
    start: Int64s,
    end: Int64s,
    of_client: Int32s,
    by_client: Int32s,
    of_file: Int32s,
    by_file: Int32s,
    shift: int,
    ops: _Ops,
    blocks: _Blocks,
) -> _Ops:
    """Return the operations; `of_client` to `by_file` are `_pairs`."""
    for i in range(time.size):
        now, kind, p = time[i], op[i], pair[i]
        if kind in (_READ, _WRITE, _SAFE_WRITE):
            parts = ((end[i] - 1) >> shift) - (start[i] >> shift) + 1
            ops = _room(ops, 2 * parts)
            _transfer(ops, blocks, now, kind, p, start[i], end[i], shift)
        elif kind in (_CUT, _DELETE):
            for k in range(of_file[p], of_file[p + 1]):
                ops = _room(ops, blocks.length[by_file[k] * _LISTS + _USED])
                _cut(ops, blocks, now, by_file[k], start[i] if kind == _CUT else 0, shift)
        elif kind == _SYNC:
            for k in range(of_client[p], of_client[p + 1]):
                ops = _room(ops, blocks.length[by_client[k] * _LISTS + _UNSAFE])
                _all_of(ops, blocks, now, _UNSAFE, by_client[k], _FSYNC)
        elif kind in (_FSYNC, _RECALL, _CLOSE, _INVALIDATE):
            which = _UNSAFE if kind == _FSYNC else _UNCALLED if kind == _RECALL else _UNCLOSED
            which = _USED if kind == _INVALIDATE else which
            ops = _room(ops, blocks.length[p * _LISTS + which])
            _all_of(ops, blocks, now, which, p, kind)
    return ops


@compiled
def _room(ops: _Ops, more: int) -> _Ops:
    """Return arrays that have room for more operations."""
    while ops.used[0] + more > ops.time.size:
        ops = _Ops(grown(ops.time), grown(ops.op), grown(ops.block), grown(ops.lo), grown(ops.hi), ops.used)
    return ops


@kernel
def _emit(ops: _Ops, time: int, op: int, block: int, lo: int, hi: int) -> None:
    """Add an operation; there is room for it."""
    n = ops.used[0]
    ops.time[n] = time
    ops.op[n] = op
    ops.block[n] = block
    ops.lo[n] = lo
    ops.hi[n] = hi
    ops.used[0] = n + 1


@kernel
def _transfer(
    ops: _Ops, blocks: _Blocks, now: int, kind: int, pair: int, start: int, end: int, shift: int
) -> None:
    """Read or write the blocks of a range of bytes."""
    b = -1
    for number in range(start >> shift, ((end - 1) >> shift) + 1):
        first = number << shift
        lo, hi = max(start - first, 0), min(end - first, 1 << shift)
        # Neighbours in a file are mostly neighbours in the order in which they were first used.
        b += 1
        if b == 0 or b >= blocks.used[0] or blocks.number[b] != number or blocks.pair[b] != pair:
            b = _block(blocks, pair, number)
        blocks.span[b] = max(blocks.span[b], hi)
        _enlist(blocks, _USED, b)
        _emit(ops, now, _READ if kind == _READ else _WRITE, b, lo, hi)
        if kind != _READ:
            for which in range(_UNSAFE, _LISTS):
                _enlist(blocks, which, b)
    if kind == _SAFE_WRITE:
        # All blocks are dirty before the first is written, as after an fsync.
        for number in range(start >> shift, ((end - 1) >> shift) + 1):
            _emit(ops, now, _FSYNC, _block(blocks, pair, number), 0, 0)


@kernel
def _block(blocks: _Blocks, pair: int, number: int) -> int:
    """Return the block of a pair, from the hash table, or a new one."""
    mask = blocks.slots.size - 1
    near = number & (_NEAR - 1)
    at = ((number - near) * 0x9E3779B1 + pair * 0x85EBCA77) & 0x7FFFFFFFFFFFFFFF
    at = ((at ^ (at >> 29)) + near) & mask
    b = blocks.slots[at]
    while b >= 0 and (blocks.number[b] != number or blocks.pair[b] != pair):
        at = (at + _NEAR + 1) & mask
        b = blocks.slots[at]
    if b >= 0:
        return int(b)
    b = blocks.used[0]
    blocks.slots[at] = b
    blocks.pair[b], blocks.number[b] = pair, number
    blocks.top[pair] = max(blocks.top[pair], number)
    blocks.used[0] = b + 1
    return int(b)


@kernel
def _enlist(blocks: _Blocks, which: int, b: int) -> None:
    """Put a block into a list of its pair, if it is not there."""
    at = b * _LISTS + which
    if blocks.following[at] == -2:
        head = blocks.pair[b] * _LISTS + which
        blocks.following[at] = blocks.head[head]
        blocks.head[head] = b
        blocks.length[head] += 1


@kernel
def _all_of(ops: _Ops, blocks: _Blocks, now: int, which: int, pair: int, op: int) -> None:
    """Add an operation on each block of a list, and empty the list."""
    b = blocks.head[pair * _LISTS + which]
    blocks.head[pair * _LISTS + which] = -1
    blocks.length[pair * _LISTS + which] = 0
    while b >= 0:
        _emit(ops, now, op, b, 0, 0)
        following = blocks.following[b * _LISTS + which]
        blocks.following[b * _LISTS + which] = -2
        b = following


@kernel
def _cut(ops: _Ops, blocks: _Blocks, now: int, pair: int, size: int, shift: int) -> None:
    """Delete the blocks of a pair behind a size, and cut the block that has the new end."""
    last, within = size >> shift, size & ((1 << shift) - 1)
    if blocks.top[pair] < last:
        return
    b, before = blocks.head[pair * _LISTS + _USED], -1
    while b >= 0:
        following = blocks.following[b * _LISTS + _USED]
        if blocks.number[b] > last or (blocks.number[b] == last and within == 0):
            _emit(ops, now, _DELETE, b, 0, 0)
            blocks.following[b * _LISTS + _USED] = -2
            blocks.length[pair * _LISTS + _USED] -= 1
            if before < 0:
                blocks.head[pair * _LISTS + _USED] = following
            else:
                blocks.following[before * _LISTS + _USED] = following
        else:
            if blocks.number[b] == last:
                _emit(ops, now, _CUT, b, within, 0)
            before = b
        b = following
