# SPDX-License-Identifier: Apache-2.0
"""Looking at, and damaging, the RAM of a guest: the registry read independently of riorecover."""

import mmap
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from riobed.layout import PAGE, PAIR_SIZE, Layout

_ENTRY = struct.Struct("<IIQIHBBII")
DIRTY, METADATA = 2, 0x40


@dataclass(frozen=True)
class Listed:
    """One page the registry lists."""

    address: int
    ino: int
    index: int
    bytes: int
    state: int


@contextmanager
def mapped(path: Path) -> Iterator[mmap.mmap]:
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        yield memory


def listed(memory: mmap.mmap, layout: Layout) -> list[Listed]:
    """The newer entry of each pair that is in use."""
    found = []
    base = layout.registry_start + PAGE
    for pfn in range(layout.ram // PAGE):
        pair = memory[base + pfn * PAIR_SIZE : base + (pfn + 1) * PAIR_SIZE]
        if not any(pair):
            continue
        copies = [_ENTRY.unpack_from(pair, offset) for offset in (0, _ENTRY.size)]
        newer = (copies[1][6] - copies[0][6]) % 256
        entry = copies[1] if 0 < newer < 128 else copies[0]
        ino, _generation, index, _dev, size, state, _seq, _data_crc, _crc = entry
        if state:
            found.append(Listed(pfn * PAGE, ino, index, size, state))
    return found
