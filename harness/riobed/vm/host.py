# SPDX-License-Identifier: Apache-2.0
"""What the host has: its tools, its QEMU, the room on its disks."""

import shutil
import subprocess
from pathlib import Path

from riobed.errors import EnvironmentFault
from riobed.products import MIB

# Bytes left after a trial that was not short of any: on a full disk a guest's logs end early, as if it had
# fallen silent.
LEAST_ROOM = 64 * MIB


def run_tool(argv: list[str], what: str) -> str:
    """Run a host tool and return its output; EnvironmentFault in one line when it fails."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, errors="replace")
    except FileNotFoundError:
        raise EnvironmentFault(f"{what}: {argv[0]} is not installed; run 'make setup'") from None
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
