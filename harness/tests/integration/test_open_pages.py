# SPDX-License-Identifier: Apache-2.0
"""When nobody changes the cache any more, all of it is closed and as its checksums say."""

from pathlib import Path

import pytest
from riobed.guest.guest import Guest
from riobed.products import CHECKOUT
from riobed.soak.kernel import complaints, counters, mismatches, not_settled

from .conftest import GuestIn, compiled, extended, shell

MOVED = Path(__file__).parents[1] / "data/moved.c"


@pytest.fixture(params=[extended("rio"), "rio-protected"])
def guest(request: pytest.FixtureRequest, guest_in: GuestIn) -> Guest:
    guest = guest_in(request.param)
    guest.ready()
    return guest


def check_closed(guest: Guest) -> None:
    stats, verify = counters(guest.machine, "stats"), counters(guest.machine, "verify")
    assert stats and verify and "damaged" in verify
    assert not_settled(stats, verify) == {}
    assert (mismatches(verify), verify["damaged"], stats["traps"]) == (0, 0, 0)
    # What a task leaves open is closed when it exits, with a warning.
    assert complaints(guest.machine.console.text()) == []


# Each way to change a file, in pages that are whole and in parts of them.
_CHANGES = """
cd /mnt/test; head -c 400001 /dev/urandom >file
fallocate -p -o 5000 -l 30000 file; fallocate -z -o 50000 -l 30000 file
fallocate -c -o 40960 -l 8192 file; fallocate -i -o 40960 -l 8192 file
fallocate -o 0 -l 200000 file; fallocate -o 0 -l 200000 new
xfs_io -c 'mmap 0 100000' -c 'mwrite 3000 90000' -c 'truncate 150000' file
xfs_io -d -c 'pwrite 8192 16384' file; cp new copy; cat file new copy
"""


def test_what_has_changed_a_file_leaves_no_page_open(guest: Guest) -> None:
    shell(guest, f"({_CHANGES}) >/run/read")
    check_closed(guest)


def test_stores_through_pinned_pages_are_legal(guest: Guest) -> None:
    """The kernel stores into mapped files that are being written out, until the program's time is up."""
    source = CHECKOUT / "workloads/stress/src/pinned/pinned.c"
    guest.machine.write_file("/run/pinned", compiled(guest, source, "-O1 -D_GNU_SOURCE -pthread"))
    # The disk with the workload, to which nobody writes.
    disk = shell(guest, "chmod 755 /run/pinned; awk '$2 == \"/workload\" {printf $1}' /proc/mounts").decode()
    pid = guest.machine.spawn(["/bin/sh", "-c", f"cd /mnt/test; /run/pinned 10 7 {disk}"])
    while not (ended := guest.machine.status(pid)):
        assert mismatches(counters(guest.machine, "verify")) == 0
    assert ended.status == 0, ended.stdout + ended.stderr
    # In each of its four ways.
    assert ended.stdout.count(b" stores\n") == 4, ended.stdout
    check_closed(guest)


def test_a_page_that_moved_is_still_open_to_its_user(guest: Guest) -> None:
    guest.machine.write_file("/run/moved", compiled(guest, MOVED, "-O1"))
    script = "chmod 755 /run/moved; exec /run/moved /mnt/test/file 2000"
    moved, _, verify = shell(guest, script).decode().partition("\n")
    assert int(moved) > 0, "no page has moved: nothing was tested"
    assert "corrupt 0\n" in verify


# Each is repeated until it is killed.
_WRITERS = {
    "write": "dd if=/dev/zero of=file bs=8M count=1 conv=notrunc",
    "mapped": "xfs_io -c 'mmap 0 4m' -c 'mwrite 0 4m' file",
    "hole": "fallocate -p -o 5000 -l 3000000 file; fallocate -l 4m file",
    "moved": "fallocate -c -o 8192 -l 8192 file; fallocate -i -o 8192 -l 16384 file",
}


def test_killed_writers_leave_no_page_open(guest: Guest) -> None:
    shell(guest, "cd /mnt/test; head -c 8000001 /dev/zero >file")
    for writer in _WRITERS.values():
        script = f"cd /mnt/test; while :; do {writer}; done"
        for tenths in range(1, 6):
            killed = ["/usr/bin/timeout", "-s", "KILL", f"0.{tenths}", "/bin/sh", "-ec", script]
            assert guest.machine.run(killed).status == 128 + 9
    check_closed(guest)
