# SPDX-License-Identifier: Apache-2.0
"""Find a block in the cache that dm-writecache keeps of a disk (Linux's drivers/md/dm-writecache.c)."""

import struct
from mmap import mmap

from riobed.errors import InfraError

# struct wc_memory_superblock: magic, version, block_size, pad, n_blocks, seq_count; then an array of entries.
_SUPERBLOCK = struct.Struct("<IIIIQQ")
_MAGIC = 0x23489321
_ENTRIES = 64
# struct wc_memory_entry: original_sector, seq_count.
_ENTRY = struct.Struct("<QQ")
_UNUSED = (1 << 64) - 1
_SECTOR = 512
# The lowest bits of `original_sector` that name a block of 4096 bytes: another one among 1024 neighbours.
BLOCK_BITS = (3, 13)


def cached(memory: bytes | mmap, byte: int) -> int | None:
    """Return where the cache in `memory` has a byte of the disk; None if only the disk has it.

    InfraError if there is no cache in it.
    """
    if (newest := _newest(memory, byte)) is None:
        return None
    block_size, end = _shape(memory)
    first_block = -(-end // block_size) * block_size
    return first_block + newest * block_size + byte % block_size


def entry(memory: bytes | mmap, byte: int) -> int | None:
    """Return where the entry begins of the block that `cached` finds, with the block's first sector."""
    newest = _newest(memory, byte)
    return None if newest is None else _ENTRIES + newest * _ENTRY.size


def _shape(memory: bytes | mmap) -> tuple[int, int]:
    """Return the size of a block in bytes, and where the entries end."""
    magic, _, block_size, _, blocks, _ = _SUPERBLOCK.unpack_from(memory)
    end = _ENTRIES + blocks * _ENTRY.size
    if magic != _MAGIC or end > len(memory):
        raise InfraError("planted: the NVDIMM has no cache of the disk")
    return block_size, end


def _newest(memory: bytes | mmap, byte: int) -> int | None:
    """Return the number of the newest block of the cache with a byte of the disk."""
    block_size, end = _shape(memory)
    sector = byte // block_size * (block_size // _SECTOR)
    newest, number = None, -1
    for index, (of, written) in enumerate(_ENTRY.iter_unpack(memory[_ENTRIES:end])):
        if of == sector and written != _UNUSED and written > number:
            newest, number = index, written
    return newest
