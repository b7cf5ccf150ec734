# SPDX-License-Identifier: Apache-2.0
"""Measured runs of workloads are right, and their oracles find what is broken afterwards."""

from collections.abc import Iterator

import pytest
from riobed.guest.guest import Guest
from riobed.guest.settings.config import MachineSpec, WorkloadSpec
from riobed.guest.settings.modes import cache_mode
from riobed.guest.setup import guest_setup
from riobed.measure import flush_to_disk, measure
from riobed.products import CHECKOUT

from .conftest import opened

pytestmark = pytest.mark.extended

DIR = "/mnt/test/workload"
# By the shell and the programs of stage 0.
BOX = "mkdir -p /run/box; /bin/busybox --install -s /run/box; PATH=/run/box"
OPTIONS: dict[str, dict[str, str | int]] = {
    "fio": {"sequential_mib": 4, "random_mib": 2},
    "dbench": {"clients": 2},
    "andrew": {"files": 8},
}
# MiB of the disk, if it has to hold more than the usual one.
DISKS = {"cp_rm": 256}

# Each leaves less, more or something else than the measured run of a workload did.
DAMAGE = {
    "fio": [
        "printf x | dd of=random bs=1 seek=99999 conv=notrunc",
        "dd if=random of=random bs=4k skip=7 seek=9 count=1 conv=notrunc",
        "dd if=/dev/zero of=sequential bs=4k seek=1023 count=1 conv=notrunc",
        "truncate -s -4096 sequential",
        "rm sequential",
        # Then both should be as the pass before the measured one left them.
        "rm measured",
    ],
    "postmark": [
        "touch files/7",
        "sed -i s/1556/1555/ report",
        # As after a crash: what is left is not whole beginnings of the text.
        "rm report; tail -c 700 /workload/text >files/1",
        "rm report; { head -c 700 /workload/text; echo; } >files/1",
        "rm report; { head -c 512 /workload/text; head -c 188 /dev/zero; } >files/1",
        "rm report; { head -c 512 /workload/text; tail -c +600 /workload/text; } >files/1",
    ],
    "dbench": [
        "rm trees/1/clients/client0/filler.001",
        "rm -r trees/2",
        "mkdir trees/2/more",
        "truncate -s +1 trees/1/clients/client0/filler.001",
        "printf x | dd of=trees/2/clients/client0/filler.001 bs=1 seek=5000 conv=notrunc",
        "mv trees/1/clients trees/1/client",
    ],
    "andrew": [
        "rm p0/r2/dst/program",
        "printf x | dd of=p1/r2/src/d1/common.h bs=1 seek=9 conv=notrunc",
        "mkdir p3/r1",
    ],
    "cp_rm": ["mkdir copy", "printf x | dd of=source/mm/slab.h bs=1 seek=999 conv=notrunc"],
}  # fmt: skip
# Makes what a part leaves to the next one, and damages it.
BETWEEN = {"cp_rm": ("cp -r source copy", "printf x | dd of=copy/mm/slab.h bs=1 seek=999 conv=notrunc")}
# What a crash may leave.
CUT = {
    "postmark": "rm report; for n in 700 9 3; do head -c $n /workload/text; done >files/12; >files/13",
    "dbench": "rm measured trees/1/clients/client0/filler.001",
}


@pytest.fixture(scope="module", params=DAMAGE)
def guest(request: pytest.FixtureRequest) -> Iterator[Guest]:
    """After a measured run, when the disk has everything."""
    name = request.param
    spec = WorkloadSpec(path=CHECKOUT / "workloads" / name, options=OPTIONS.get(name, {}))
    machine = MachineSpec(disk_mib=DISKS.get(name, MachineSpec().disk_mib))
    with opened(guest_setup(machine, None, spec), cache_mode("rio"), name) as guest:
        guest.ready()
        flush_to_disk(guest, measure(guest, 7))
        yield guest


def shell(guest: Guest, script: str) -> int:
    done = guest.machine.run(["/bin/bash", "-ec", f"cd {DIR}; {script}"], timeout=300)
    return done.status


def checked(guest: Guest, part: int = -1) -> int:
    return shell(guest, f"{BOX}; {[*guest.workload.checks(7).values()][part][-1]}")


def test_what_is_broken_is_found(guest: Guest) -> None:
    # As in a bench, of a file system that is read-only.
    assert checked(guest) == 0
    assert shell(guest, "mount -o remount,rw /mnt/test") == 0
    workload = guest.setup.workload
    assert workload
    assert shell(guest, f"cp -a {DIR} /tmp/kept") == 0
    for damage in DAMAGE[workload.name]:
        assert shell(guest, damage) == 0
        assert (damage, checked(guest)) == (damage, 3)
        assert shell(guest, f"rm -r {DIR}/*; cp -a /tmp/kept/. .") == 0
    assert checked(guest) == 0
    assert (shell(guest, CUT.get(workload.name, "true")), checked(guest)) == (0, 0)
    for script, status in zip(BETWEEN.get(workload.name, ()), (0, 3), strict=False):
        assert (shell(guest, script), checked(guest, 0)) == (0, status)


def test_fio_makes_each_block_durable_if_it_is_asked_to() -> None:
    options: dict[str, str | int] = {"sequential_mib": 1, "random_mib": 1, "blocks_per_fsync": 1}
    spec = WorkloadSpec(path=CHECKOUT / "workloads" / "fio", options=options)
    with opened(guest_setup(MachineSpec(), None, spec), cache_mode("journal-data"), "fio-each") as guest:
        guest.ready()
        # Blocks of 64 KiB in order, then of 4 KiB. With an fsync at the end only they are a few large ones.
        assert measure(guest, 7).disk.write_requests >= 16 + 256
