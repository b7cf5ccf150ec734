# SPDX-License-Identifier: Apache-2.0
"""Volatile memory for clean blocks, NVRAM for dirty ones: NVLRU, NBM and NV-MIN (003, 2 to 4).

All three are one cache with other keys. A write goes to NVRAM only; a block that is in volatile memory moves
there. If NVRAM is full, the dirty block with the smallest key is written to storage, and a clean copy of it
may go to volatile memory. What a read misses goes to volatile memory, in place of the block with the smallest
key. Storage accesses (003, 2) are READ_MISSES and BLOCKS_OUT; what is dirty at the end is in REMAINING.

003 has no recalls and no deletions. Here a recalled block stays in NVRAM, clean, until it is replaced. NVRAM
accesses and bytes on the bus are counted as in `unified`.
"""

from typing import NamedTuple

import numpy as np

from riobed_caches.compiled import Int8s, Int32s, Int64s, kernel
from riobed_caches.models.count import Count
from riobed_caches.models.memories import NV, VOLATILE, Memories, drop, empty, first, has, held, put
from riobed_caches.models.neighbours import last_of, next_of
from riobed_caches.models.traffic import (
    NEVER,
    check_size,
    command,
    copy_to_volatile,
    dirty_bytes,
    leave_volatile,
    miss,
    send,
    write,
)
from riobed_caches.stream.ops import Op, Stream

# The block is not worth a place in volatile memory.
_WORTHLESS = np.iinfo(np.int64).min
_GONE = (Op.DELETE, Op.INVALIDATE)


class _Keys(NamedTuple):
    """By operation, int64: the keys of its block after it, in either memory; what a copy of it is `worth`."""

    nv: Int64s
    volatile: Int64s
    worth: Int64s


def nvlru(stream: Stream, volatile_blocks: int, nv_blocks: int, at: Int64s = NEVER) -> tuple[Int64s, Int64s]:
    """Return counts (int64, by Count), and the dirty bytes before each operation of `at` (int64).

    NVRAM replaces the block that was accessed (read or written) the longest ago, and volatile memory the one
    that was read the longest ago (003, 4). No copy is made: 003 says that NVLRU removes its victim.

    Raises TraceError if a memory has less than one block, or `at` does not ascend from 0 to the number of
    operations.
    """
    now = np.arange(len(stream.op))
    keys = _Keys(now, now, np.full(len(stream.op), _WORTHLESS))
    return _counted(stream, volatile_blocks, nv_blocks, keys, at)


def nbm(stream: Stream, volatile_blocks: int, nv_blocks: int, at: Int64s = NEVER) -> tuple[Int64s, Int64s]:
    """Return the same for NBM (003, 3 and 4), which keeps the histories of reads and of writes apart.

    NVRAM replaces the block that was written the longest ago (the LRW list), and volatile memory the one that
    was read the longest ago (the LRR list). A victim of NVRAM is copied to volatile memory "if it is recently
    read". 003 gives no pseudo-code; three things are read into it. Recently read means that there is room in
    volatile memory and the block was ever read, or that it was read later than the block which volatile
    memory would replace: the rule of NV-MIN, with the past for the future. A read of a dirty block changes
    only the history of reads. A block's history lasts until the block is deleted or invalidated.
    """
    read = last_of(stream, Op.READ, _GONE)
    keys = _Keys(last_of(stream, Op.WRITE, ()), read, np.where(read < 0, _WORTHLESS, read))
    return _counted(stream, volatile_blocks, nv_blocks, keys, at)


def nv_min(stream: Stream, volatile_blocks: int, nv_blocks: int, at: Int64s = NEVER) -> tuple[Int64s, Int64s]:
    """Return the same for NV-MIN (003, 2), which knows the future.

    003 calls it optimal, without a proof. It is not: with one volatile and two safe blocks it needs 4 storage
    accesses for w4 w2 w0 r3 r2 w4 w2, and 3 suffice.

    NVRAM replaces the block whose next write is the furthest away. Volatile memory replaces a block whose
    next access is a write, else the one whose next read is the furthest away. A victim of NVRAM that will be
    read, also after a write, is copied to volatile memory, if there is room, or a block there whose next
    access is a write, or one that will be read later than the victim.

    A deletion counts as a write to a block in NVRAM, because the block then leaves without an access to
    storage. A recall or invalidation ends the future of a block in NVRAM, and a deletion or invalidation that
    of its reads. Of several blocks that are never accessed again, the one with the largest number goes.
    """
    end = len(stream.op)
    written = next_of(stream, (Op.WRITE, Op.DELETE), (Op.RECALL, Op.INVALIDATE))
    read = next_of(stream, (Op.READ,), _GONE)
    accessed = next_of(stream, (Op.READ, Op.WRITE), _GONE)
    keys = _Keys(
        -written,
        -np.where(read == accessed, read, end + stream.block),
        np.where(read < end, -read, _WORTHLESS),
    )
    return _counted(stream, volatile_blocks, nv_blocks, keys, at)


def _counted(
    stream: Stream, volatile_blocks: int, nv_blocks: int, keys: _Keys, at: Int64s
) -> tuple[Int64s, Int64s]:
    check_size(volatile_blocks, 1, "volatile memory")
    check_size(nv_blocks, 1, "NVRAM")
    memories, sizes = empty(stream), (volatile_blocks, nv_blocks)

    def run(start: int, stop: int) -> None:
        _run(start, stop, stream.op, stream.block, stream.lo, stream.hi, memories, sizes, keys)

    return memories.counts, dirty_bytes(run, memories.counts, len(stream.op), at)


@kernel
def _run(
    start: int,
    stop: int,
    ops: Int8s,
    blocks: Int32s,
    lo: Int32s,
    hi: Int32s,
    memories: Memories,
    sizes: tuple[int, int],
    keys: _Keys,
) -> None:
    """Run the operations from `start` to before `stop`."""
    for i in range(start, stop):
        op, block = ops[i], blocks[i]
        about = memories.blocks[block]
        if op == Op.READ:
            if has(memories, NV, block):
                memories.counts[Count.NV_READS] += 1
                put(memories, NV, block, keys.nv[i])
            else:
                if not has(memories, VOLATILE, block):
                    miss(memories, block)
                    if held(memories, VOLATILE, about.client) == sizes[VOLATILE]:
                        drop(memories, VOLATILE, first(memories, VOLATILE, about.client).block)
                put(memories, VOLATILE, block, keys.volatile[i])
        elif op == Op.WRITE:
            if not has(memories, NV, block):
                leave_volatile(memories, block, lo[i], hi[i])
                if held(memories, NV, about.client) == sizes[NV]:
                    _replace(memories, sizes, keys, about.client)
            put(memories, NV, block, keys.nv[i])
            write(memories, block, lo[i], hi[i])
        else:
            command(memories, op, block, lo[i])
            continue
        about.last_access = i


@kernel
def _replace(memories: Memories, sizes: tuple[int, int], keys: _Keys, client: int) -> None:
    """Make room in NVRAM."""
    victim = first(memories, NV, client).block
    send(memories, victim, Count.REPLACED)
    drop(memories, NV, victim)
    last = memories.blocks[victim].last_access
    if keys.worth[last] != _WORTHLESS:
        copy_to_volatile(memories, sizes[VOLATILE], victim, keys.worth[last], keys.volatile[last])
