# SPDX-License-Identifier: Apache-2.0
"""What the host has: its tools, its QEMU, the room on its disks."""

import os
import shutil
import subprocess
from pathlib import Path

from riobed.errors import EnvironmentFault
from riobed.products import MIB

# Bytes left after a trial that was not short of any: on a full disk a guest's logs end early, as if it had
# fallen silent.
LEAST_ROOM = 64 * MIB
# Administrators' tools, which PATH of other users does not name.
_SBIN = "/usr/sbin:/sbin"


def find_tool(name: str) -> str:
    """The path of a host tool; EnvironmentFault in one line if it is not installed."""
    path = shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:{_SBIN}")
    if not path:
        raise EnvironmentFault(f"{name} is not installed; run 'make setup'")
    return path


def run_tool(argv: list[str], what: str) -> str:
    """Run a host tool and return its output; EnvironmentFault in one line when it fails."""
    command = [find_tool(argv[0]), *argv[1:]]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()
        raise EnvironmentFault(f"{what}: {argv[0]}: {last[-1] if last else f'status {done.returncode}'}")
    return done.stdout


def qemu_version() -> str:
    """What the host's QEMU says it is, in one line; EnvironmentFault if there is none."""
    return run_tool(["qemu-system-x86_64", "--version"], "QEMU").splitlines()[0]


def need_room(folder: Path, size: int) -> None:
    """EnvironmentFault unless the file system of `folder` has `size` bytes left."""
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < size:
        raise EnvironmentFault(f"{folder}: {free // MIB} MiB free, {size // MIB} MiB needed; make room there")
