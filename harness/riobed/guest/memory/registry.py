# SPDX-License-Identifier: Apache-2.0
"""A reader of the registry in a guest's RAM, independent of riorecover.

The format is defined by include/uapi/linux/rio_registry.h. The kernel may still be running, so the checksums
of entries are ignored.
"""

import mmap
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from riobed.guest.memory.layout import ENTRY_SIZE, PAGE, Layout

# The begin of the header: magic, version, seq, boot_id.
_HEADER = struct.Struct("<QIIQ")
_MAGIC = int.from_bytes(b"RIOREG", "little")
_ENTRY = struct.Struct("<QIIQII")
FREE, CLEAN, DIRTY = 0, 1, 2
STATE_MASK, METADATA, CHANGING = 0x0F, 0x40, 0x80
_STATE_SHIFT = 32


@dataclass(frozen=True)
class Listed:
    """A page that the registry lists; `entry` is the address of its entry, `state` has the flags, too."""

    address: int
    entry: int
    ino: int
    index: int
    state: int


@contextmanager
def mapped(path: Path) -> Iterator[mmap.mmap]:
    """Map the file that is the guest's RAM; the guest sees a store at once."""
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        yield memory


def boot_id(memory: mmap.mmap, layout: Layout) -> str | None:
    """Return the number that the kernel drew at its boot, in 16 hexadecimal digits; None without registry."""
    magic, _version, _seq, number = _HEADER.unpack_from(memory, layout.registry_start)
    return f"{number:016x}" if magic == _MAGIC else None


def listed(memory: mmap.mmap, layout: Layout) -> list[Listed]:
    """Return the entries in use."""
    base = layout.registry_start + PAGE
    table = memory[base : base + layout.ram // PAGE * ENTRY_SIZE]
    found = []
    for pfn, (word, ino, _generation, index, _dev, _crc) in enumerate(_ENTRY.iter_unpack(table)):
        state = word >> _STATE_SHIFT & 0xFF
        if state & STATE_MASK != FREE:
            found.append(Listed(pfn * PAGE, base + pfn * ENTRY_SIZE, ino, index, state))
    return found
