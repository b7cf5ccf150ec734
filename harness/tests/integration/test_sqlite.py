# SPDX-License-Identifier: Apache-2.0
"""A measured run of sqlite has all its commits, and its oracle finds whatever is broken in the database."""

from collections.abc import Iterator

import pytest
from riobed.guest.guest import Guest
from riobed.guest.settings.config import MachineSpec, WorkloadSpec
from riobed.guest.settings.modes import cache_mode
from riobed.guest.setup import guest_setup
from riobed.measure import flush_to_disk, measure
from riobed.products import CHECKOUT

from .conftest import extended, opened

DB = "/mnt/test/workload/db"


@pytest.fixture(scope="module")
def guest() -> Iterator[Guest]:
    """After a measured run, when the disk has everything."""
    workload = WorkloadSpec(path=CHECKOUT / "workloads/sqlite", options={"commits": 200})
    mode = cache_mode("rio")
    with opened(guest_setup(MachineSpec(), None, workload), mode, "sqlite") as guest:
        guest.ready()
        flush_to_disk(guest, measure(guest, 7))
        yield guest


def shell(guest: Guest, script: str) -> int:
    done = guest.machine.run(["/bin/bash", "-ec", f"cd /workload; {script}"], timeout=300)
    return done.status


def test_all_commits_are_there(guest: Guest) -> None:
    assert guest.workload.measure_operations == 200
    # As in a bench, of a file system that is read-only.
    assert shell(guest, guest.workload.command("check", seed=7)[-1]) == 0


@pytest.mark.parametrize("change", [
    "./sqlite3 $db 'delete from commits where id = 9'", "truncate -s -4096 $db",
    extended("./sqlite3 $db 'delete from commits where id = 200'"), extended("rm $db"),
    extended("./sqlite3 $db 'update commits set text = 7 where id = 9'"),
    "dd if=/dev/zero of=$db bs=1 seek=8192 count=8 conv=notrunc",
])  # fmt: skip
def test_what_is_broken_is_found(guest: Guest, change: str) -> None:
    assert shell(guest, f"mount -o remount,rw /mnt/test; cp {DB} /tmp/kept; db={DB}; {change}") == 0
    # By the shell and the programs of stage 0.
    box = "mkdir -p /run/box; /bin/busybox --install -s /run/box; PATH=/run/box"
    check = guest.workload.command("check", seed=7)[-1]
    assert shell(guest, f"{box}; {check}") == 3
    assert shell(guest, f"cp /tmp/kept {DB}; {box}; {check}") == 0
