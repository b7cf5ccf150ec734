# SPDX-License-Identifier: Apache-2.0
"""The whole of a recovery on a loop device; needs root and a kernel that mounts ext4."""

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
from registry_image import (
    ACTIVE,
    DEV,
    LOG_FREE,
    OTHER_DEV,
    PAGE,
    RECOVERED,
    RECOVERING,
    UUID,
    Ram,
    data,
    entry_address,
    flip,
    log_address,
    log_word,
    metadata,
    phase,
    undo,
)
from riorecover_helper import FILE_SIZE, Mounted, Riorecover, recovery, registry_options, run_tool, tool


def test_the_last_phase_is_named_when_all_is_done(
    riorecover: Riorecover, ram: Ram, loop: Mounted, tmp_path: Path
) -> None:
    command = recovery(ram.valid(), loop.device, loop.folder)
    result = riorecover(*command, "--report", tmp_path / "report")
    assert result.stdout.splitlines()[-2:] == ["riorecover: data", "riorecover: done"]
    assert phase(ram) == RECOVERED


def test_file_data_comes_back(riorecover: Riorecover, ram: Ram, loop: Mounted) -> None:
    """Right bytes, exact sizes, by inode and generation; then the registry is done with."""
    rng = random.Random(11)
    first, last, lost = (rng.randbytes(PAGE) for _ in range(3))
    ino, generation = loop.inode("/file")
    other, other_generation = loop.inode("/other")
    assert (generation, other_generation) == (0, 77)
    ram.valid()
    ram.entry(2000, data(ino, 0), first)
    ram.entry(2001, data(ino, 2), last)
    ram.entry(2002, data(ino, 3), lost)
    ram.entry(2003, data(other, 1, generation=77), last)
    ram.entry(2004, data(other, 0, generation=78), lost)
    ram.entry(2005, data(1500, 0), lost)
    ram.entry(2006, data(11, 0), lost)  # lost+found: not a file

    report = riorecover.recover(ram, loop.device, loop.folder)
    assert report["mount_error"] == 0
    restored = {"pages": 3, "bytes": PAGE + 100 + PAGE, "files": 2}
    assert report["data"] == {**restored, "lost_inodes": 3, "beyond_size": 1, "failed": 0}
    assert (loop.folder / "file").read_bytes() == first + b"o" * PAGE + last[:100]
    assert (loop.folder / "other").read_bytes() == b"o" * PAGE + last + b"o" * 100
    assert (loop.folder / "kept").read_bytes() == b"o" * FILE_SIZE
    assert phase(ram) == RECOVERED

    (loop.folder / "file").write_bytes(b"later")
    run_tool("umount", loop.folder)
    report = riorecover.recover(ram, loop.device, loop.folder)
    assert report["registry"] == "cold"
    assert (loop.folder / "file").read_bytes() == b"later"


def test_damage_is_told_and_can_be_too_much(riorecover: Riorecover, ram: Ram, loop: Mounted) -> None:
    """What damaged entries listed is lost, so production may have to wait for somebody to look."""
    ino, generation = loop.inode("/file")
    ram.valid()
    for pfn in range(2000, 2003):
        ram.entry(pfn, data(ino, pfn - 2000, generation), b"n" * PAGE)
    # It is about no file.
    ram.entry(2003, data(0, 0))
    with ram.path.open("r+b") as memory:
        for pfn in (2000, 2001):
            memory.seek(entry_address(pfn))
            word = memory.read(8)
            memory.seek(entry_address(pfn))
            memory.write(flip(word, 17))
    told = "memory is damaged: 2 entries and log pages rejected and 1 inconsistent"
    inspected = riorecover("inspect", *registry_options(ram), "--device", loop.device)
    assert inspected.returncode == 0 and told in inspected.stderr
    command = recovery(ram, loop.device, loop.folder)
    result = riorecover(*command, "--rejected", 1)
    assert result.returncode == 3 and told in result.stderr and "at most 1 may be rejected" in result.stderr
    assert phase(ram) == RECOVERING and not json.loads(result.stdout)["complete"]
    loop.unmount()
    result = riorecover(*command, "--rejected", 2)
    assert result.returncode == 0 and told in result.stderr
    assert phase(ram) == RECOVERED and json.loads(result.stdout)["complete"]
    assert (loop.folder / "file").read_bytes()[: 2 * PAGE] == b"o" * 2 * PAGE


def test_only_the_data_of_a_file_changes(riorecover: Riorecover, ram: Ram, loop: Mounted) -> None:
    """Times, an append-only flag and a capability, which any write takes away, are as before."""
    content, file = random.Random(13).randbytes(PAGE), loop.folder / "file"
    times = (981_158_400_123_456_789, 981_244_800_987_654_321)
    # CAP_NET_RAW, as setcap(8) stores it: linux/capability.h, struct vfs_cap_data.
    capability = bytes.fromhex("0100000200200000000000000000000000000000")
    ram.valid().entry(2000, data(loop.inode("/file")[0], 0), content)
    run_tool("mount", loop.device, loop.folder)
    os.setxattr(file, "security.capability", capability)
    os.utime(file, ns=times)
    run_tool("chattr", "+a", file)
    run_tool("umount", loop.folder)
    report = riorecover.recover(ram, loop.device, loop.folder)
    assert (report["data"]["pages"], report["data"]["failed"]) == (1, 0)
    state = file.stat()
    assert (state.st_atime_ns, state.st_mtime_ns) == times
    assert os.getxattr(file, "security.capability") == capability
    assert "a" in run_tool("lsattr", file).split()[0]
    assert file.read_bytes()[:PAGE] == content and phase(ram) == RECOVERED
    run_tool("chattr", "-a", file)


@pytest.mark.parametrize(
    "mode", ["060644", "020644", "010644", "0140644"], ids=["disk", "tty", "fifo", "socket"]
)
def test_a_file_that_damage_made_something_else_is_lost(
    riorecover: Riorecover, ram: Ram, loop: Mounted, mode: str
) -> None:
    """No driver is asked: there is none for this device, and that would be a failure."""
    ino, generation = loop.inode("/file")
    # Major number 120 is for experiments: Documentation/admin-guide/devices.txt.
    for field, value in (("mode", mode), ("flags", "0"), ("block[0]", f"{120 << 8 | 1:#x}")):
        run_tool("debugfs", "-w", "-R", f"set_inode_field /file {field} {value}", loop.image)
    ram.valid().entry(2000, data(ino, 1, generation), b"x" * PAGE)
    result = riorecover(*recovery(ram, loop.device, loop.folder, tool("true")))
    report = json.loads(result.stdout)
    assert (report["mount_error"], report["data"]["lost_inodes"], report["data"]["failed"]) == (0, 1, 0)


def superblock_field(disk: Path, name: str, value: object) -> None:
    run_tool("debugfs", "-w", "-R", f"set_super_value {name} {value}", disk)


@pytest.mark.parametrize(
    ("mtime", "mnt_count", "newer"), [(1000, 5, False), (990, 0, False), (1001, 0, True), (1000, 6, True)]
)
def test_a_disk_that_was_mounted_after_the_crash(
    riorecover: Riorecover, ram: Ram, loop: Mounted, mtime: int, mnt_count: int, newer: bool
) -> None:
    """Memory is older than what somebody did there, so a user has to say that it is given up."""
    ram.valid(mtime=1000, mnt_count=5).entry(2000, data(loop.inode("/file")[0], 0), b"n" * PAGE)
    superblock_field(loop.image, "mtime", f"@{mtime}")
    superblock_field(loop.image, "mnt_count", mnt_count)
    command = recovery(ram, loop.device, loop.folder)
    result = riorecover(*command)
    assert result.returncode == (3 if newer else 0)
    assert ("is newer than memory" in result.stderr) == newer
    assert (loop.folder / "file").read_bytes()[:PAGE] == (b"o" if newer else b"n") * PAGE
    assert phase(ram) == (ACTIVE if newer else RECOVERED)
    loop.unmount()
    assert riorecover(*command, "--give-up").returncode == 0


def test_a_recovery_that_was_cut_short_in_its_data_goes_on_there(
    riorecover: Riorecover, ram: Ram, loop: Mounted
) -> None:
    """What its own mount made newer than memory is no other's, and metadata is not put back once more."""
    ram.valid(phase=RECOVERING, mtime=1000, mnt_count=5)
    ram.entry(2000, data(loop.inode("/file")[0], 0), b"n" * PAGE)
    ram.entry(2001, metadata(1500), b"x" * PAGE)
    superblock_field(loop.image, "mtime", "@2000")
    report = riorecover.recover(ram, loop.device, loop.folder)
    assert report["complete"] and report["metadata"] == {"written": 0, "failed": 0}
    assert (loop.folder / "file").read_bytes()[:PAGE] == b"n" * PAGE
    assert phase(ram) == RECOVERED


def test_registry_stays_while_data_is_missing(riorecover: Riorecover, ram: Ram, loop: Mounted) -> None:
    """A file that refuses its data (immutable) must not cost what only memory holds."""
    content = random.Random(12).randbytes(PAGE)
    ram.valid().entry(2000, data(loop.inode("/file")[0], 0), content)
    ram.log_page(1, undo(1, 1500, 0, b"old"))
    ram.log_page(2, undo(2, 1500, 0, b"other", dev=OTHER_DEV))
    run_tool("debugfs", "-w", "-R", "set_inode_field /file flags 0x80010", loop.image)
    report = riorecover.recover(ram, loop.device, loop.folder)
    assert report["data"]["failed"] == 1 and report["data"]["lost_inodes"] == 0
    assert not report["complete"] and phase(ram) != RECOVERED
    loop.unmount()
    before = ram.path.read_bytes()
    # What had been put back is not put back once more; others' operations are still open.
    words = [before[log_address(page) :][:8] for page in (1, 2)]
    assert [word == log_word(page, LOG_FREE, 0, 0) for page, word in zip((1, 2), words, strict=True)] == [
        True,
        False,
    ]
    result = riorecover(*recovery(ram, loop.device, loop.folder), "--give-up")
    assert (result.returncode, json.loads(result.stdout)["complete"]) == (0, False)
    assert "given up" in result.stderr and phase(ram) == RECOVERED
    ram.path.write_bytes(before)
    run_tool("chattr", "-i", loop.folder / "file")
    run_tool("umount", loop.folder)
    report = riorecover.recover(ram, loop.device, loop.folder)
    assert report["data"]["pages"] == 1 and report["complete"] and phase(ram) == RECOVERED
    assert (loop.folder / "file").read_bytes() == content + b"o" * (FILE_SIZE - PAGE)


def test_each_file_system_has_its_own_phase(riorecover: Riorecover, ram: Ram, loop: Mounted) -> None:
    """One that is still to be recovered makes a recovery incomplete, but not one of what is listed alone."""
    ram.valid(file_systems=((OTHER_DEV, UUID[::-1]), (DEV, UUID)))
    for listed, status in ((["--listed"], 0), ([], 3)):
        result = riorecover(*recovery(ram, loop.device, loop.folder), *listed)
        report = json.loads(result.stdout)
        assert result.returncode == status
        assert (report["complete"], report["unrecovered"]) == (not status, bool(status))
        assert (phase(ram, 0), phase(ram, 1)) == (ACTIVE, RECOVERED)
        loop.unmount()
    assert "1 other file systems" in result.stderr
    result = riorecover(*recovery(ram, loop.device, loop.folder), "--give-up")
    assert result.returncode == 0 and not json.loads(result.stdout)["complete"]


@pytest.mark.parametrize("file_systems", [((OTHER_DEV, UUID[::-1]),), ((DEV, UUID, RECOVERED),), ()])
def test_a_file_system_that_is_not_listed_is_left_alone(
    riorecover: Riorecover, ram: Ram, loop: Mounted, file_systems: tuple[tuple[object, ...], ...]
) -> None:
    """Not checked, not mounted, and never taken for the only one in the registry."""
    ram.valid(file_systems=file_systems).entry(2000, metadata(1500), b"x" * PAGE)
    before = loop.image.read_bytes()
    result = riorecover(*recovery(ram, loop.device, loop.folder), "--listed")
    report = json.loads(result.stdout)
    assert (result.returncode, report["complete"], report["e2fsck_status"]) == (0, True, -1)
    assert loop.image.read_bytes() == before and not loop.folder.is_mount()


def test_another_file_system_is_checked_behind_its_mount(
    riorecover: Riorecover, loop: Mounted, tmp_path: Path
) -> None:
    """Its mount replays the log; what cannot be mounted is repaired first, and lost if that does not help."""
    log = tmp_path / "log"
    options = ["--check", "false", "--repair", "echo repaired", "--fsck-log", log]
    checked = by_mount(riorecover, loop, "tmpfs", *options)
    assert (checked["registry"], checked["file_system"], checked["mount_error"]) == ("cold", "tmpfs", 0)
    assert checked["e2fsck_status"] == 1
    assert checked["first_mount"] == {"error": 0, "without_log": None, "repair_status": None}
    repaired = by_mount(riorecover, loop, "xfs", *options)
    assert log.read_text() == f"repaired {loop.device}\n"
    error = repaired["mount_error"]
    assert error and repaired["e2fsck_status"] == -1
    assert repaired["first_mount"] == {"error": error, "without_log": None, "repair_status": 0}


def test_a_log_that_cannot_be_replayed_is_told_apart(riorecover: Riorecover, loop: Mounted) -> None:
    """Here the journal of ext3 is no journal, and the mount option `noload` leaves it out."""
    run_tool("mke2fs", "-q", "-F", "-t", "ext3", loop.device)
    run_tool("debugfs", "-w", "-R", "feature needs_recovery", loop.device)
    run_tool("debugfs", "-w", "-R", "zap_block -f <8> -p 0x55 0", loop.device)
    options = ["--repair", f"{tool('e2fsck')} -fy", "--without-log", "noload"]
    report = by_mount(riorecover, loop, "ext3", *options)
    assert report["first_mount"].pop("error")
    assert report["first_mount"] == {"without_log": True, "repair_status": 1}
    assert (report["mount_error"], report["complete"]) == (0, True)
    # Nothing of it is left for the next recovery.
    assert by_mount(riorecover, loop, "ext3", *options)["first_mount"]["error"] == 0


@pytest.mark.parametrize("option", ["--check", "--repair"])
def test_a_program_that_is_not_there_is_no_result(riorecover: Riorecover, loop: Mounted, option: str) -> None:
    kind = {"--check": "tmpfs", "--repair": "xfs"}[option]
    for program, status in (("/no/program", 4), ("/dev/null", 4), ("true", 0)):
        place = ["--device", loop.device, "--mount", loop.folder, "--type", kind]
        result = riorecover("recover", *place, option, program)
        assert (result.returncode, bool(result.stdout)) == (status, not status)
        assert (f"riorecover: {program}: No such file" in result.stderr) == bool(status)
        loop.unmount()


def by_mount(riorecover: Riorecover, loop: Mounted, kind: str, *options: object) -> dict[str, Any]:
    """The report of a recovery of another type than ext4."""
    result = riorecover("recover", "--device", loop.device, "--mount", loop.folder, "--type", kind, *options)
    report: dict[str, Any] = json.loads(result.stdout)
    assert result.returncode == 0 and loop.folder.is_mount() == (not report["mount_error"])
    loop.unmount()
    return report
