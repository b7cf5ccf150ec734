# SPDX-License-Identifier: Apache-2.0
"""The control `planted`: one bit of one file is changed behind the workload's back, and must be found.

Stray: in memory, as a store that went astray would; nobody says to be changing the page, so its
checksum is wrong. Written: by a legal write to the wrong file, which every checksum follows.
"""

import random
from dataclasses import asdict, dataclass
from typing import Any, Literal

from riobed import registry
from riobed.errors import InfraError
from riobed.guest import Guest
from riobed.layout import PAGE, Layout
from riobed.workload import GUEST_DIR

PLANTED = "planted"

_FIND = f"find {GUEST_DIR} -type f -size +0 -printf '%s %i %p\\0'"


@dataclass(frozen=True)
class Plant:
    """What was changed: bit `bit` of byte `offset` of the file with that inode."""

    kind: Literal["stray", "written"]
    ino: int
    offset: int
    bit: int

    def as_stored(self) -> dict[str, Any]:
        """As the parameters of a fault."""
        return asdict(self)


def plant(guest: Guest, rng: random.Random) -> Plant:
    """Change a bit, drawn uniformly over the bytes there are; nothing may be writing.

    Stray in half of the trials of a mode that keeps memory. InfraError if there is nothing to change.
    """
    stray = rng.random() < 0.5 and guest.mode.restores_memory
    return _stray(guest, rng) if stray else _written(guest, rng)


def _stray(guest: Guest, rng: random.Random) -> Plant:
    """In a dirty page of a file: what is in a clean one is on disk, too, and is not restored."""
    bit = rng.randrange(8)
    guest.machine.pause()
    with registry.mapped(guest.machine.ram_path()) as memory:
        listed = registry.listed(memory, Layout(guest.machine.config.memory))
        pages = [page for page in listed if page.state == registry.DIRTY and page.bytes]
        if not pages:
            raise InfraError("planted: no dirty page of a file is in memory")
        page = rng.choices(pages, [page.bytes for page in pages])[0]
        byte = rng.randrange(page.bytes)
        memory[page.address + byte] ^= 1 << bit
    guest.machine.resume()
    return Plant("stray", page.ino, page.index * PAGE + byte, bit)


def _written(guest: Guest, rng: random.Random) -> Plant:
    bit = rng.randrange(8)
    found = guest.machine.run(["/bin/sh", "-c", _FIND])
    files = [line.split(b" ", 2) for line in found.stdout.split(b"\0") if line]
    if found.status or not files:
        raise InfraError("planted: no file to change")
    size, ino, path = rng.choices(files, [int(size) for size, *_ in files])[0]
    offset = rng.randrange(int(size))
    name = path.decode("utf-8", "surrogateescape")
    at = ["bs=1", "count=1", "status=none"]
    old = guest.machine.run(["/bin/dd", f"if={name}", f"skip={offset}", *at])
    if len(old.stdout) != 1:
        raise InfraError(f"planted: inode {int(ino)} cannot be read")
    new = bytes([old.stdout[0] ^ 1 << bit])
    put = ["/bin/dd", f"of={name}", f"seek={offset}", "conv=notrunc,fsync", *at]
    if guest.machine.run(put, stdin=new).status:
        raise InfraError(f"planted: inode {int(ino)} cannot be written")
    return Plant("written", int(ino), offset, bit)
