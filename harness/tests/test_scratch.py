# SPDX-License-Identifier: Apache-2.0
"""What a killed riobed has left behind is ended and removed; nothing else is touched."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from riobed.errors import EnvironmentFault
from riobed.vm import scratch

Processes = list[subprocess.Popen[bytes]]


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    base, memory = tmp_path / "base", tmp_path / "shm"
    base.mkdir()
    memory.mkdir()
    monkeypatch.setenv("RIOBED_SCRATCH", str(base))
    monkeypatch.setattr(scratch, "_SHARED_MEMORY", memory)
    return base


@pytest.fixture
def processes() -> Iterator[Processes]:
    started: Processes = []
    yield started
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def dead() -> int:
    """The process id of a process that has ended."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def stand_in(processes: Processes, *arguments: object) -> subprocess.Popen[bytes]:
    """A harmless process whose command line holds these arguments."""
    program = "import sys, time; print(flush=True); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", program, *map(str, arguments)], stdout=subprocess.PIPE)
    processes.append(process)
    assert process.stdout
    process.stdout.readline()
    return process


def left_behind(base: Path, pid: int, mark: str = "abcdefgh") -> Path:
    folder = base / f"riobed-{pid}-{mark}"
    (folder / "libvirt" / "run").mkdir(parents=True)
    (folder / "disk.qcow2").write_bytes(b"x" * 100)
    return folder


def test_the_guests_of_a_dead_riobed_are_ended(base: Path, processes: Processes, dead: int) -> None:
    folder = base / f"riobed-{dead}-abcdefgh"
    guests = [stand_in(processes, "qemu-system-x86_64", "-drive", folder / "disk.qcow2") for _ in range(2)]
    left_behind(base, dead)
    scratch.clean_up_after_the_dead()
    assert [guest.wait(5) for guest in guests] == [-signal.SIGKILL] * 2
    assert list(base.iterdir()) == []


def test_only_its_own_guests_are_ended(base: Path, processes: Processes, dead: int) -> None:
    folder = base / f"riobed-{dead}-abcdefgh"
    innocents = [
        stand_in(processes, "qemu-system-x86_64", "/var/lib/libvirt/images/other.qcow2"),
        stand_in(processes, "qemu-system-x86_64", base / "riobed-1-abcdefgh" / "disk.qcow2"),
        stand_in(processes, "editor", folder / "disk.qcow2"),
        stand_in(processes, "sleep"),
    ]
    left_behind(base, dead)
    scratch.clean_up_after_the_dead()
    assert [process.poll() for process in innocents] == [None] * 4
    assert not folder.exists()


def test_a_living_riobed_is_left_alone(base: Path, processes: Processes) -> None:
    living = stand_in(processes, "riobed")
    folder = base / f"riobed-{living.pid}-abcdefgh"
    guest = stand_in(processes, "qemu-system-x86_64", folder / "disk.qcow2")
    left_behind(base, living.pid)
    scratch.clean_up_after_the_dead()
    assert guest.poll() is None
    assert (folder / "disk.qcow2").exists()


def test_a_process_that_has_the_id_of_a_dead_riobed_by_now(base: Path, processes: Processes) -> None:
    other = stand_in(processes, "something else")
    folder = left_behind(base, other.pid, "0123456ab")
    guest = stand_in(processes, "qemu-system-x86_64", folder / "disk.qcow2")
    scratch.clean_up_after_the_dead()
    assert guest.wait(5) == -signal.SIGKILL
    assert not folder.exists()
    assert other.poll() is None


def test_the_host_was_rebooted(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All is as in the last boot, but for the boot's id."""
    mine = left_behind(base, os.getpid(), scratch._birth(os.getpid()))
    scratch.clean_up_after_the_dead()
    assert mine.exists()
    boot_id = tmp_path / "boot_id"
    boot_id.write_text("00000000-0000-4000-8000-000000000000\n")
    monkeypatch.setattr(scratch, "_BOOT_ID", boot_id)
    scratch.clean_up_after_the_dead()
    assert not mine.exists()


def test_a_killed_riobed_whose_parent_has_not_asked_yet_is_dead(base: Path, processes: Processes) -> None:
    process, folders = riobed(base, processes)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    other, _ = riobed(base, processes)
    assert not any(folder.exists() for folder in folders)
    other.communicate(b"\n")


def test_a_program_whose_name_looks_like_more_of_its_status(
    base: Path, processes: Processes, tmp_path: Path
) -> None:
    program = tmp_path / ") Z 1 2"
    program.symlink_to("/bin/sleep")
    process = subprocess.Popen([program, "60"])
    processes.append(process)
    folder = left_behind(base, process.pid)
    scratch.clean_up_after_the_dead()
    assert folder.exists()


def test_memory_files_are_removed_too(base: Path, dead: int) -> None:
    memory = base.parent / "shm" / f"riobed-{dead}-abcdefgh"
    memory.mkdir()
    (memory / "ram").write_bytes(b"x")
    scratch.clean_up_after_the_dead()
    assert not memory.exists()


@pytest.mark.parametrize("name", ["riobed-{dead}", "other-{dead}-x", "riobed-x-y", "riobed-", "riobed-1x-y"])
def test_other_names_are_not_ours(base: Path, dead: int, name: str) -> None:
    folder = base / name.format(dead=dead)
    folder.mkdir()
    scratch.clean_up_after_the_dead()
    assert folder.exists()


def test_a_link_is_not_followed(base: Path, dead: int, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").touch()
    (base / f"riobed-{dead}-abcdefgh").symlink_to(elsewhere)
    scratch.clean_up_after_the_dead()
    assert (elsewhere / "file").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_another_users_folder_is_left_alone(base: Path, dead: int) -> None:
    folder = left_behind(base, dead)
    os.chown(folder, 65534, 65534)
    scratch.clean_up_after_the_dead()
    assert folder.exists()


PROGRAM = "from riobed.vm.scratch import *; print(scratch_dir(), memory_dir(), flush=True); input()"


def riobed(base: Path, processes: Processes) -> tuple[subprocess.Popen[bytes], list[Path]]:
    """A process that has a working folder, and where it and its memory are."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "RIOBED_SCRATCH": str(base)},
    )
    processes.append(process)
    assert process.stdout
    return process, [Path(word) for word in process.stdout.readline().decode().split()]


def test_the_folder_lives_as_long_as_its_process(base: Path, processes: Processes) -> None:
    process, folders = riobed(base, processes)
    assert folders[0].parent == base
    assert folders[0].name.startswith(f"riobed-{process.pid}-")
    assert all(folder.is_dir() for folder in folders)
    process.communicate(b"\n")
    assert process.returncode == 0
    assert not any(folder.exists() for folder in folders)


def test_the_next_process_removes_what_a_killed_one_left(base: Path, processes: Processes) -> None:
    process, folders = riobed(base, processes)
    process.kill()
    process.wait()
    assert all(folder.exists() for folder in folders)
    other, new = riobed(base, processes)
    assert not any(folder.exists() for folder in folders)
    assert all(folder.exists() for folder in new)
    other.communicate(b"\n")


def test_no_place_for_the_folder(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RIOBED_SCRATCH", str(base / "nowhere"))
    with pytest.raises(EnvironmentFault) as caught:
        scratch.scratch_dir.__wrapped__()
    assert str(caught.value) == (
        f"{base}/nowhere: No such file or directory; set RIOBED_SCRATCH to a folder with room"
    )
