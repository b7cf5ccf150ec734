# SPDX-License-Identifier: Apache-2.0
"""The volatile memory and the NVRAM of each client: which blocks they hold, in the order of a key."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from riobed_caches.compiled import kernel
from riobed_caches.models.count import COUNTS
from riobed_caches.stream.ops import Stream

VOLATILE, NV = 0, 1

# `slot` is the block's place in either memory, or -1. The bytes from `begin` to before `end` are dirty.
# The last four are numbers of operations, for policies; `came_in` is that of the NVRAM.
_BLOCK = np.dtype(
    [
        ("client", np.int32),
        ("span", np.int32),
        ("slot", np.int32, 2),
        ("begin", np.int32),
        ("end", np.int32),
        ("came_in", np.int64),
        ("last_access", np.int64),
        ("last_write", np.int64),
        ("next_access", np.int64),
    ],
    align=True,
)
_SLOT = np.dtype([("key", np.int64), ("block", np.int32)], align=True)
_CLIENT = np.dtype([("start", np.int64), ("used", np.int64, 2)], align=True)


class Memories(NamedTuple):
    """`blocks` and `clients` are records by number; `slots` are by memory (VOLATILE, NV) and slot.

    A client has the slots from `start` on, `used` of them in use in each memory: a binary heap (Williams,
    Algorithm 232, CACM 7(6), 1964) with the smallest key first. `counts` is by Count.
    """

    blocks: NDArray[Any]
    clients: NDArray[Any]
    slots: NDArray[Any]
    counts: NDArray[np.int64]


def empty(stream: Stream) -> Memories:
    """Return memories that hold nothing; each client has slots for all blocks that it ever uses."""
    blocks = np.zeros(stream.blocks, _BLOCK)
    blocks["client"] = stream.client
    blocks["span"] = stream.span
    blocks["slot"] = blocks["last_access"] = blocks["last_write"] = -1
    clients = np.zeros(stream.clients, _CLIENT)
    of_client = np.bincount(stream.client, minlength=stream.clients)
    clients["start"] = np.cumsum(of_client) - of_client
    return Memories(blocks, clients, np.zeros((2, stream.blocks), _SLOT), np.zeros(COUNTS, np.int64))


@kernel
def has(memories: Memories, memory: int, block: int) -> bool:
    """Return whether the memory holds the block."""
    return bool(memories.blocks[block].slot[memory] >= 0)


@kernel
def held(memories: Memories, memory: int, client: int) -> int:
    """Return how many blocks of the client the memory holds."""
    return int(memories.clients[client].used[memory])


@kernel
def first(memories: Memories, memory: int, client: int) -> Any:
    """Return the `block` of the client with the smallest `key`; the memory must hold one."""
    return memories.slots[memory, memories.clients[client].start]


@kernel
def put(memories: Memories, memory: int, block: int, key: int) -> None:
    """Take in a block, or change the key of one that is there."""
    client = memories.clients[memories.blocks[block].client]
    slot = memories.blocks[block].slot[memory]
    if slot < 0:
        slot = client.start + client.used[memory]
        client.used[memory] += 1
    _sift(memories, memory, client, slot, block, key)


@kernel
def drop(memories: Memories, memory: int, block: int) -> None:
    """Remove a block, if it is there."""
    slot = memories.blocks[block].slot[memory]
    if slot < 0:
        return
    client = memories.clients[memories.blocks[block].client]
    memories.blocks[block].slot[memory] = -1
    client.used[memory] -= 1
    last = client.start + client.used[memory]
    if slot != last:
        moved = memories.slots[memory, last]
        _sift(memories, memory, client, slot, moved.block, moved.key)


@kernel
def _sift(memories: Memories, memory: int, client: Any, slot: int, block: int, key: int) -> None:
    """Put the block into the free slot, or where the heap wants it instead."""
    start, used, slots = client.start, client.used[memory], memories.slots
    at = slot - start
    while at > 0 and key < slots[memory, start + (at - 1) // 2].key:
        _move(memories, memory, start + (at - 1) // 2, start + at)
        at = (at - 1) // 2
    while 2 * at + 1 < used:
        child = 2 * at + 1
        if child + 1 < used and slots[memory, start + child + 1].key < slots[memory, start + child].key:
            child += 1
        if key <= slots[memory, start + child].key:
            break
        _move(memories, memory, start + child, start + at)
        at = child
    slots[memory, start + at].block = block
    slots[memory, start + at].key = key
    memories.blocks[block].slot[memory] = start + at


@kernel
def _move(memories: Memories, memory: int, slot: int, to: int) -> None:
    block = memories.slots[memory, slot].block
    memories.slots[memory, to].block = block
    memories.slots[memory, to].key = memories.slots[memory, slot].key
    memories.blocks[block].slot[memory] = to
