# SPDX-License-Identifier: Apache-2.0
"""Stage 0, parked: kept at the moment before it looks at old memory and disks, and restored after a crash.

Until that moment firmware and stage 0 do the same at every reset, and use nothing but their windows of RAM
(riobed.guest.memory.layout). So the windows and the machine's state are kept once. Putting them back leaves
all other RAM and the disks as the crash left them, like a reset.
"""

import time
from dataclasses import dataclass
from mmap import mmap
from pathlib import Path

from riobed.errors import BootError, InfraError
from riobed.guest.boot import BOOT_S, boot_error, wait_until
from riobed.guest.memory.layout import PAGE, Layout
from riobed.guest.memory.mailbox import find_mailbox
from riobed.guest.memory.registry import mapped
from riobed.vm import Machine, SavesDevices, memory_files

_WORD = "park"
_PARKED = b"riobed: stage 0 parked"
_STATE = "parked"


@dataclass(frozen=True)
class Window:
    """Bytes `start` to `end` of RAM."""

    start: int
    end: int


def windows(layout: Layout) -> list[Window]:
    """Return what a reset and stage 0 overwrite."""
    return [Window(0, layout.kept.start), Window(layout.kept.stop, layout.ram)]


class Parking:
    """The parked stage 0 of one machine's process. Its windows are in the file `path`."""

    def __init__(self, machine: Machine, layout: Layout, path: Path) -> None:
        self._machine = machine
        self._windows = windows(layout)
        self._path = path
        # Address of the page that tells stage 0 to go on.
        self._mailbox = 0

    def park(self) -> None:
        """Park the stage 0 that a machine that was just started boots, and let it go on.

        InfraError if the machine cannot do that, BootError if stage 0 does not come that far.
        """
        machine = saving(self._machine)
        machine.tell(_WORD)
        if not wait_until(self._machine, lambda: _PARKED in self._machine.console.text(), BOOT_S):
            raise boot_error(self._machine, f"stage 0 was not parked within {BOOT_S:.0f} s")
        machine.save_devices(_STATE)
        with mapped(self._machine.ram_path()) as memory:
            places = find_mailbox(memory)
            if places.keys() != {0} or places[0][0] >= self._windows[0].end:
                raise BootError(f"{self._machine.config.name}: the parked stage 0 has no mailbox")
            self._mailbox = places[0][0]
            with self._path.open("wb") as file:
                for window in self._windows:
                    file.write(memoryview(memory)[window.start : window.end])
            self._release(memory)
        self._machine.resume()

    def _release(self, memory: mmap) -> None:
        """Tell the parked stage 0, in a paused machine's memory, to set its clock and go on."""
        text = f":\ndate -u -s @{round(time.time())} >/dev/null\n".encode()
        memory[self._mailbox : self._mailbox + PAGE] = text.ljust(PAGE, b"\n")

    def copy(self) -> "Copy":
        """Copy all of the machine, which is paused afterwards; InfraError if that fails."""
        copy = Copy(self._machine, self._path.with_name("crash.ram"))
        copy.take()
        return copy

    def restart(self) -> None:
        """Let the parked stage 0 recover what is in memory now, as after a reset."""
        machine = saving(self._machine)
        self._machine.pause()
        with mapped(self._machine.ram_path()) as memory, mapped(self._path) as kept:
            at = 0
            for window in self._windows:
                size = window.end - window.start
                memory[window.start : window.end] = memoryview(kept)[at : at + size]
                at += size
            self._release(memory)
        machine.load_devices(_STATE)
        self._machine.resume()


class Copy:
    """All of a paused machine, so that a crash can be recovered twice. Memory is in the file `path`."""

    def __init__(self, machine: Machine, path: Path) -> None:
        self._machine = machine
        self._path = path

    def take(self) -> None:
        """Copy a machine, which is paused afterwards; InfraError if that is not possible."""
        saving(self._machine).save_devices("crash", disks=True)
        with self._path.open("wb") as file:
            for path in memory_files(self._machine):
                with mapped(path) as memory:
                    file.write(memory)

    def restore(self) -> None:
        """Bring the machine back to what was copied; it is paused, and the copy is gone."""
        self._machine.pause()
        with self._path.open("rb") as file:
            for path in memory_files(self._machine):
                with mapped(path) as memory:
                    file.readinto(memory)
        saving(self._machine).load_devices("crash", disks=True)
        self._path.unlink()


def saving(machine: Machine) -> SavesDevices:
    """Return the machine as one whose devices can be saved; InfraError if it cannot."""
    if not isinstance(machine, SavesDevices):
        raise InfraError(f"{machine.config.name}: this back-end cannot park stage 0; leave `parked` out")
    return machine
