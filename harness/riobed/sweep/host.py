# SPDX-License-Identifier: Apache-2.0
"""What a sweep needs of this host: root, and tools that mount and check."""

import os
import shutil
import subprocess
from pathlib import Path

from riobed.errors import EnvironmentFault, InfraError

# Where root's tools are, if the path does not say so.
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
_TOOLS = {"losetup": "mount", "mount": "mount", "umount": "mount", "e2fsck": "e2fsprogs"}
# For a sweep over recovery, with the device that makes a disk of a program.
_LOGGING = {"qemu-storage-daemon": "qemu-system-common"}
_FUSE = Path("/dev/fuse")


def need_host(logging: bool) -> None:
    """Raise EnvironmentFault unless this host lets us mount, and has the tools for it.

    With `logging` also those that log a disk's writes.
    """
    if os.geteuid():
        raise EnvironmentFault("riobed sweep mounts what it recovers: run it as root")
    for name in (*_TOOLS, *(_LOGGING if logging else ())):
        tool(name)
    if logging and not _FUSE.exists():
        raise EnvironmentFault(f"{_FUSE} is missing: load the module fuse")


def tool(name: str) -> str:
    """Return the path of a tool; EnvironmentFault if it is not installed."""
    if path := shutil.which(name, path=PATH):
        return path
    package = (_TOOLS | _LOGGING)[name]
    raise EnvironmentFault(f"{name} is not installed; install the package {package}")


def run(name: object, *arguments: object) -> bytes:
    """Run a tool and return what it prints; InfraError if it fails."""
    command = list(map(str, (name, *arguments)))
    done = subprocess.run(command, capture_output=True, env={"PATH": PATH})
    if done.returncode:
        raise InfraError(f"{' '.join(command)}: {done.stderr.decode('utf-8', 'replace').strip()}")
    return done.stdout
