# SPDX-License-Identifier: Apache-2.0
"""A byte of the disk is found in dm-writecache's cache of it, or not taken to be there."""

import struct

import pytest
from riobed.errors import InfraError
from riobed.trial.control.writecache import cached, entry

BLOCK = 4096
UNUSED = (1 << 64) - 1
# The block of the disk and the number of each block of the cache.
ENTRIES = [(5, 7), (9, 8), (5, 9), (9, UNUSED), (2, UNUSED)]


def cache(magic: int = 0x23489321) -> bytes:
    header = struct.pack("<IIIIQQ", magic, 1, BLOCK, 0, len(ENTRIES), 10).ljust(64, b"\0")
    table = b"".join(struct.pack("<QQ", block * 8, number) for block, number in ENTRIES)
    blocks = b"".join(bytes([index]) * BLOCK for index in range(len(ENTRIES)))
    return (header + table).ljust(BLOCK, b"\0") + blocks


@pytest.mark.parametrize(("block", "index"), [(5, 2), (9, 1)])
def test_the_newest_copy_that_is_used_counts(block: int, index: int) -> None:
    memory = cache()
    place = cached(memory, block * BLOCK + 33)
    assert place is not None
    assert (memory[place], place % BLOCK) == (index, 33)
    begin = entry(memory, block * BLOCK + 33)
    assert begin and memory[begin : begin + 16] == struct.pack("<QQ", block * 8, ENTRIES[index][1])


@pytest.mark.parametrize("block", [2, 3])
def test_a_block_without_a_used_copy_is_on_the_disk(block: int) -> None:
    assert cached(cache(), block * BLOCK) is None


@pytest.mark.parametrize("memory", [cache(magic=0), cache()[:100]])
def test_an_nvdimm_without_a_cache_is_our_own_failure(memory: bytes) -> None:
    with pytest.raises(InfraError, match="no cache"):
        cached(memory, 0)
