# SPDX-License-Identifier: Apache-2.0
"""Crashes in the middle of a change of the file system: it is restored as before or as after."""

from dataclasses import replace

import pytest
from riobed.faults import Fault, commands
from riobed.guest.guest import Guest
from riobed.trial.recovery.recover import read_recovery

from .conftest import EITHER, UD2, FaultBehind, FaultIn, GuestIn, extended, panicked, reset, shell

SIZE = 400_000
# An instruction that jumps to itself: the task stays where it is.
LOOP = b"\xeb\xfe"
# All that is dirty goes to the disk.
WRITE = "cd /sys/module/rio/parameters; echo 1 >reliability_writes; echo 0 >reliability_writes"
STALE, OLD = b"S", b"o"
# What the disk holds where nothing was written since: blocks of a file that is deleted.
_STALE_BLOCKS = (
    "cd /mnt/test; echo 1 >/sys/module/rio/parameters/reliability_writes;"
    f"head -c 60000000 /dev/zero | tr '\\\\0' {STALE.decode()} >stale; sync; rm stale; sync;"
    "echo 0 >/sys/module/rio/parameters/reliability_writes"
)


def inject(guest: Guest, *faults: Fault) -> None:
    shell(guest, "cat >/run/faults; cat /run/faults >/dev/riobed-inject", commands(list(faults)).encode())


def stays_in_kernel(guest: Guest, command: str) -> None:
    """Start a command that runs into LOOP, and wait until it has been in the kernel for half a second."""
    pid = guest.machine.spawn(["/bin/sh", "-c", f"exec {command}"])
    shell(guest, f"until [ $(awk '{{print $15}}' /proc/{pid}/stat) -gt 50 ]; do sleep 0.1; done")


def crash_in(guest: Guest, fault: Fault, script: str) -> None:
    """Let a command run into the fault; the guest is then in stage 0, its file system restored."""
    inject(guest, fault)
    panicked(guest, script)
    assert f"RIP: 0010:{fault.function}+0x".encode() in guest.machine.console.text()
    reset(guest)
    report = read_recovery(guest)
    assert (report.registry, report.mount_error, report.registry_damage) == ("recovered", 0, 0)


def content(guest: Guest, name: str) -> bytes:
    return shell(guest, f"cat /mnt/test/{name}")


@pytest.mark.parametrize("function", ["ext4_write_end", extended("ext4_block_write_begin")])
def test_a_write_into_new_blocks_shows_no_stale_data(rio: Guest, fault_in: FaultIn, function: str) -> None:
    shell(rio, _STALE_BLOCKS)
    shell(rio, "truncate -s 20000 /mnt/test/hole")
    write = (
        "printf n | dd of=/mnt/test/hole bs=1 seek=9000 conv=notrunc; head -c 50000 /dev/zero >/mnt/test/new"
    )
    crash_in(rio, fault_in(function, UD2), write)
    assert content(rio, "hole") in (bytes(20000), bytes(9000) + b"n" + bytes(10999))
    assert STALE not in shell(rio, "cat /mnt/test/new || :")


@pytest.mark.parametrize("function", ["ext4_ext_remove_space", extended("ext4_free_blocks")])
def test_a_truncation_cut_short_is_ended_or_not_begun(rio: Guest, fault_in: FaultIn, function: str) -> None:
    shell(rio, "cat >/mnt/test/file", OLD * SIZE)
    crash_in(rio, fault_in(function, UD2), "truncate -s 5000 /mnt/test/file")
    assert content(rio, "file") in (OLD * 5000, OLD * SIZE)


@EITHER
def test_a_truncation_ends_before_it_leaves_the_orphan_list(
    guest_in: GuestIn, fault_behind: FaultBehind, mode: str
) -> None:
    """The file is on the disk, and the crash comes when the list has just let it go."""
    guest = guest_in(mode)
    guest.ready()
    shell(guest, f"cat >/mnt/test/file; {WRITE}", OLD * SIZE)
    crash_in(guest, fault_behind("ext4_truncate", "ext4_orphan_del", UD2), "truncate -s 5000 /mnt/test/file")
    assert content(guest, "file") in (OLD * 5000, OLD * SIZE)


@pytest.mark.extended
def test_an_orphan_that_is_taken_back_takes_no_other_with_it(
    rio: Guest, fault_in: FaultIn, fault_behind: FaultBehind
) -> None:
    """One file is being truncated when another becomes an orphan, in an operation that does not end."""
    shell(rio, f"cat >/mnt/test/file; head -c 8192 /dev/zero >/mnt/test/other; {WRITE}", OLD * SIZE)
    # A write with O_DIRECT that makes the file longer
    crash = replace(fault_behind("ext4_file_write_iter", "ext4_orphan_add", UD2), index=1)
    inject(rio, fault_in("ext4_ext_remove_space", LOOP), crash)
    stays_in_kernel(rio, "truncate -s 5000 /mnt/test/file")
    panicked(rio, "dd if=/dev/zero of=/mnt/test/other bs=4096 count=1 seek=2 oflag=direct conv=notrunc")
    reset(rio)
    assert content(rio, "file") in (OLD * 5000, OLD * SIZE)


@pytest.mark.parametrize(
    ("option", "function"), [("-p", "ext4_punch_hole"), extended("-z", "ext4_fallocate")]
)
@EITHER
def test_a_range_that_is_emptied_does_not_get_older_data_back(
    guest_in: GuestIn, fault_behind: FaultBehind, mode: str, option: str, function: str
) -> None:
    """The disk has an older version of the range; the newer one was in memory alone."""
    guest = guest_in(mode)
    guest.ready()
    shell(guest, f"cat >/mnt/test/file; {WRITE}", OLD * SIZE)
    shell(guest, "dd of=/mnt/test/file conv=notrunc bs=4096 status=none", b"n" * SIZE)
    command = f"fallocate {option} -o 40960 -l 204800 /mnt/test/file"
    crash_in(guest, fault_behind(function, "ext4_truncate_page_cache_block_range", UD2), command)
    emptied = b"n" * 40960 + bytes(204800) + b"n" * (SIZE - 245760)
    assert content(guest, "file") in (b"n" * SIZE, emptied)


@pytest.mark.extended
def test_a_hole_cut_short_loses_nothing_beside_it(rio: Guest, fault_in: FaultIn) -> None:
    """What the disk has of a file is one extent, of which a part is cut off and not yet listed on its own."""
    shell(rio, f"cat >/mnt/test/file; {WRITE}", OLD * SIZE)
    crash_in(rio, fault_in("ext4_ext_insert_extent", UD2), "fallocate -p -o 303104 -l 4096 /mnt/test/file")
    hole = OLD * 303104 + bytes(4096) + OLD * (SIZE - 307200)
    assert content(rio, "file") in (OLD * SIZE, hole)


def test_a_reader_keeps_nothing_of_a_hole_that_is_being_punched(rio: Guest, fault_in: FaultIn) -> None:
    """It sets the access time while what lies behind the hole is not listed."""
    shell(rio, f"cat >/mnt/test/file; {WRITE}", OLD * SIZE)
    inject(rio, fault_in("ext4_ext_insert_extent", LOOP))
    stays_in_kernel(rio, "fallocate -p -o 303104 -l 4096 /mnt/test/file")
    assert shell(rio, "head -c 1 /mnt/test/file") == OLD
    reset(rio)
    hole = OLD * 303104 + bytes(4096) + OLD * (SIZE - 307200)
    assert content(rio, "file") in (OLD * SIZE, hole)


@pytest.mark.extended
def test_a_reader_keeps_nothing_of_a_rename(rio: Guest, fault_in: FaultIn) -> None:
    """It has the file open that is being replaced, which has no link any more."""
    shell(rio, "cd /mnt/test; echo old >file; echo new >other")
    # With the file as standard input
    read = "until [ -e /run/go ]; do sleep 0.1; done; cat >/run/read; sync /run/read; : >/run/done"
    rio.machine.spawn(["/bin/sh", "-c", f"exec </mnt/test/file; : >/run/open; {read}"])
    shell(rio, "until [ -e /run/open ]; do sleep 0.1; done")
    inject(rio, fault_in("ext4_fc_track_unlink", LOOP))
    stays_in_kernel(rio, "mv /mnt/test/other /mnt/test/file")
    shell(rio, ": >/run/go; until [ -e /run/done ]; do sleep 0.1; done")
    reset(rio)
    assert shell(rio, "cd /mnt/test; cat file other") == b"old\nnew\n"


@pytest.mark.extended
@pytest.mark.parametrize(
    "function", ["ext4_free_blocks", extended("ext4_ext_remove_space"), extended("ext4_free_inode")]
)
def test_a_deletion_cut_short_leaves_nothing_else(rio: Guest, fault_in: FaultIn, function: str) -> None:
    shell(rio, "cd /mnt/test; cat >kept; cp kept gone", OLD * SIZE)
    crash_in(rio, fault_in(function, UD2), "rm /mnt/test/gone")
    names = shell(rio, "ls /mnt/test").split()
    assert b"kept" in names and content(rio, "kept") == OLD * SIZE
    assert b"gone" not in names or content(rio, "gone") == OLD * SIZE
    # What the file had is free again: e2fsck finds no block or inode that nobody names.
    shell(rio, "umount /mnt/test && e2fsck -fn /dev/vdb")


@pytest.mark.parametrize(
    ("function", "moved"),
    [extended("ext4_write_late_inodes", False), ("rio_log_end", False), extended("d_move", True)],
)
@EITHER
def test_an_operation_is_restored_whole_or_not_at_all(
    guest_in: GuestIn, fault_in: FaultIn, mode: str, function: str, moved: bool
) -> None:
    """A crash before a rename's inodes are written, before its log is dropped, or after that."""
    guest = guest_in(mode)
    guest.ready()
    make = "cd /mnt/test; mkdir from to; mkdir from/sub; cat >from/sub/file; ls -R >/dev/null"
    shell(guest, make, OLD * SIZE)
    crash_in(guest, fault_in(function, UD2), "mv /mnt/test/from/sub /mnt/test/to/")
    here, gone = ("to", "from") if moved else ("from", "to")
    assert content(guest, f"{here}/sub/file") == OLD * SIZE
    assert shell(guest, f"ls /mnt/test/{gone}") == b""
    assert shell(guest, "ls /mnt/test/lost+found") == b""


@pytest.mark.extended
def test_an_owner_is_changed_whole_or_not_at_all(rio: Guest, fault_in: FaultIn) -> None:
    """User and group are in memory as after it; the crash is before its log is dropped."""
    shell(rio, "echo x >/mnt/test/file")
    crash_in(rio, fault_in("rio_log_end", UD2), "chown 1:2 /mnt/test/file")
    assert shell(rio, "stat -c %u:%g /mnt/test/file") == b"0:0\n"


# What short memory does: pages are moved, and those that the disk has are dropped.
SHORT = "echo 1 >/proc/sys/vm/compact_memory; echo 3 >/proc/sys/vm/drop_caches"


@pytest.mark.parametrize("then", [extended("true"), SHORT], ids=["written", "dropped"])
@EITHER
def test_metadata_written_in_the_middle_of_an_operation_is_taken_back(
    guest_in: GuestIn, fault_in: FaultIn, mode: str, then: str
) -> None:
    """One block of a rename was clean, the other dirty; both are written before the rename has ended."""
    guest = guest_in(mode)
    guest.ready()
    shell(guest, "cd /mnt/test; mkdir from to; mkdir from/sub; echo old >from/sub/file; ls -R >/dev/null")
    write = "echo 1 >/sys/module/rio/parameters/reliability_writes"
    shell(guest, f"{write}; echo 0 >/sys/module/rio/parameters/reliability_writes; : >/mnt/test/to/x")
    inject(guest, fault_in("ext4_rename_dir_finish", LOOP))
    guest.machine.spawn(["/bin/sh", "-c", "mv /mnt/test/from/sub /mnt/test/to/"])
    shell(guest, "sleep 2")
    guest.machine.spawn(["/bin/sh", "-c", f"{write}; {then}; : >/run/done"])
    shell(guest, "until [ -e /run/done ]; do sleep 0.1; done")
    reset(guest)
    report = read_recovery(guest)
    assert report.log.operations == 1 and report.log.undone > 0
    assert content(guest, "from/sub/file") == b"old\n"
    assert shell(guest, "ls /mnt/test/to") == b"x\n"
    assert shell(guest, "ls /mnt/test/lost+found") == b""


def test_what_an_operation_freed_stays_unused_until_it_has_ended(rio: Guest, fault_in: FaultIn) -> None:
    """The disk is full but for what a collapse of a file freed, which has not ended and is taken back."""
    collapse = "fallocate -c -o 0 -l 200704 /mnt/test"
    wants = "head -c 163840 /dev/zero | tr '\\0' n 2>&1 >/mnt/test"
    full = "echo 0 >/sys/fs/ext4/vdb/reserved_clusters; fallocate -l 1g full || :"
    shell(rio, f"cd /mnt/test; cat >file; cp file other; {full}; {WRITE}", OLD * SIZE)
    # What a collapse freed that has ended is free.
    shell(rio, f"{collapse}/other; {wants}/first")
    inject(rio, fault_in("ext4_ext_shift_extents", LOOP))
    stays_in_kernel(rio, f"{collapse}/file")
    assert b"No space left" in shell(rio, f"{wants}/second || :")
    reset(rio)
    assert content(rio, "file") == OLD * SIZE
    assert content(rio, "first") == b"n" * 163840
    assert not content(rio, "second").strip(b"n")
    # No two files have the same block.
    shell(rio, "umount /mnt/test && e2fsck -fn /dev/vdb")
