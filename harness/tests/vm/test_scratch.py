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
from riobed.vm.host import scratch

Process = subprocess.Popen[bytes]
WAITS = "import sys, time; print(flush=True); time.sleep(600)"
RIOBED = "from riobed.vm.host.scratch import *; print(scratch_dir(), memory_dir(), flush=True); input()"


class Host:
    """Processes, dead and alive, and where working folders lie."""

    def __init__(self, folder: Path) -> None:
        self.base, self.memory = folder / "base", folder / "shm"
        self.base.mkdir()
        self.memory.mkdir()
        self.processes: list[Process] = []
        ended = subprocess.Popen(["true"])
        ended.wait()
        self.dead = ended.pid

    def popen(self, *argv: object) -> Process:
        env = {**os.environ, "RIOBED_SCRATCH": str(self.base)}
        pipe = subprocess.PIPE
        self.processes.append(subprocess.Popen(list(map(str, argv)), stdin=pipe, stdout=pipe, env=env))
        return self.processes[-1]

    def stand_in(self, *arguments: object) -> Process:
        """A harmless process whose command line holds these arguments."""
        process = self.popen(sys.executable, "-c", WAITS, *arguments)
        assert process.stdout and process.stdout.readline()
        return process

    def guest_of(self, folder: Path) -> Process:
        return self.stand_in("qemu-system-x86_64", "-drive", folder / "disk.qcow2")

    def left_behind(self, pid: int, mark: str = "abcdefgh") -> Path:
        folder = self.base / f"riobed-{pid}-{mark}"
        (folder / "libvirt" / "run").mkdir(parents=True)
        (folder / "disk.qcow2").write_bytes(b"x" * 100)
        return folder

    def riobed(self) -> tuple[Process, list[Path]]:
        """A process that has a working folder, and where it and its memory are."""
        process = self.popen(sys.executable, "-c", RIOBED)
        assert process.stdout
        return process, [Path(word) for word in process.stdout.readline().decode().split()]


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    host = Host(tmp_path)
    monkeypatch.setenv("RIOBED_SCRATCH", str(host.base))
    monkeypatch.setattr(scratch, "SHARED_MEMORY", host.memory)
    yield host
    for process in host.processes:
        process.kill()
        process.communicate()


def test_the_guests_and_files_of_a_dead_riobed_are_removed(host: Host) -> None:
    folder = host.left_behind(host.dead)
    (host.memory / folder.name).mkdir()
    (host.memory / folder.name / "ram").write_bytes(b"x")
    guests = [host.guest_of(folder) for _ in range(2)]
    scratch.clean_up_after_the_dead()
    assert [guest.wait(120) for guest in guests] == [-signal.SIGKILL] * 2
    assert [*host.base.iterdir(), *host.memory.iterdir()] == []


def test_only_its_own_guests_are_ended(host: Host) -> None:
    folder = host.left_behind(host.dead)
    innocents = [
        host.stand_in("qemu-system-x86_64", "/var/lib/libvirt/images/other.qcow2"),
        host.guest_of(host.base / "riobed-1-abcdefgh"),
        host.stand_in("editor", folder / "disk.qcow2"),
        host.stand_in("sleep"),
    ]
    scratch.clean_up_after_the_dead()
    assert [process.poll() for process in innocents] == [None] * 4
    assert not folder.exists()


def test_a_living_riobed_is_left_alone(host: Host) -> None:
    folder = host.left_behind(host.stand_in("riobed").pid)
    guest = host.guest_of(folder)
    scratch.clean_up_after_the_dead()
    assert guest.poll() is None
    assert (folder / "disk.qcow2").exists()


def test_a_process_that_has_the_id_of_a_dead_riobed_by_now(host: Host) -> None:
    other = host.stand_in("something else")
    folder = host.left_behind(other.pid, "0123456ab")
    guest = host.guest_of(folder)
    scratch.clean_up_after_the_dead()
    assert guest.wait(120) == -signal.SIGKILL
    assert not folder.exists()
    assert other.poll() is None


def test_the_host_was_rebooted(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All is as in the last boot, but for the boot's id."""
    mine = host.left_behind(os.getpid(), scratch._birth(os.getpid()))
    scratch.clean_up_after_the_dead()
    assert mine.exists()
    (tmp_path / "boot_id").write_text("00000000-0000-4000-8000-000000000000\n")
    monkeypatch.setattr(scratch, "_BOOT_ID", tmp_path / "boot_id")
    scratch.clean_up_after_the_dead()
    assert not mine.exists()


def test_a_program_whose_name_looks_like_more_of_its_status(host: Host, tmp_path: Path) -> None:
    (tmp_path / ") Z 1 2").symlink_to("/bin/sleep")
    folder = host.left_behind(host.popen(tmp_path / ") Z 1 2", "60").pid)
    scratch.clean_up_after_the_dead()
    assert folder.exists()


@pytest.mark.parametrize("name", ["riobed-{dead}", "other-{dead}-x", "riobed-x-y", "riobed-", "riobed-1x-y"])
def test_other_names_are_not_ours(host: Host, name: str) -> None:
    folder = host.base / name.format(dead=host.dead)
    folder.mkdir()
    scratch.clean_up_after_the_dead()
    assert folder.exists()


def test_a_link_is_not_followed(host: Host, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (host.base / f"riobed-{host.dead}-abcdefgh").symlink_to(tmp_path / "elsewhere")
    scratch.clean_up_after_the_dead()
    assert (tmp_path / "elsewhere").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_another_users_folder_is_left_alone(host: Host) -> None:
    folder = host.left_behind(host.dead)
    os.chown(folder, 65534, 65534)
    scratch.clean_up_after_the_dead()
    assert folder.exists()


def test_the_folder_lives_as_long_as_its_process(host: Host) -> None:
    process, folders = host.riobed()
    assert folders[0].parent == host.base
    assert folders[0].name.startswith(f"riobed-{process.pid}-")
    assert all(folder.is_dir() for folder in folders)
    guest = host.guest_of(folders[0])
    process.communicate(b"\n")
    assert process.returncode == 0
    # It was interrupted before it knew of this one.
    assert guest.wait(120) == -signal.SIGKILL
    assert not any(folder.exists() for folder in folders)


@pytest.mark.parametrize("asked", [False, True])
def test_the_next_process_removes_what_a_killed_one_left(host: Host, asked: bool) -> None:
    """Also of one whose parent has not asked yet how it ended."""
    process, folders = host.riobed()
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | (0 if asked else os.WNOWAIT))
    assert all(folder.exists() for folder in folders)
    _, new = host.riobed()
    assert not any(folder.exists() for folder in folders)
    assert all(folder.exists() for folder in new)


def test_a_riobed_of_another_container_is_left_alone_until_it_ends(host: Host) -> None:
    """By its id here it is dead."""
    process, folders = host.riobed()
    there = [folder.rename(folder.parent / f"riobed-{host.dead}-012345678") for folder in folders]
    host.riobed()
    assert all(folder.exists() for folder in there)
    process.kill()
    process.wait()
    host.riobed()
    assert not any(folder.exists() for folder in there)


def test_no_place_for_the_folder(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RIOBED_SCRATCH", str(host.base / "nowhere"))
    with pytest.raises(EnvironmentFault, match=f"^{host.base}/nowhere: No such file .*; set RIOBED_SCRATCH"):
        scratch.scratch_dir.__wrapped__()
