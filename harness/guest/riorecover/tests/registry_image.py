# SPDX-License-Identifier: Apache-2.0
"""An independent writer of what riorecover reads: registries in images of RAM.

The layout is written down a second time here, as struct formats, from the comments of the
kernel's uapi/linux/rio_registry.h; nothing is taken from riorecover's C code.
"""

from __future__ import annotations

import struct
import uuid
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

PAGE = 4096
MAGIC = int.from_bytes(b"RIOREG", "little")
FREE, CLEAN, DIRTY = 0, 1, 2
METADATA, CHANGING = 0x40, 0x80
CHECKSUMS = 1
ACTIVE, RECOVERED, RECOVERING = 1, 2, 3
STRIDE = 2048
ENTRY = 32
LOG_FREE, LOG_FIRST, LOG_NEXT = 0, 1, 2
UNDO_BYTES, UNDO_SUPERSEDED, UNDO_NEXT = 1, 2, 3
UNDO = 24  # struct rio_undo without its bytes

RAM_PAGES = 4096
LOG_PAGES = 8
START = 1 << 20
LOG_START = START + PAGE + RAM_PAGES * ENTRY
SIZE = LOG_START + LOG_PAGES * PAGE - START
BOOT_ID = 0x1122334455667788
DEV = 0xFE00010
OTHER_DEV = 0xFE00020
UUID = bytes.fromhex("5d6f9f541aeb49529ad05c4791c91712")
UUID_TEXT = str(uuid.UUID(bytes=UUID))


def _step(crc: int, _: int) -> int:
    return (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)


_TABLE = [reduce(_step, range(8), index) for index in range(256)]


def crc32c(data: bytes, crc: int = 0) -> int:
    """CRC32C (RFC 3720, appendix B.4) without inversion at either end, from the seed `crc`."""
    for byte in data:
        crc = (crc >> 8) ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc


def seed(pfn: int, boot_id: int = BOOT_ID) -> int:
    """Where the checksums of a page frame begin."""
    return crc32c(struct.pack("<QQ", boot_id, pfn))


def word(value: int, pfn: int, boot_id: int = BOOT_ID) -> bytes:
    """The low 48 bits, and their check."""
    check = crc32c(struct.pack("<Q", value), seed(pfn, boot_id)) & 0xFFFF
    return struct.pack("<Q", value | check << 48)


@dataclass(frozen=True)
class Entry:
    """struct rio_entry; for a block of metadata leave `ino` and `generation` 0."""

    state: int = DIRTY
    ino: int = 0
    index: int = 0
    generation: int = 0
    dev: int = DEV
    data_crc: int = 0

    def pack(self, pfn: int, boot_id: int = BOOT_ID) -> bytes:
        identity = struct.pack("<IIQI", self.ino, self.generation, self.index, self.dev)
        crc = crc32c(identity, seed(pfn, boot_id))
        return word(self.data_crc | self.state << 32, pfn, boot_id) + identity + struct.pack("<I", crc)


def metadata(block: int, state: int = DIRTY, dev: int = DEV) -> Entry:
    return Entry(state=state | METADATA, index=block, dev=dev)


def data(ino: int, index: int, generation: int = 0) -> Entry:
    return Entry(ino=ino, index=index, generation=generation)


@dataclass(frozen=True)
class Header:
    """struct rio_header."""

    magic: int = MAGIC
    version: int = 4
    seq: int = 1
    boot_id: int = BOOT_ID
    start: int = START
    size: int = SIZE
    nr_entries: int = RAM_PAGES
    log_start: int = LOG_START
    nr_log_pages: int = LOG_PAGES
    nr_fs: int = 4
    phase: int = ACTIVE
    # Of the mount, as in the superblock; 0: not known.
    mtime: int = 0
    mnt_count: int = 0
    # Device number, UUID and, if it is another than `phase`, the phase.
    file_systems: tuple[tuple[Any, ...], ...] = ((DEV, UUID),)
    flags: int = CHECKSUMS

    def pack(self) -> bytes:
        known = self.magic, self.version, self.seq, self.boot_id
        where = self.start, self.size, self.nr_entries, self.log_start, self.nr_log_pages
        body = struct.pack("<QIIQQQQQII", *known, *where, self.nr_fs)
        for dev, name, *phase in (*self.file_systems, *[(0, bytes(16), 0)] * 4)[:4]:
            body += struct.pack("<II16s", dev, phase[0] if phase else self.phase, name)
            body += struct.pack("<II", self.mtime, self.mnt_count)
        body += struct.pack("<I", self.flags)
        return body + struct.pack("<I", crc32c(body))

    def newer(self, **changes: Any) -> Header:
        return replace(self, seq=(self.seq + 1) & 0xFFFFFFFF, **changes)


def undo(
    page: int,
    block: int,
    offset: int = 0,
    old: bytes = b"",
    kind: int = UNDO_BYTES,
    dev: int = DEV,
    operation: int = 7,
) -> bytes:
    """struct rio_undo of that operation in that page of the log."""
    size = UNDO + -(-len(old) // 8) * 8
    rest = struct.pack("<HBBIHHQ", size, kind, 0, dev, offset, len(old), block) + old
    rest = rest.ljust(size - 4, b"\0")
    start = crc32c(struct.pack("<Q", operation), seed(log_address(page) // PAGE))
    return struct.pack("<I", crc32c(rest, start)) + rest


def next_page(page: int, following: int) -> bytes:
    """The record that an operation goes on in another page of the log."""
    return undo(page, following, kind=UNDO_NEXT, dev=0)


def log_word(page: int, kind: int, used: int, operation: int) -> bytes:
    return word(used | kind << 16 | operation << 24, log_address(page) // PAGE)


@dataclass
class Ram:
    """A sparse image of RAM_PAGES pages with a registry at START, without its header."""

    path: Path
    pages: int = RAM_PAGES

    def __post_init__(self) -> None:
        with self.path.open("wb") as file:
            file.truncate(self.pages * PAGE)
        self.put(entry_address(0), _FREE_ENTRIES)
        for page in range(LOG_PAGES):
            self.put(log_address(page), log_word(page, LOG_FREE, 0, 0))

    def put(self, address: int, content: bytes) -> None:
        with self.path.open("r+b") as file:
            file.seek(address)
            file.write(content)

    def headers(self, first: bytes, second: bytes) -> Ram:
        self.put(START, first)
        self.put(START + STRIDE, second)
        return self

    def valid(self, **changes: Any) -> Ram:
        """Both copies of a good header, the second one newer."""
        header = Header(**changes)
        return self.headers(header.pack(), header.newer().pack())

    def entry(self, pfn: int, entry: Entry, content: bytes = b"") -> None:
        """With the page's content, if given, and its checksum."""
        if content:
            content = content.ljust(PAGE, b"\0")
            entry = replace(entry, data_crc=crc32c(content))
            self.put(pfn * PAGE, content)
        self.put(entry_address(pfn), entry.pack(pfn))

    def log_page(self, page: int, *records: bytes, kind: int = LOG_FIRST, operation: int = 7) -> None:
        """A page of the log with these records."""
        used = b"".join(records)
        self.put(log_address(page), log_word(page, kind, len(used), operation) + used)

    def table(self, entries: list[bytes]) -> None:
        """The entries of all page frames at once."""
        self.put(entry_address(0), b"".join(entries))


def entry_address(pfn: int) -> int:
    return START + PAGE + pfn * ENTRY


def log_address(page: int) -> int:
    return LOG_START + page * PAGE


_FREE_ENTRIES = b"".join(Entry(state=FREE, dev=0).pack(pfn) for pfn in range(RAM_PAGES))


def flip(blob: bytes, bit: int) -> bytes:
    """`blob` with one bit inverted."""
    changed = bytearray(blob)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def phase(ram: Ram, place: int = 0) -> int:
    """Of a file system, in the copy of the header with the higher sequence number."""
    memory = ram.path.read_bytes()
    copies = [memory[START + at : START + at + 256] for at in (0, STRIDE)]
    newest = max(copies, key=lambda copy: int.from_bytes(copy[12:16], "little"))
    at = 64 + 32 * place + 4
    return int.from_bytes(newest[at : at + 4], "little")
