# SPDX-License-Identifier: Apache-2.0
"""Importers/MSR: the block traces of MSR Cambridge."""

from riobed_caches.importers.blocks import BlockImporter, is_write
from riobed_caches.importers.importer import number

# Windows FILETIME counts 100 ns.
_TICKS_PER_US = 10


class Msr(BlockImporter):
    """MSR Cambridge: time, host, disk, `Read` or `Write`, offset, size, latency; bytes, and ticks of 100 ns.

    Narayanan, Donnelly and Rowstron, "Write Off-Loading", FAST 2008; the README of its traces at SNIA IOTTA.
    """

    name = "msr"
    reads = "MSR Cambridge block trace (CSV)"
    clock = "Windows FILETIME"

    def line(self, line: bytes) -> None:
        """Add a transfer; a host is a client."""
        ticks, host, disk, kind, offset, size, _ = line.strip().split(b",")
        write = is_write(kind, b"Write", b"Read")
        where = number(offset), number(size)
        self.move(number(ticks) // _TICKS_PER_US, write, (host, number(disk)), where, client=host)
