# SPDX-License-Identifier: Apache-2.0
"""Up to four file systems are in one registry: a crash takes nothing of any, and none may be missing."""

import re
from collections.abc import Iterator

import pytest
from riobed.errors import BootError
from riobed.guest.assembly import GuestSetup
from riobed.guest.boot import boot_production
from riobed.guest.guest import Guest
from riobed.guest.settings.modes import Device, cache_mode
from riobed.trial.recovery.recover import read_recovery

from .conftest import crash, opened, shell

NAMES = ("second", "third", "fourth")
MODE = cache_mode("rio").model_copy(
    update={"devices": tuple(Device(name=name, size_mib=16) for name in NAMES)}
)


@pytest.fixture(scope="module")
def guest(setup: GuestSetup) -> Iterator[Guest]:
    with opened(setup, MODE, "several") as guest:
        yield guest


def mount(guest: Guest, name: str, device: str = "", make: bool = False) -> None:
    device = device or f"/dev/disk/by-id/virtio-{name}"
    if make:
        shell(guest, f"mke2fs -q -F -t ext4 {' '.join(MODE.mkfs)} {device}")
    shell(guest, f"mkdir -p /tmp/{name} && mount -t ext4 -o rio,nodelalloc {device} /tmp/{name}")


def test_a_crash_takes_nothing_of_any(guest: Guest) -> None:
    guest.ready()
    for name in NAMES:
        mount(guest, name, make=True)
    for name in (*NAMES, "under test"):
        folder = "/mnt/test" if name == "under test" else f"/tmp/{name}"
        shell(guest, f"cd {folder} && mkdir d && echo {name} >new && mv new d/file && seq 9999 >d/long")
    crash(guest)
    assert read_recovery(guest).complete and read_recovery(guest).unrecovered == 0
    assert len(re.findall(rb"riobed: recovery of /dev/vd\w: complete", guest.machine.console.text())) == 3
    assert shell(guest, "cat /mnt/test/d/file") == b"under test\n"
    guest.machine.console.clear()
    boot_production(guest.machine)
    for name in NAMES:
        mount(guest, name)
        assert (
            shell(guest, f"cd /tmp/{name} && cat d/file && seq 9999 | cmp - d/long") == f"{name}\n".encode()
        )


def test_production_does_not_start_over_a_file_system_whose_disk_is_missing(guest: Guest) -> None:
    guest.ready()
    shell(guest, "truncate -s 16M /tmp/image && echo kept >/mnt/test/file")
    mount(guest, "gone", shell(guest, "losetup -f --show /tmp/image").decode().strip(), make=True)
    shell(guest, "echo lost >/tmp/gone/file")
    crash(guest)
    report = read_recovery(guest)
    assert report.unrecovered == 1 and "1 other file systems" in report.incomplete
    assert b"1 other file systems in the registry" in guest.machine.console.text()
    assert shell(guest, "cat /mnt/test/file") == b"kept\n"
    with pytest.raises(BootError, match="recovery is incomplete"):
        boot_production(guest.machine)


def test_a_copy_of_the_disk_does_not_get_its_data(guest: Guest) -> None:
    guest.ready()
    shell(guest, "sync; dd if=/dev/vdb of=/dev/disk/by-id/virtio-second bs=1M count=16 oflag=direct")
    shell(guest, "echo new >/mnt/test/file")
    crash(guest)
    assert read_recovery(guest).complete and b"recovery of /dev/vd" not in guest.machine.console.text()
    assert shell(guest, "cat /mnt/test/file") == b"new\n"
