# SPDX-License-Identifier: Apache-2.0
"""What a model counts for each size of a cache."""

from enum import IntEnum


class Count(IntEnum):
    """The counters of a model, in the order of its array.

    Blocks: READ_MISSES, WRITE_MISSES (accesses that found no block), BLOCKS_OUT (writes to the server or
    disk, one a block). Bytes: FETCHED came from the server; REPLACED, DELAYED, FSYNCED, RECALLED, CLOSED went
    to it, by cause; OVERWRITTEN, DELETED died in the cache; REMAINING are dirty at the end; GAP are bytes
    between two writes of a block that count as dirty, because a block keeps one range of them. NV_READS,
    NV_WRITES are accesses to NVRAM, one a block; BUS are bytes on the memory bus of the client (000, 2.6).

    For each model written + GAP = OVERWRITTEN + DELETED + bytes that went out + REMAINING.
    """

    READ_MISSES = 0
    WRITE_MISSES = 1
    BLOCKS_OUT = 2
    FETCHED = 3
    REPLACED = 4
    DELAYED = 5
    FSYNCED = 6
    RECALLED = 7
    CLOSED = 8
    OVERWRITTEN = 9
    DELETED = 10
    REMAINING = 11
    GAP = 12
    NV_READS = 13
    NV_WRITES = 14
    BUS = 15


COUNTS = len(Count)
