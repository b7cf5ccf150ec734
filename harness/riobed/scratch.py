# SPDX-License-Identifier: Apache-2.0
"""Working folder of this process: disks, sockets, libvirt's state, guests' RAM.

One for each process, because libvirt's embedded driver wants its root for itself, and under a
short path, because a Unix socket's is at most 107 bytes. QEMU outlives a harness that is
killed, so the next one ends what a dead process has left behind, and removes it.
"""

import atexit
import os
import shutil
import signal
import tempfile
from functools import cache
from pathlib import Path

from riobed.errors import EnvironmentFault

_PREFIX = "riobed-"
_SHARED_MEMORY = Path("/dev/shm")


def _base() -> Path:
    return Path(os.environ.get("RIOBED_SCRATCH", "/var/tmp"))


@cache
def scratch_dir() -> Path:
    """The folder, made at the first call and removed when the process ends."""
    clean_up_after_the_dead()
    try:
        folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=_base()))
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
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder
    folder = _SHARED_MEMORY / scratch_dir().name
    folder.mkdir(mode=0o700, exist_ok=True)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def clean_up_after_the_dead() -> None:
    """End guests and remove folders of riobed processes that no longer exist."""
    for base in (_base(), _SHARED_MEMORY):
        for folder in base.glob(f"{_PREFIX}[0-9]*-*"):
            pid = folder.name.removeprefix(_PREFIX).partition("-")[0]
            if pid.isdigit() and not Path("/proc", pid).exists() and _ours(folder):
                for pid_file in folder.rglob("*.pid"):
                    _end_guest(pid_file, folder)
                shutil.rmtree(folder, ignore_errors=True)


def _ours(folder: Path) -> bool:
    try:
        return folder.stat().st_uid == os.getuid()
    except FileNotFoundError:
        # Another riobed is cleaning up as well.
        return False


def _end_guest(pid_file: Path, folder: Path) -> None:
    """Kill the process a pid file names, if it is still the QEMU that has this folder's files."""
    try:
        pid = int(pid_file.read_text())
        command = Path("/proc", str(pid), "cmdline").read_bytes()
    except (OSError, ValueError):
        return
    if b"qemu-system" in command and os.fsencode(folder) in command:
        os.kill(pid, signal.SIGKILL)
