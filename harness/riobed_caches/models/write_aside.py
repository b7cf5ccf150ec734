# SPDX-License-Identifier: Apache-2.0
"""A volatile cache whose dirty blocks have a copy in NVRAM (000, 2.1)."""

from riobed_caches.compiled import Int8s, Int32s, Int64s, kernel
from riobed_caches.models.count import Count
from riobed_caches.models.memories import NV, VOLATILE, Memories, drop, empty, first, has, held, put
from riobed_caches.models.traffic import NEVER, check_size, command, dirty_bytes, miss, send, write
from riobed_caches.stream.ops import Op, Stream


def write_aside(
    stream: Stream, volatile_blocks: int, nv_blocks: int, at: Int64s = NEVER
) -> tuple[Int64s, Int64s]:
    """Return counts (int64, by Count), and the dirty bytes before each operation of `at` (int64).

    Each client has `volatile_blocks` of volatile memory, and `nv_blocks` of NVRAM, which holds a copy of each
    dirty block and nothing else (000, 2.1). Both replace the block that was accessed (read or written; 000,
    2.5) the longest ago; a read of a dirty block counts for its copy too. A dirty block that volatile memory
    replaces is written to the server, and leaves both. One that NVRAM replaces is written too, and stays in
    volatile memory, clean. A write that misses makes room in volatile memory first. Nothing is delayed; FSYNC
    and CLOSE do nothing. A block that is clean again, because it was recalled or cut, leaves NVRAM.

    Each write is one access to NVRAM, which is never read: the server gets the volatile copy. The bus carries
    each written byte twice, to both memories (000, 2.6).

    Raises TraceError if a memory has less than one block, or `at` does not ascend from 0 to the number of
    operations.
    """
    check_size(volatile_blocks, 1, "volatile memory")
    check_size(nv_blocks, 1, "NVRAM")
    memories, sizes = empty(stream), (volatile_blocks, nv_blocks)
    counts = memories.counts

    def run(start: int, stop: int) -> None:
        _run(start, stop, stream.op, stream.block, stream.lo, stream.hi, memories, sizes)

    dirty = dirty_bytes(run, counts, len(stream.op), at)
    counts[Count.NV_READS] = 0
    counts[Count.BUS] *= 2
    return counts, dirty


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
) -> None:
    """Run the operations from `start` to before `stop`."""
    for i in range(start, stop):
        op, block = ops[i], blocks[i]
        about = memories.blocks[block]
        if op != Op.READ and op != Op.WRITE:
            command(memories, op, block, lo[i])
            if about.begin == about.end:
                drop(memories, NV, block)
            continue
        if not has(memories, VOLATILE, block):
            if op == Op.READ:
                miss(memories, block)
            else:
                memories.counts[Count.WRITE_MISSES] += 1
            if held(memories, VOLATILE, about.client) == sizes[VOLATILE]:
                _replace(memories, VOLATILE, about.client)
        put(memories, VOLATILE, block, i)
        if op == Op.WRITE:
            if not has(memories, NV, block) and held(memories, NV, about.client) == sizes[NV]:
                _replace(memories, NV, about.client)
            write(memories, block, lo[i], hi[i])
        if about.begin < about.end:
            put(memories, NV, block, i)


@kernel
def _replace(memories: Memories, memory: int, client: int) -> None:
    """Write the least recently accessed block of a memory to the server, and make room."""
    victim = first(memories, memory, client).block
    send(memories, victim, Count.REPLACED)
    drop(memories, NV, victim)
    if memory == VOLATILE:
        drop(memories, VOLATILE, victim)
