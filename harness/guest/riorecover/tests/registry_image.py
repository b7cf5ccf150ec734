# SPDX-License-Identifier: Apache-2.0
"""An independent writer of what riorecover reads: registries in images of RAM.

The layout is written down a second time here, as struct formats, from the comments of the
kernel's uapi/linux/rio_registry.h; nothing is taken from riorecover's C code.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

PAGE = 4096
MAGIC = int.from_bytes(b"RIOREG", "little")
FREE, CLEAN, DIRTY, SHADOWED = 0, 1, 2, 3
METADATA, CHANGING = 0x40, 0x80
CHECKSUMS = 1
ACTIVE, RECOVERED = 1, 2
STRIDE = 2048
PAIR = 64

RAM_PAGES = 4096
START = 1 << 20
SIZE = PAGE + RAM_PAGES * PAIR
BOOT_ID = 0x1122334455667788
DEV = 0xFE00010
OTHER_DEV = 0xFE00020
UUID = bytes.fromhex("5d6f9f541aeb49529ad05c4791c91712")


def _step(crc: int, _: int) -> int:
    return (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)


_TABLE = [reduce(_step, range(8), index) for index in range(256)]


def crc32c(data: bytes, crc: int = 0) -> int:
    """CRC32C (RFC 3720, appendix B.4) without inversion at either end, from the seed `crc`."""
    for byte in data:
        crc = (crc >> 8) ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc


@dataclass(frozen=True)
class Entry:
    """struct rio_entry; for a block of metadata leave `ino` and `generation` 0."""

    state: int = DIRTY
    ino: int = 0
    index: int = 0
    generation: int = 0
    dev: int = DEV
    length: int = PAGE
    seq: int = 1
    data_crc: int = 0

    def pack(self, pfn: int, boot_id: int = BOOT_ID) -> bytes:
        place = self.ino, self.generation, self.index, self.dev
        body = struct.pack("<IIQIHBBI", *place, self.length, self.state, self.seq, self.data_crc)
        return body + struct.pack("<I", crc32c(body, crc32c(struct.pack("<QQ", boot_id, pfn))))


def metadata(block: int, seq: int = 1, state: int = DIRTY, dev: int = DEV) -> Entry:
    return Entry(state=state | METADATA, index=block, seq=seq, dev=dev)


def shadowed(block: int, frame: int) -> Entry:
    """A dirty block of metadata in the middle of a change; its shadow is in that page frame."""
    return replace(metadata(block, state=SHADOWED), ino=frame)


def data(ino: int, index: int, size: int = PAGE, generation: int = 0, seq: int = 1) -> Entry:
    return Entry(ino=ino, index=index, length=size, generation=generation, seq=seq)


@dataclass(frozen=True)
class Header:
    """struct rio_header."""

    magic: int = MAGIC
    version: int = 2
    seq: int = 1
    boot_id: int = BOOT_ID
    start: int = START
    size: int = SIZE
    first_pfn: int = 0
    nr_pairs: int = RAM_PAGES
    phase: int = ACTIVE
    nr_fs: int = 4
    file_systems: tuple[tuple[int, bytes], ...] = ((DEV, UUID),)
    flags: int = CHECKSUMS

    def pack(self) -> bytes:
        where = self.start, self.size, self.first_pfn, self.nr_pairs
        known = self.magic, self.version, self.seq, self.boot_id
        body = struct.pack("<QIIQQQQQII", *known, *where, self.phase, self.nr_fs)
        for dev, uuid in (*self.file_systems, *[(0, bytes(16))] * 4)[:4]:
            body += struct.pack("<II16s", dev, 0, uuid)
        body += struct.pack("<I", self.flags)
        return body + struct.pack("<I", crc32c(body))

    def newer(self, **changes: Any) -> Header:
        return replace(self, seq=(self.seq + 1) & 0xFFFFFFFF, **changes)


@dataclass
class Ram:
    """A sparse image of RAM_PAGES pages with a registry at START."""

    path: Path
    pages: int = RAM_PAGES

    def __post_init__(self) -> None:
        with self.path.open("wb") as file:
            file.truncate(self.pages * PAGE)

    def put(self, address: int, content: bytes) -> None:
        with self.path.open("r+b") as file:
            file.seek(address)
            file.write(content)

    def headers(self, first: bytes, second: bytes = b"") -> Ram:
        self.put(START, first)
        self.put(START + STRIDE, second)
        return self

    def valid(self, **changes: Any) -> Ram:
        """Both copies of a good header, the second one newer."""
        header = Header(**changes)
        return self.headers(header.pack(), header.newer().pack())

    def pair(self, pfn: int, first: bytes, second: bytes = b"") -> None:
        self.put(pair_address(pfn), first + second)

    def entry(self, pfn: int, entry: Entry, content: bytes = b"") -> None:
        """The page's first state, which the kernel writes to the second copy; with its checksum."""
        if content:
            content = content.ljust(PAGE, b"\0")
            entry = replace(entry, data_crc=crc32c(content))
            self.put(pfn * PAGE, content)
        self.pair(pfn, bytes(32), entry.pack(pfn))

    def change(self, pfn: int, block: int, old: bytes, new: bytes, frame: int = 3000) -> None:
        """A block of metadata in the middle of a change."""
        self.entry(pfn, shadowed(block, frame), old)
        self.put(frame * PAGE, old)
        self.put(pfn * PAGE, new)

    def pending(self, operation: int, place: int = 0, inverted: int | None = None) -> None:
        """An operation that has not completed."""
        check = operation ^ 0xFFFFFFFF if inverted is None else inverted
        self.put(START + 1024 + 8 * place, struct.pack("<II", operation, check))

    def table(self, pairs: list[bytes]) -> None:
        """The pairs of all page frames at once."""
        self.put(pair_address(0), b"".join(pairs))


def pair_address(pfn: int) -> int:
    return START + PAGE + pfn * PAIR


def flip(blob: bytes, bit: int) -> bytes:
    """`blob` with one bit inverted."""
    changed = bytearray(blob)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def phase(ram: Ram) -> int:
    """Of the copy of the header with the higher sequence number."""
    memory = ram.path.read_bytes()
    copies = [memory[START + at : START + at + 64] for at in (0, 2048)]
    newest = max(copies, key=lambda copy: int.from_bytes(copy[12:16], "little"))
    return int.from_bytes(newest[56:60], "little")
