# SPDX-License-Identifier: Apache-2.0
"""Working folder of this process: disks, sockets, libvirt's state, guests' RAM.

One for each process, because libvirt's embedded driver wants its root for itself, and under a
short path, because a Unix socket's is at most 107 bytes. QEMU outlives a harness that is
killed, so the next one ends what a dead process has left behind, and removes it.
"""

import atexit
import hashlib
import os
import re
import shutil
from functools import cache
from pathlib import Path

from riobed.errors import EnvironmentFault
from riobed.vm.process import end_qemus
from riobed.vm.unprivileged import open_folder

# Process id and mark of its birth; names of earlier versions end with eight other characters.
_NAME = re.compile(r"riobed-(\d+)-(?:([0-9a-f]{9})|\w{8})")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_SHARED_MEMORY = Path("/dev/shm")


def _base() -> Path:
    return Path(os.environ.get("RIOBED_SCRATCH", "/var/tmp"))


@cache
def scratch_dir() -> Path:
    """The folder, made at the first call and removed when the process ends."""
    clean_up_after_the_dead()
    pid = os.getpid()
    folder = _base() / f"riobed-{pid}-{_birth(pid)}"
    try:
        # QEMU runs as another user (riobed.vm.unprivileged), and has files below.
        folder.mkdir()
        folder.chmod(0o711)
    except OSError as error:
        raise EnvironmentFault(
            f"{_base()}: {error.strerror}; set RIOBED_SCRATCH to a folder with room"
        ) from None
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def memory_dir() -> Path:
    """Where the files that are guests' RAM lie: in shared memory if the host has it."""
    if not (os.path.ismount(_SHARED_MEMORY) and os.access(_SHARED_MEMORY, os.W_OK)):
        folder = scratch_dir() / "memory"
        open_folder(folder)
        return folder
    folder = _SHARED_MEMORY / scratch_dir().name
    open_folder(folder)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def clean_up_after_the_dead() -> None:
    """End guests and remove folders of riobed processes that no longer exist."""
    for base in (_base(), _SHARED_MEMORY):
        for folder in base.glob("riobed-*"):
            if _dead(folder.name) and _ours(folder):
                end_qemus(os.fsencode(f"/{folder.name}/"))
                shutil.rmtree(folder, ignore_errors=True)


def _dead(name: str) -> bool:
    """Is it the name of a folder whose process has ended? Its id may be another process's by now."""
    match = _NAME.fullmatch(name)
    if not match:
        return False
    now = _birth(int(match[1]))
    return not now or (match[2] or now) != now


def _birth(pid: int) -> str:
    """What tells a process from all that have its id before or after it; "" if there is none.

    A hash of the host's boot and of the process's start, field 22 of /proc/PID/stat (man 5 proc).
    """
    try:
        stat = Path("/proc", str(pid), "stat").read_text(errors="replace")
    except OSError:
        return ""
    # Field 2 is the program's name in brackets, in which anything may be.
    state, *fields = stat.rpartition(")")[2].split()
    if state == "Z":  # killed, and its parent has not asked yet
        return ""
    started = fields[18]
    return hashlib.sha256(f"{_BOOT_ID.read_text()} {started}".encode()).hexdigest()[:9]


def _ours(folder: Path) -> bool:
    try:
        return folder.stat().st_uid == os.getuid()
    except FileNotFoundError:
        # Another riobed is cleaning up as well.
        return False
