# SPDX-License-Identifier: Apache-2.0
"""Dirty bytes of clients with NVRAM: how they come, die and go to the server, and what that counts."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from riobed_caches.compiled import Int64s, kernel
from riobed_caches.errors import TraceError
from riobed_caches.models.count import Count
from riobed_caches.models.memories import NV, VOLATILE, Memories, drop, first, held, put
from riobed_caches.stream.ops import Op

# The default of `at`: nothing is asked.
NEVER: Int64s = np.zeros(0, np.int64)


def dirty_bytes(run: Callable[[int, int], None], counts: Int64s, operations: int, at: Int64s) -> Int64s:
    """Run all operations by `run(from, to)`, and return the dirty bytes before each operation of `at`.

    An `at` of the number of operations means the end. Raises TraceError if `at` is not ascending, or has
    other numbers.
    """
    if at.size and (at[0] < 0 or at[-1] > operations or (np.diff(at) < 0).any()):
        what = f"dirty bytes are asked at operations that do not ascend from 0 to {operations}"
        raise TraceError("stream", what, "ask for others")
    found = np.zeros(at.size + 1, np.int64)
    for number, (start, stop) in enumerate(pairwise([0, *at.tolist(), operations])):
        run(start, stop)
        found[number] = counts[Count.REMAINING]
    return found[:-1]


def check_size(blocks: int, least: int, memory: str) -> None:
    """Raise TraceError if a memory has fewer than `least` blocks."""
    if blocks < least:
        raise TraceError("stream", f"{blocks} blocks of {memory} are too few", f"give at least {least}")


@kernel
def write(memories: Memories, block: int, lo: int, hi: int) -> None:
    """Make bytes dirty. One range is kept a block: what lies between two writes becomes dirty too.

    A write is one access to NVRAM, and its bytes cross the memory bus once.
    """
    counts, about = memories.counts, memories.blocks[block]
    counts[Count.NV_WRITES] += 1
    counts[Count.BUS] += hi - lo
    if about.begin < about.end:
        overlap = min(hi, about.end) - max(lo, about.begin)
        counts[Count.OVERWRITTEN] += max(overlap, 0)
        counts[Count.GAP] += max(-overlap, 0)
        lo, hi = min(lo, about.begin), max(hi, about.end)
    counts[Count.REMAINING] += hi - lo - (about.end - about.begin)
    about.begin, about.end = lo, hi


@kernel
def cut(memories: Memories, block: int, lo: int) -> None:
    """Let the dirty bytes from `lo` on die."""
    counts, about = memories.counts, memories.blocks[block]
    left = min(about.end, max(lo, about.begin))
    counts[Count.DELETED] += about.end - left
    counts[Count.REMAINING] -= about.end - left
    about.end = left


@kernel
def send(memories: Memories, block: int, cause: int) -> None:
    """Write the block to the server, if it is dirty; it is read from NVRAM, which alone has it."""
    counts, about = memories.counts, memories.blocks[block]
    if about.begin < about.end:
        counts[Count.NV_READS] += 1
        counts[Count.BLOCKS_OUT] += 1
        counts[cause] += about.end - about.begin
        counts[Count.REMAINING] -= about.end - about.begin
        about.end = about.begin


@kernel
def miss(memories: Memories, block: int) -> None:
    """Count a read that found no block: the whole block is fetched. A write fetches nothing."""
    memories.counts[Count.READ_MISSES] += 1
    memories.counts[Count.FETCHED] += memories.blocks[block].span


@kernel
def leave_volatile(memories: Memories, block: int, lo: int, hi: int) -> None:
    """Let volatile memory give up the block, if it has it, because bytes of it are written to NVRAM.

    If they are only a part of it, the whole block crosses the bus to NVRAM (000, 2.6).
    """
    about = memories.blocks[block]
    if about.slot[VOLATILE] < 0:
        memories.counts[Count.WRITE_MISSES] += 1
    elif lo > 0 or hi < about.span:
        memories.counts[Count.BUS] += about.span
    drop(memories, VOLATILE, block)


@kernel
def copy_to_volatile(memories: Memories, size: int, block: int, worth: int, key: int) -> None:
    """Put a clean copy of a block that left NVRAM into volatile memory, which holds `size` blocks.

    It goes there if there is room, or in place of the first block, if the key of that is below `worth`. The
    whole block crosses the bus (000, 2.6).
    """
    about = memories.blocks[block]
    if size == 0:
        return
    if held(memories, VOLATILE, about.client) == size:
        old = first(memories, VOLATILE, about.client)
        if old.key > worth:
            return
        drop(memories, VOLATILE, old.block)
    memories.counts[Count.BUS] += about.span
    put(memories, VOLATILE, block, key)


@kernel
def command(memories: Memories, op: int, block: int, lo: int) -> None:
    """Do what neither reads nor writes. FSYNC and CLOSE need nothing: NVRAM is safe.

    RECALL and INVALIDATE write a dirty block to the server; INVALIDATE and DELETE remove it.
    """
    if op == Op.CUT:
        cut(memories, block, lo)
    elif op == Op.DELETE:
        cut(memories, block, 0)
    elif op == Op.RECALL or op == Op.INVALIDATE:
        send(memories, block, Count.RECALLED)
    if op == Op.DELETE or op == Op.INVALIDATE:
        drop(memories, VOLATILE, block)
        drop(memories, NV, block)
