# SPDX-License-Identifier: Apache-2.0
"""Disks as slow as their models: the guest's I/O scheduler `riobed` (injectors/riobed_disk) holds them back.

QEMU's throttle would not do: it limits rates, so a disk does its work in advance while the program computes.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from riobed.errors import InfraError
from riobed.guest import CacheMode, Guest, Throttle

_MODULE = "/lib/riobed/riobed_disk.ko"
# The serial number that stands for the disk under test, which has none.
UNDER_TEST = ""
# Arguments: a serial number, and the scheduler's attributes as NAME=VALUE. A disk without a volatile cache
# needs no flushes: what it has completed is durable.
_SLOW = rf"""
set -e
. /usr/lib/riobed/environment.sh
[ -e /sys/module/riobed_disk ] || insmod {_MODULE}
device=/dev/vdb
[ -z "$1" ] || device=$(disk "$1")
cd "/sys/block/${{device##*/}}/queue"
shift
echo "write through" >write_cache
echo riobed >scheduler
for each; do echo "${{each#*=}}" >"iosched/${{each%%=*}}"; done
"""
# Prints what all slow disks' requests so far take by their models, and what they took, in nanoseconds.
_TIME = """
for each in /sys/block/vd*/queue/iosched/model_ns; do
	[ -e "$each" ] || continue
	model=$((model + $(cat "$each"))); taken=$((taken + $(cat "${each%/*}/taken_ns")))
done
echo "$((model)) $((taken))"
"""
_FULL_SPEED = "for each in /sys/block/vd*/queue/scheduler; do echo none >$each; done"


def can_be_slow(mode: CacheMode) -> bool:
    """Whether a mode's guests have the scheduler: a ready kernel may have been built from other sources."""
    return not (mode.kernel and mode.kernel.ready)


def slow_down(guest: Guest, disks: Mapping[str, Throttle]) -> None:
    """Make a guest's disks as slow as these limits, by serial number; InfraError if that fails."""
    for serial, limits in disks.items():
        attributes = [f"{name}={value}" for name, value in limits.delays().items()]
        _run(guest, [_SLOW, "slow", serial, *attributes])


@dataclass(frozen=True)
class DiskTime:
    """Seconds that the requests of slow disks take by the models of the disks, and that they took."""

    model_s: float
    taken_s: float


def disk_time(guest: Guest) -> DiskTime:
    """Return the time of the slow disks' requests since slow_down(); InfraError if that fails."""
    found = _run(guest, [_TIME]).split()
    if len(found) != 2 or not all(word.isdigit() for word in found):
        raise InfraError(f"{guest.machine.config.name}: its disks do not say what they took: {found}")
    model, taken = (int(word) / 1e9 for word in found)
    return DiskTime(model, taken)


def full_speed(guest: Guest) -> None:
    """Make all disks of a guest as fast as they can be; InfraError if that fails."""
    _run(guest, [_FULL_SPEED])


def _run(guest: Guest, script: list[str]) -> str:
    ended = guest.machine.run(["/bin/sh", "-c", *script])
    if ended.status:
        said = ended.error or f"status {ended.status}"
        raise InfraError(f"{guest.machine.config.name}: its disks cannot be made slow or fast: {said}")
    return ended.stdout.decode("ascii", "replace")
