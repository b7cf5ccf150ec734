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


def cached(memory: bytes | mmap, byte: int) -> int | None:
    """Return where the cache in `memory` has a byte of the disk; None if only the disk has it.

    InfraError if there is no cache in it.
    """
    magic, _, block_size, _, blocks, _ = _SUPERBLOCK.unpack_from(memory)
    end = _ENTRIES + blocks * _ENTRY.size
    if magic != _MAGIC or end > len(memory):
        raise InfraError("planted: the NVDIMM has no cache of the disk")
    sector = byte // block_size * (block_size // _SECTOR)
    newest, number = None, -1
    for index, (of, written) in enumerate(_ENTRY.iter_unpack(memory[_ENTRIES:end])):
        if of == sector and written != _UNUSED and written > number:
            newest, number = index, written
    if newest is None:
        return None
    first_block = -(-end // block_size) * block_size
    return int(first_block + newest * block_size + byte % block_size)
