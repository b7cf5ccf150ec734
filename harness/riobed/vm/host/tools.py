# SPDX-License-Identifier: Apache-2.0
"""The host: its tools and the room on its disks."""

import os
import shutil
import subprocess
from pathlib import Path

from riobed_results.files import replacing

from riobed.errors import EnvironmentFault
from riobed.products import MIB

# Bytes that must be free after a trial. On a full disk a guest's logs end early, as if the guest had fallen
# silent.
LEAST_ROOM = 64 * MIB
# Administrators' tools; other users' PATH does not include these folders.
_SBIN = "/usr/sbin:/sbin"
# In the toolchain root and on the host: the certificate authorities that downloads trust.
_TRUSTED = Path("/etc/ssl/certs/ca-certificates.crt")


def find_tool(name: str) -> str:
    """Return the path of a host tool; EnvironmentFault if it is not installed."""
    path = shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:{_SBIN}")
    if not path:
        raise EnvironmentFault(f"{name} is not installed; run 'make setup'")
    return path


def run_tool(argv: list[str], what: str) -> str:
    """Run a host tool and return its output; EnvironmentFault with its last line if it fails."""
    command = [find_tool(argv[0]), *argv[1:]]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()
        raise EnvironmentFault(f"{what}: {argv[0]}: {last[-1] if last else f'status {done.returncode}'}")
    return done.stdout


def run_inside(root: Path, folder: Path, script: str, what: str) -> None:
    """Run a text for sh in a folder of the toolchain root; EnvironmentFault if it fails."""
    _trust_as_host(root)
    inside = f"cd /{folder.relative_to(root)}\n{script}"
    run_tool(["chroot", str(root), "/bin/sh", "-ec", inside], what)


def _trust_as_host(root: Path) -> None:
    """Let what runs in the toolchain root verify servers as this host does, behind a proxy, too."""
    if _TRUSTED.exists():
        inside = root / _TRUSTED.relative_to("/")
        inside.parent.mkdir(parents=True, exist_ok=True)
        with replacing(inside) as temporary:
            shutil.copyfile(_TRUSTED, temporary)


def need_memory(size: int, what: str) -> None:
    """Raise EnvironmentFault unless the host has `size` bytes of memory to give to `what`."""
    fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    available = int(fields["MemAvailable"].split()[0]) * 1024
    if available < size:
        raise EnvironmentFault(
            f"{what} take {size // MIB} MiB of memory, {available // MIB} MiB are available; end what else "
            "takes memory, or compare fewer modes"
        )


def need_room(folder: Path, size: int) -> None:
    """Raise EnvironmentFault unless the file system of `folder` has `size` bytes free."""
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < size:
        raise EnvironmentFault(f"{folder}: {free // MIB} MiB free, {size // MIB} MiB needed; make room there")
