# SPDX-License-Identifier: Apache-2.0
"""The working folder of this process: disks, sockets, libvirt's state and guests' RAM.

Each process has its own, because libvirt's embedded driver needs its root for itself. The path is short,
because a Unix socket's path has at most 107 bytes. QEMU outlives a harness that is killed, so the next
harness kills the QEMUs of dead processes and removes their folders. A living process holds a lock on its
folders: a container that shares them has process ids of its own, by which it would seem dead.
"""

import atexit
import fcntl
import hashlib
import os
import re
import shutil
from functools import cache
from pathlib import Path

from riobed.errors import EnvironmentFault
from riobed.vm.host.process import end_qemus
from riobed.vm.host.unprivileged import open_folder

# Process id and mark of its start; in names of earlier versions eight other characters stand for the mark.
_NAME = re.compile(r"riobed-(\d+)-(?:([0-9a-f]{9})|\w{8})")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
SHARED_MEMORY = Path("/dev/shm")


def _base() -> Path:
    return Path(os.environ.get("RIOBED_SCRATCH", "/var/tmp"))


@cache
def scratch_dir() -> Path:
    """Return the folder; it is made at the first call and removed when the process ends."""
    clean_up_after_the_dead()
    pid = os.getpid()
    folder = _base() / f"riobed-{pid}-{_birth(pid)}"
    try:
        # QEMU, as another user (riobed.vm.host.unprivileged), needs files inside it.
        folder.mkdir()
        folder.chmod(0o711)
        _hold(folder)
    except OSError as error:
        raise EnvironmentFault(
            f"{_base()}: {error.strerror}; set RIOBED_SCRATCH to a folder with room"
        ) from None
    atexit.register(_remove, folder)
    return folder


@cache
def memory_dir() -> Path:
    """Return the folder of the files that are guests' RAM: in shared memory if the host has it."""
    if not (os.path.ismount(SHARED_MEMORY) and os.access(SHARED_MEMORY, os.W_OK)):
        folder = scratch_dir() / "memory"
        open_folder(folder)
        return folder
    folder = SHARED_MEMORY / scratch_dir().name
    open_folder(folder)
    _hold(folder)
    atexit.register(_remove, folder)
    return folder


def clean_up_after_the_dead() -> None:
    """Kill the guests and remove the folders of riobed processes that no longer exist."""
    for base in (_base(), SHARED_MEMORY):
        for folder in base.glob("riobed-*"):
            if _dead(folder.name) and _ours(folder) and not _held(folder):
                _remove(folder)


def _remove(folder: Path) -> None:
    """Remove a folder; end the guests that have files in it, as one has whose start was interrupted."""
    end_qemus(os.fsencode(f"/{folder.name}/"))
    shutil.rmtree(folder, ignore_errors=True)


def _hold(folder: Path) -> None:
    """Lock a folder until this process ends."""
    fcntl.flock(os.open(folder, os.O_RDONLY), fcntl.LOCK_EX)


def _held(folder: Path) -> bool:
    """Whether some process has locked the folder."""
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        # It is gone meanwhile, or none of ours.
        return False
    try:
        fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(opened)
    return False


def _dead(name: str) -> bool:
    """Whether the process of the folder with this name has ended; its id may have been reused since."""
    match = _NAME.fullmatch(name)
    if not match:
        return False
    now = _birth(int(match[1]))
    return not now or (match[2] or now) != now


def _birth(pid: int) -> str:
    """Return a mark that tells a process from all others with the same id; "" if there is no such process.

    It is a hash of the host's boot id and the process's start time, field 22 of /proc/PID/stat (man 5 proc).
    """
    try:
        stat = Path("/proc", str(pid), "stat").read_text(errors="replace")
    except OSError:
        return ""
    # Field 2 is the program's name in brackets; it may contain any character.
    state, *fields = stat.rpartition(")")[2].split()
    if state == "Z":  # it was killed, and its parent has not reaped it yet
        return ""
    started = fields[18]
    return hashlib.sha256(f"{_BOOT_ID.read_text()} {started}".encode()).hexdigest()[:9]


def _ours(folder: Path) -> bool:
    try:
        return folder.stat().st_uid == os.getuid()
    except FileNotFoundError:
        # Another riobed process is cleaning up at the same time.
        return False
