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

from riobed.guest.layout import PAGE, PAIR_SIZE, Layout

_ENTRY = struct.Struct("<IIQIHBBII")
ENTRY_SIZE = _ENTRY.size
FREE, DIRTY, SHADOWED = 0, 2, 3
STATE_MASK, METADATA, CHANGING = 0x0F, 0x40, 0x80


@dataclass(frozen=True)
class Listed:
    """A page in the registry. The two copies of its entry are at `pair`, the newer one at `entry`."""

    address: int
    pair: int
    entry: int
    ino: int
    index: int
    bytes: int
    state: int


@contextmanager
def mapped(path: Path) -> Iterator[mmap.mmap]:
    """Map the file that is the guest's RAM; the guest sees a store at once."""
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        yield memory


def listed(memory: mmap.mmap, layout: Layout) -> list[Listed]:
    """Return the newer entry of each pair in use."""
    found = []
    base = layout.registry_start + PAGE
    for pfn in range(layout.ram // PAGE):
        pair = memory[base + pfn * PAIR_SIZE : base + (pfn + 1) * PAIR_SIZE]
        if not any(pair):
            continue
        copies = [_ENTRY.unpack_from(pair, offset) for offset in (0, ENTRY_SIZE)]
        newer = (copies[1][6] - copies[0][6]) % 256
        newest = 1 if 0 < newer < 128 else 0
        ino, _generation, index, _dev, size, state, _seq, _data_crc, _crc = copies[newest]
        if state & STATE_MASK != FREE:
            at = base + pfn * PAIR_SIZE
            entry = at + newest * ENTRY_SIZE
            found.append(Listed(pfn * PAGE, at, entry, ino, index, size, state))
    return found
