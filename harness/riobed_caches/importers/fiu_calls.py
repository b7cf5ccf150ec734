# SPDX-License-Identifier: Apache-2.0
"""Importers/FIU calls: the system calls on files of "Non-blocking Writes to Files"."""

from riobed_caches.importers.importer import Importer, number, place
from riobed_caches.trace.check import MAX_END
from riobed_caches.trace.events import UNKNOWN, Event
from riobed_caches.trace.header import Has

_EVENTS = {
    b"READ": Event.READ,
    b"WRITE": Event.WRITE,
    b"OPEN": Event.OPEN,
    b"CLOSE": Event.CLOSE,
    b"FSYNC": Event.FSYNC,
    b"FDATASYNC": Event.FSYNC,
}


class FiuCalls(Importer):
    """Number, time in ns, operation, inode, its size before; of a READ or WRITE offset, size, a tag.

    Sizes and offsets are in bytes (Campello et al., "Non-blocking Writes to Files", FAST 2015, and the page
    of its traces at sylab-srv.cs.fiu.edu).
    """

    name = "fiu-calls"
    reads = "FIU trace of system calls (Non-blocking Writes to Files)"
    has = (Has.TIMES, Has.DIRECTIONS, Has.OPENS, Has.FSYNCS, Has.SIZES)
    clock = "time of the trace, ns"
    sees_not = (
        "deletes and truncations are not seen: an inode that is used again counts as the same file",
        "a close does not say which open it ends",
    )

    def line(self, line: bytes) -> None:
        """Add an event; each file of a trace is of one processor, which counts as a thread."""
        _, time, operation, inode, size, *moved = line.split()
        event = _EVENTS[operation]
        file, before = number(inode), number(size)
        if before > MAX_END:
            raise ValueError("no size")
        offset = length = UNKNOWN
        if event in (Event.READ, Event.WRITE):
            offset, length = place(number(moved[0]), number(moved[1]))
        self.events.add(
            self.in_order(0, number(time) // 1000),
            event,
            file,
            client=0,
            offset=offset,
            length=length,
            size=before if event == Event.OPEN else UNKNOWN,
        )
