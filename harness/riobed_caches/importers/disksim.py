# SPDX-License-Identifier: Apache-2.0
"""Importers/DiskSim: the block traces of DiskSim and MQSim."""

from riobed_caches.importers.blocks import SECTOR, BlockImporter, is_write
from riobed_caches.importers.importer import number


class DiskSim(BlockImporter):
    """DiskSim's ASCII format: arrival, device, sector, sectors, 1 for a read.

    The arrival is in ms, with a point (DiskSim 4.0 reference manual, section 3.4), or in ns, as in MQSim's.
    """

    name = "disksim"
    reads = "DiskSim or MQSim block trace (ASCII)"
    clock = "time of the trace"

    def line(self, line: bytes) -> None:
        """Add a transfer."""
        arrival, device, sector, sectors, kind = line.split()
        whole, point, part = arrival.partition(b".")
        time = number(whole) * 1000 + number((part + b"000")[:3]) if point else number(arrival) // 1000
        where = number(sector) * SECTOR, number(sectors) * SECTOR
        self.move(time, is_write(kind, b"0", b"1"), number(device), where)
