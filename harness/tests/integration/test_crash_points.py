# SPDX-License-Identifier: Apache-2.0
"""Crashes in the middle of a change of the file system: it is restored as before or as after."""

from collections.abc import Callable

import pytest
from riobed.faults import Fault, commands
from riobed.guest.boot import wait_stage0, wait_until
from riobed.guest.guest import Guest
from riobed.trial.recover import read_recovery

from .conftest import UD2
from .test_warm_reboot import shell

SIZE = 400_000
STALE, OLD = b"S", b"o"
# What the disk holds where nothing was written since: blocks of a file that is deleted.
_STALE_BLOCKS = (
    "cd /mnt/test; echo 1 >/sys/module/rio/parameters/reliability_writes;"
    f"head -c 60000000 /dev/zero | tr '\\\\0' {STALE.decode()} >stale; sync; rm stale; sync;"
    "echo 0 >/sys/module/rio/parameters/reliability_writes"
)


def crash_in(guest: Guest, function: str, fault: Fault, script: str) -> None:
    """Let a command run into the fault; the guest is then in stage 0, its file system restored."""
    shell(guest, "cat >/run/faults; cat /run/faults >/dev/riobed-inject", commands([fault]).encode())
    guest.machine.spawn(["/bin/sh", "-c", script])
    assert wait_until(guest.machine, lambda: b"end Kernel panic" in guest.machine.console.text(), 30)
    assert f"RIP: 0010:{function}+0x".encode() in guest.machine.console.text()
    guest.machine.console.clear()
    guest.machine.reset()
    wait_stage0(guest.machine)
    report = read_recovery(guest)
    assert (report.registry, report.mount_error, report.entries.rejected) == ("recovered", 0, 0)


def content(guest: Guest, name: str) -> bytes:
    return shell(guest, f"cat /mnt/test/{name}")


@pytest.mark.parametrize("function", ["ext4_write_end", "ext4_block_write_begin"])
def test_a_write_into_new_blocks_shows_no_stale_data(
    guest_in: Callable[[str], Guest], fault_in: Callable[[str, bytes], Fault], function: str
) -> None:
    guest = guest_in("rio")
    guest.ready()
    shell(guest, _STALE_BLOCKS)
    shell(guest, "truncate -s 20000 /mnt/test/hole")
    crash_in(
        guest,
        function,
        fault_in(function, UD2),
        "printf n | dd of=/mnt/test/hole bs=1 seek=9000 conv=notrunc; head -c 50000 /dev/zero >/mnt/test/new",
    )
    hole = content(guest, "hole")
    assert hole in (bytes(20000), bytes(9000) + b"n" + bytes(10999))
    assert STALE not in shell(guest, "cat /mnt/test/new || :")


@pytest.mark.parametrize("function", ["ext4_ext_remove_space", "ext4_free_blocks"])
def test_a_truncation_cut_short_is_ended_or_not_begun(
    guest_in: Callable[[str], Guest], fault_in: Callable[[str, bytes], Fault], function: str
) -> None:
    guest = guest_in("rio")
    guest.ready()
    shell(guest, "cat >/mnt/test/file", OLD * SIZE)
    crash_in(guest, function, fault_in(function, UD2), "truncate -s 5000 /mnt/test/file")
    found = content(guest, "file")
    assert found in (OLD * 5000, OLD * SIZE)


@pytest.mark.parametrize("function", ["ext4_ext_remove_space", "ext4_free_blocks", "ext4_free_inode"])
def test_a_deletion_cut_short_leaves_nothing_else(
    guest_in: Callable[[str], Guest], fault_in: Callable[[str, bytes], Fault], function: str
) -> None:
    guest = guest_in("rio")
    guest.ready()
    shell(guest, "cd /mnt/test; ls >/run/before; cat >kept; cp kept gone", OLD * SIZE)
    crash_in(guest, function, fault_in(function, UD2), "rm /mnt/test/gone")
    names = shell(guest, "ls /mnt/test").split()
    assert b"kept" in names and content(guest, "kept") == OLD * SIZE
    assert b"gone" not in names or content(guest, "gone") == OLD * SIZE
    # What the file had is free again: e2fsck finds no block or inode that nobody names.
    shell(guest, "umount /mnt/test && e2fsck -fn /dev/vdb")


@pytest.mark.parametrize(("function", "moved"), [("rio_pending_end", False), ("rio_flush_closed", True)])
@pytest.mark.parametrize("mode", ["rio", "rio-protected"])
def test_an_operation_is_restored_whole_or_not_at_all(
    guest_in: Callable[[str], Guest],
    fault_in: Callable[[str, bytes], Fault],
    mode: str,
    function: str,
    moved: bool,
) -> None:
    """All blocks of a rename are in memory as after it; the crash is before or after they count."""
    guest = guest_in(mode)
    guest.ready()
    # All of it dirty already, so that blocks have shadows, and in the cache.
    shell(
        guest, "cd /mnt/test; mkdir from to; mkdir from/sub; cat >from/sub/file; ls -R >/dev/null", OLD * SIZE
    )
    crash_in(guest, function, fault_in(function, UD2), "mv /mnt/test/from/sub /mnt/test/to/")
    here, gone = ("to", "from") if moved else ("from", "to")
    assert content(guest, f"{here}/sub/file") == OLD * SIZE
    assert shell(guest, f"ls /mnt/test/{gone}") == b""
    assert shell(guest, "ls /mnt/test/lost+found") == b""
