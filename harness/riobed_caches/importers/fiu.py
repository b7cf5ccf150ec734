# SPDX-License-Identifier: Apache-2.0
"""Importers/FIU: the block traces of Florida International University."""

from riobed_caches.importers.blocks import SECTOR, BlockImporter, is_write
from riobed_caches.importers.importer import number
from riobed_caches.trace.header import Has


class Fiu(BlockImporter):
    """FIU: time in ns, pid, process, sector, sectors, `W` or `R`, major, minor, MD5.

    Koller and Rangaswami, "I/O Deduplication", FAST 2010; the README of its traces at SNIA IOTTA.
    """

    name = "fiu"
    reads = "FIU block trace (IODedup, SRCMap)"
    clock = "time of the trace, ns"
    has = (Has.TIMES, Has.DIRECTIONS, Has.PROCESSES)

    def line(self, line: bytes) -> None:
        """Add a transfer."""
        time, pid, _, sector, sectors, kind, major, minor, *_ = line.split()
        write = is_write(kind, b"W", b"R")
        where = number(sector) * SECTOR, number(sectors) * SECTOR
        at = self.in_order(pid, number(time) // 1000)
        self.move(at, write, (number(major), number(minor)), where, process=number(pid))
