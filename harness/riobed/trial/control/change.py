# SPDX-License-Identifier: Apache-2.0
"""A planted change, and the files that it can hit."""

import os
from dataclasses import asdict, dataclass
from typing import Any, Literal

from riobed.errors import InfraError
from riobed.guest import GUEST_DIR, Guest

_FIND = f"find {GUEST_DIR} \\( -type f -o -type d \\) -printf '%y %s %i %p\\0'"


@dataclass(frozen=True)
class Plant:
    """The change: bit `bit` of byte `offset` of the file with inode `ino`.

    For kind `entry`, `bit` is one of the 256 bits of the entry of the page at `offset`. For ext4's own
    structures, `offset` is in block `block` of the device, `part` says what of the structure it is, and `of`
    is the block in use that a bitmap no longer has. For kinds `canary` and `writecache`, `offset` is in the
    NVDIMM. `where` is the device that was changed from outside; None in memory, and for what the guest wrote.

    The workload was at rest or in the middle of `step`. `e2fsck`: whether it named the change after the
    crash; None if it was not asked.
    """

    kind: str
    ino: int
    offset: int
    bit: int
    block: int | None = None
    part: str | None = None
    of: int | None = None
    where: Literal["nvdimm", "disk"] | None = None
    during: Literal["rest", "step"] = "rest"
    step: int | None = None
    e2fsck: bool | None = None

    def as_stored(self) -> dict[str, Any]:
        """Return the change as the parameters of a fault."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def files(guest: Guest) -> list[tuple[int, int, str]]:
    """Return size in bytes, inode and name of each file that is not empty; InfraError if there is none."""
    if found := [(size, ino, name) for kind, size, ino, name in _find(guest) if kind == b"f" and size]:
        return found
    raise InfraError("planted: no file to change")


def listing(guest: Guest) -> list[tuple[int, int, str]]:
    """Return the same of every file and directory."""
    return [(size, ino, name) for _, size, ino, name in _find(guest)]


def _find(guest: Guest) -> list[tuple[bytes, int, int, str]]:
    found = guest.machine.run(["/bin/sh", "-c", _FIND])
    if found.status:
        raise InfraError("planted: the files cannot be listed")
    lines = [line.split(b" ", 3) for line in found.stdout.split(b"\0") if line]
    return [(kind, int(size), int(ino), os.fsdecode(name)) for kind, size, ino, name in lines]
