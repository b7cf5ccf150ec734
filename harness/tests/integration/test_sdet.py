# SPDX-License-Identifier: Apache-2.0
"""A measured run of sdet is right, and its oracle finds whatever is broken in what the run left."""

import json
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

HOMES = "/mnt/test/workload"


@pytest.fixture(scope="module")
def guest() -> Iterator[Guest]:
    """After a measured run, when the disk has everything."""
    setup = guest_setup(MachineSpec(), None, WorkloadSpec(path=CHECKOUT / "workloads/sdet"))
    mode = cache_mode("rio")
    with opened(setup, mode, "sdet") as guest:
        guest.ready()
        flush_to_disk(guest, measure(guest, 7))
        yield guest


def shell(guest: Guest, script: str) -> tuple[int, str]:
    done = guest.machine.run(["/bin/bash", "-ec", f"cd {HOMES}; {script}"], timeout=300)
    return done.status, done.stdout.decode()


def checked(guest: Guest) -> list[tuple[str, str]]:
    """Kind and path of each difference; by the shell and the programs of stage 0."""
    check = guest.workload.command("check", seed=7)[-1]
    status, out = shell(
        guest, f"mkdir -p /run/box; /bin/busybox --install -s /run/box; PATH=/run/box; {check}"
    )
    assert status == (3 if out else 0)
    return [(each["kind"], each["path"]) for each in json.loads(out)["differences"]] if out else []


def test_all_scripts_are_done_in_orders_of_their_own(guest: Guest) -> None:
    # As in a bench, of a file system that is read-only.
    assert checked(guest) == []
    status, out = shell(
        guest, "for u in 1 2 3 4 5; do cut -d ' ' -f 2 u$u/r1/log | sort | sha1sum; done | uniq -c"
    )
    assert status == 0 and out.split()[0] == "5"
    status, out = shell(guest, "sha1sum u?/r1/log | cut -c -40 | sort -u | wc -l; wc -l <u3/r1/log")
    assert out.split() == ["5", "9"]


BREAK = r"""
f=u1/r1/3/$(ls u1/r1/3 | head -n 1); rm -r $f; echo >$f
rm $(find u1/r1/1 -type f | head -n 1)
echo >u1/r1/5/more
printf '\377' | dd of=$(find u1/r1/8 -type f | head -n 1) bs=1 conv=notrunc status=none
sed -i 5d u2/r1/log
echo x >>u3/clone/src/fdt_ro.c
sed -i '$d' u3/r1/log
rm -r u4/r1/7
mkdir u4/r1/9
rm u5/r1/log
"""
BROKEN = [
    *[("content", f"u1/r1/{task}") for task in (1, 3, 5, 8)],
    *[("log", "u2/r1"), ("content", "u3/clone"), ("unfinished", "u3/r1")],
    *[("missing", "u4/r1/7"), ("extra", "u4/r1/9"), ("missing", "u5")],
]


def test_all_that_is_broken_is_found(guest: Guest) -> None:
    assert shell(guest, f"mount -o remount,rw /mnt/test\n{BREAK}")[0] == 0
    assert checked(guest) == BROKEN
