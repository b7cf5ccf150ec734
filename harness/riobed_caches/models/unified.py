# SPDX-License-Identifier: Apache-2.0
"""Volatile memory and NVRAM as one cache: a block is in either of them, a dirty block in NVRAM (000, 2.1)."""

import numpy as np

from riobed_caches.compiled import Int8s, Int32s, Int64s, kernel
from riobed_caches.errors import TraceError
from riobed_caches.models.count import Count
from riobed_caches.models.memories import NV, VOLATILE, Memories, drop, empty, first, has, held, put
from riobed_caches.models.neighbours import next_of
from riobed_caches.models.policy import Policy, View, lru
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


def unified(
    stream: Stream,
    volatile_blocks: int,
    nv_blocks: int,
    policy: Policy = lru,
    at: Int64s = NEVER,
    seed: int = 0,
) -> tuple[Int64s, Int64s]:
    """Return counts (int64, by Count), and the dirty bytes before each operation of `at` (int64).

    Each client has `volatile_blocks` of volatile memory and `nv_blocks` of NVRAM (000, 2.1):

    - A write goes to NVRAM only; a block that is in volatile memory moves there. If NVRAM is full, `policy`
      chooses a victim. A dirty victim is written to the server. A clean copy of it goes to volatile memory,
      if there is room, or in place of the least recently accessed block there, if that is older. A clean
      victim is dropped, because 000 copies only what it writes back.
    - A read is served by either memory. What it misses goes to volatile memory if there is room, else to
      NVRAM if there is room, else to the memory whose least recently accessed block is the older: there it
      replaces that block, or in NVRAM the victim of `policy`, which is written to the server if it is dirty.
    - Nothing is delayed; FSYNC and CLOSE do nothing. RECALL writes a dirty block to the server, and it stays
      where it is, clean; INVALIDATE also removes it. DELETE removes a block, and CUT shortens its dirty
      range: those bytes die.

    NVRAM is accessed (000, 2.6) by each write, each read that finds its block there, each fetch into it, and
    each write to the server, which yields the copy too. The bus carries each written byte once, and `span`
    bytes for each copy to volatile memory and for each block that moves because a part of it is written.
    Reads of programs, and transfers from and to the server, are not counted: 000 compares what writes cost.

    Raises TraceError if `volatile_blocks` is negative, `nv_blocks` is below 1, `at` does not ascend from 0 to
    the number of operations, or `policy` returns a block that NVRAM does not hold.
    """
    check_size(volatile_blocks, 0, "volatile memory")
    check_size(nv_blocks, 1, "NVRAM")
    memories, sizes = empty(stream), (volatile_blocks, nv_blocks)
    coming = next_of(stream, (Op.READ, Op.WRITE), (Op.DELETE, Op.INVALIDATE))
    coming = np.minimum(coming, len(stream.op))
    ops = (stream.op, stream.block, stream.lo, stream.hi, coming)

    def run(start: int, stop: int) -> None:
        _run(start, stop, *ops, memories, sizes, policy, seed)

    try:
        return memories.counts, dirty_bytes(run, memories.counts, len(stream.op), at)
    except IndexError:
        what = "the policy chose a block that its memory does not hold"
        raise TraceError("stream", what, "let it return one of view.blocks") from None


def single(
    stream: Stream, blocks: int, policy: Policy, at: Int64s = NEVER, seed: int = 0
) -> tuple[Int64s, Int64s]:
    """Return the same of one cache of clean and dirty blocks a client, which writes back what it replaces.

    It is `unified` without volatile memory; there is no NVRAM, so its accesses and the bus are not counted.
    """
    counts, dirty = unified(stream, 0, blocks, policy, at, seed)
    counts[[Count.NV_READS, Count.NV_WRITES, Count.BUS]] = 0
    return counts, dirty


@kernel
def _run(
    start: int,
    stop: int,
    ops: Int8s,
    blocks: Int32s,
    lo: Int32s,
    hi: Int32s,
    coming: Int64s,
    memories: Memories,
    sizes: tuple[int, int],
    policy: Policy,
    seed: int,
) -> None:
    """Run the operations from `start` to before `stop`; `coming` has the next access of each one's block."""
    for i in range(start, stop):
        op, block = ops[i], blocks[i]
        about = memories.blocks[block]
        if op == Op.READ:
            if has(memories, NV, block):
                memories.counts[Count.NV_READS] += 1
                put(memories, NV, block, i)
            elif has(memories, VOLATILE, block):
                put(memories, VOLATILE, block, i)
            else:
                miss(memories, block)
                _fetch(memories, sizes, policy, block, i, seed)
        elif op == Op.WRITE:
            if not has(memories, NV, block):
                leave_volatile(memories, block, lo[i], hi[i])
                if held(memories, NV, about.client) == sizes[NV]:
                    victim, dirty = _evict(memories, policy, about.client, i, seed)
                    if dirty:
                        age = memories.blocks[victim].last_access
                        copy_to_volatile(memories, sizes[VOLATILE], victim, age, age)
                about.came_in = i
            put(memories, NV, block, i)
            write(memories, block, lo[i], hi[i])
            about.last_write = i
        else:
            command(memories, op, block, lo[i])
            continue
        about.last_access, about.next_access = i, coming[i]


@kernel
def _fetch(
    memories: Memories, sizes: tuple[int, int], policy: Policy, block: int, now: int, seed: int
) -> None:
    """Put a block that a read missed into a memory."""
    client = memories.blocks[block].client
    if held(memories, VOLATILE, client) < sizes[VOLATILE]:
        put(memories, VOLATILE, block, now)
        return
    if held(memories, NV, client) == sizes[NV]:
        if sizes[VOLATILE] > 0:
            old = first(memories, VOLATILE, client)
            if old.key < first(memories, NV, client).key:
                drop(memories, VOLATILE, old.block)
                put(memories, VOLATILE, block, now)
                return
        _evict(memories, policy, client, now, seed)
    memories.counts[Count.NV_WRITES] += 1
    memories.blocks[block].came_in = now
    put(memories, NV, block, now)


@kernel
def _evict(memories: Memories, policy: Policy, client: int, now: int, seed: int) -> tuple[int, bool]:
    """Let the policy make room in NVRAM. Return the victim, and whether it was dirty.

    Raises IndexError if NVRAM does not hold what the policy returns.
    """
    start, blocks = memories.clients[client].start, memories.blocks
    victim = policy(
        View(
            memories.slots[NV, start : start + held(memories, NV, client)]["block"],
            blocks["came_in"],
            blocks["last_access"],
            blocks["last_write"],
            blocks["next_access"],
            blocks["begin"],
            blocks["end"],
            now,
            seed,
        )
    )
    if (
        victim < 0
        or victim >= blocks.size
        or not has(memories, NV, victim)
        or blocks[victim].client != client
    ):
        raise IndexError
    dirty = blocks[victim].begin < blocks[victim].end
    send(memories, victim, Count.REPLACED)
    drop(memories, NV, victim)
    return victim, dirty
