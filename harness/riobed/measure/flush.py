# SPDX-License-Identifier: Apache-2.0
"""What a run leaves to be written: a file system that is made read-only writes all of it.

sync is not enough: in the Rio modes it returns at once, because nothing has to be written for the sake of
reliability. In every mode a file system is read-only only when its disk has everything; tmpfs has no disk.
"""

from dataclasses import dataclass

from riobed.errors import InfraError
from riobed.guest import REMOUNT, Guest
from riobed.measure.work import Measurement
from riobed.vm import DiskUse

_CLEAN_S = 3600.0
# Prints the clock in microseconds when the disk has everything. Who looks at files next reads them there.
_SCRIPT = f"{REMOUNT}ro || exit; echo ${{EPOCHREALTIME/./}}; echo 3 >/proc/sys/vm/drop_caches"


@dataclass(frozen=True)
class Flushed:
    """What the disks had to do until everything was there, and how many seconds after the work that was.

    The seconds are of the guest's clock. Reading counters and starting a command are among them; meanwhile
    the disk is not idle if anything waits for it.
    """

    disk: DiskUse
    seconds: float


def flush_to_disk(guest: Guest, work: Measurement) -> Flushed:
    """Let a guest write what is not on its disk yet; InfraError if it cannot.

    The guest was not paused since the work, and goes on running.
    """
    machine = guest.machine
    ended = machine.run(["/bin/bash", "-c", _SCRIPT], timeout=_CLEAN_S)
    if ended.status or not ended.stdout.strip().isdigit():
        error = ended.error or f"it said {ended.stdout[-200:]!r}"
        raise InfraError(f"{machine.config.name}: the file system does not become read-only: {error}")
    return Flushed(machine.disk_use().since(work.used), int(ended.stdout) / 1e6 - work.ended_s)
