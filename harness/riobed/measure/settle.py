# SPDX-License-Identifier: Apache-2.0
"""What a run leaves to be written: a file system that is made read-only writes all of it.

sync is not enough: in the Rio modes it returns at once, because nothing has to be written for the sake of
reliability. In every mode a file system is read-only only when its disk has everything; tmpfs has no disk.
"""

from dataclasses import dataclass

from riobed.errors import InfraError
from riobed.guest import Guest
from riobed.vm import DiskUse

_CLEAN_S = 3600.0
# Prints the seconds that it took in microseconds.
_SCRIPT = """
start=${EPOCHREALTIME/./}
mount -o remount,ro /mnt/test || exit
echo $((${EPOCHREALTIME/./} - start))
"""


@dataclass(frozen=True)
class Settled:
    """What the disks had to do until everything was there, and the seconds of the guest's clock it took."""

    disk: DiskUse
    seconds: float


def settle(guest: Guest, before: DiskUse) -> Settled:
    """Let a guest write what is not on its disk yet; InfraError if it cannot.

    `before`: the use of the disks when the work had ended, since which the guest was not paused. It goes on
    running.
    """
    machine = guest.machine
    ended = machine.run(["/bin/bash", "-c", _SCRIPT], timeout=_CLEAN_S)
    if ended.status or not ended.stdout.strip().isdigit():
        error = ended.stderr.decode("utf-8", "replace").strip()[-200:] or f"it said {ended.stdout[-200:]!r}"
        raise InfraError(f"{machine.config.name}: the file system does not become read-only: {error}")
    return Settled(machine.disk_use().since(before), int(ended.stdout) / 1e6)
