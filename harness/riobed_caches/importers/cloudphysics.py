# SPDX-License-Identifier: Apache-2.0
"""Importers/CloudPhysics: the block traces of CloudPhysics."""

from riobed_caches.importers.blocks import SECTOR, BlockImporter
from riobed_caches.importers.importer import number

_HEAD = b"version,time,op,size,lbn"
_WRITES = frozenset((0x0A, 0x2A, 0xAA, 0x8A))
_READS = frozenset((0x08, 0x28, 0xA8, 0x88))


class CloudPhysics(BlockImporter):
    """CloudPhysics as libCacheSim's sample has it: version, time in s, SCSI operation, size, block of 512 B.

    Waldspurger et al., "Efficient MRC Construction with SHARDS", FAST 2015. Operations are those of SCSI
    (SBC-3): READ and WRITE with 6, 10, 12 or 16 bytes.
    """

    name = "cloudphysics"
    reads = "CloudPhysics block trace (CSV)"
    clock = "seconds of the host"

    def line(self, line: bytes) -> None:
        """Add a transfer; the names of the columns are no event."""
        if line.strip() == _HEAD:
            return
        version, seconds, operation, size, block = line.strip().split(b",")
        code = number(operation, 16)
        if version != b"1" or code not in _WRITES | _READS:
            raise ValueError("another version or operation")
        where = number(block) * SECTOR, number(size)
        self.move(number(seconds) * 1_000_000, code in _WRITES, "disk", where)
