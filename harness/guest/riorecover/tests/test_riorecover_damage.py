# SPDX-License-Identifier: Apache-2.0
"""Flipped bits all over memory: against a second reading of the registry, written from the format alone."""

from __future__ import annotations

import random
import shutil
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from registry_image import (
    CHANGING,
    CLEAN,
    DEV,
    DIRTY,
    ENTRY,
    FREE,
    LOG_FIRST,
    LOG_NEXT,
    LOG_PAGES,
    METADATA,
    OTHER_DEV,
    PAGE,
    UNDO,
    UNDO_BYTES,
    UNDO_NEXT,
    UNDO_SUPERSEDED,
    Entry,
    Ram,
    crc32c,
    data,
    entry_address,
    log_address,
    metadata,
    next_page,
    seed,
    undo,
    word,
)
from riorecover_helper import FILE_SIZE, Mounted, Riorecover, blocks, counts, tool

NO_CHECK = tool("true")
FRAMES = range(1024, 1024 + 200)
LOG = range(LOG_PAGES)


def holds(packed: bytes, pfn: int) -> int | None:
    """The word's value without its check, None if that is wrong."""
    value = int.from_bytes(packed, "little") & (1 << 48) - 1
    return value if word(value, pfn) == packed else None


@dataclass
class Model:
    """What a recovery has to find in an image of RAM, in which no nonsense is written the legal way."""

    memory: bytes
    counts: Counter[str] = field(default_factory=Counter)
    checksums: Counter[str] = field(default_factory=Counter)
    log: Counter[str] = field(default_factory=Counter)
    blocks: dict[int, bytes] = field(default_factory=dict)
    pages: dict[tuple[int, int], bytes] = field(default_factory=dict)
    undos: list[list[Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        places = Counter[tuple[int, int]]()
        for pfn in FRAMES:
            places.update(self._entry(pfn))
        self.counts["duplicates"] = sum(places.values()) - len(places)
        words = [self._word(page) for page in LOG]
        for page, first in enumerate(words):
            if first and first[1] == LOG_FIRST and first[0]:
                records = list(self._records(page, words))
                self.log["operations"] += bool(records)
                self.undos += [rest for kind, *rest in records if kind == UNDO_BYTES]
                self.log["superseded"] += sum(kind == UNDO_SUPERSEDED for kind, *_ in records)
        self.log["undone"] = len(self.undos)

    def block(self, number: int, on_disk: bytes) -> bytes:
        """What a block must be."""
        content = self.blocks.get(number, on_disk)
        # Last first. Here the records of two operations may overlap; the kernel's do not.
        for _, offset, old in [each for each in reversed(self.undos) if each[0] == number]:
            content = content[:offset] + old + content[offset + len(old) :]
        return content

    def _entry(self, pfn: int) -> Iterator[tuple[int, int]]:
        """Count it; the place of a dirty page."""
        packed = self.memory[entry_address(pfn) :][:ENTRY]
        value = holds(packed[:8], pfn)
        state = (value or 0) >> 32
        ino, _generation, index, dev, crc = struct.unpack("<IIQII", packed[8:])
        if value is None or (state & 15 != FREE and crc != crc32c(packed[8:28], seed(pfn))):
            self.counts["rejected"] += 1
        elif dev != DEV and state != FREE:
            self.counts["foreign"] += 1
        elif state != FREE:
            content = self.memory[pfn * PAGE : (pfn + 1) * PAGE]
            verdict = "intact" if crc32c(content) == value & 0xFFFFFFFF else "corrupt"
            self.checksums["changing" if state & CHANGING else verdict] += 1
            if state & 15 == CLEAN:
                self.counts["clean"] += 1
                return
            self.counts["dirty_metadata" if state & METADATA else "dirty_data"] += 1
            # The highest address counts.
            if state & METADATA:
                self.blocks[index] = content
            else:
                self.pages[ino, index] = content
            yield ino, index

    def _word(self, page: int) -> tuple[int, int, int] | None:
        """Of a log page: used, kind and operation."""
        value = holds(self.memory[log_address(page) :][:8], log_address(page) // PAGE)
        if value is None:
            self.log["rejected"] += 1
            return None
        return value & 0xFFFF, value >> 16 & 0xFF, value >> 24

    def _records(
        self, page: int, words: list[tuple[int, int, int] | None]
    ) -> Iterator[tuple[int, int, int, bytes]]:
        """An operation's records: type, block, offset, old bytes."""
        used, _, operation = words[page] or (0, 0, 0)
        records, at, damaged = self.memory[log_address(page) + 8 :][:used], 0, False
        start = crc32c(struct.pack("<Q", operation), seed(log_address(page) // PAGE))
        while at < used:
            _, size, kind, _, dev, offset, length, block = struct.unpack(
                "<IHBBIHHQ", records[at : at + UNDO].ljust(UNDO, b"\0")
            )
            record = records[at : at + size]
            whole = UNDO <= size == len(record) and size % 8 == 0
            if not whole or crc32c(record[4:], start) != struct.unpack("<I", record[:4])[0]:
                self.log["rejected"] += not damaged
                damaged, at = True, at + 8
                continue
            damaged, at = False, at + size
            if kind == UNDO_NEXT:
                following = words[block]
                if following:
                    assert following[1:] == (LOG_NEXT, operation)
                    yield from self._records(block, words)
                return
            if dev == DEV:
                yield kind, block, offset, record[UNDO : UNDO + length]


def any_entry(rng: random.Random, number: int, files: list[int]) -> Entry:
    """Of every kind; a block now and then is listed twice."""
    block, file, page = 1000 + number // 2, rng.choice(files), rng.randrange(4)
    kinds = [
        *(metadata(block, state=state) for state in (DIRTY, CLEAN, DIRTY | CHANGING)),
        metadata(block, dev=OTHER_DEV),
        data(file, page),
        replace(data(file, page), state=CLEAN),
    ]
    return rng.choice(kinds)


def fill(ram: Ram, rng: random.Random, files: list[int], blocks: bool) -> None:
    """A registry that lists some pages, and a log of a long operation and some short ones."""
    ram.valid()
    for number, pfn in enumerate(FRAMES):
        entry = any_entry(rng, number, files)
        if not entry.state & METADATA or blocks:
            ram.entry(pfn, entry, rng.randbytes(PAGE))
    if not blocks:
        return
    for page in LOG:
        operation = 7 if page <= 3 else 10 + page
        records = [any_undo(rng, page, operation) for _ in range(rng.randrange(1, 30))]
        if page < 3:
            records.append(next_page(page, page + 1))
        kind = LOG_NEXT if 0 < page <= 3 else LOG_FIRST
        ram.log_page(page, *records, kind=kind, operation=operation)


def any_undo(rng: random.Random, page: int, operation: int) -> bytes:
    """Of a block that is in memory, or only on the disk."""
    kind = UNDO_SUPERSEDED if rng.random() < 0.2 else UNDO_BYTES
    place = 990 + rng.randrange(120), rng.randrange(PAGE - 100)
    return undo(page, *place, rng.randbytes(rng.randrange(1, 100)), kind, operation=operation)


def damage(ram: Ram, rng: random.Random) -> bytes:
    """Flips bits of entries and of the log, and of the pages that are listed; the whole of memory."""
    memory = bytearray(ram.path.read_bytes())
    for begin, end, most in (
        (entry_address(FRAMES[0]), entry_address(FRAMES.stop), 300),
        (log_address(0), log_address(LOG_PAGES), 100),
        (FRAMES[0] * PAGE, FRAMES.stop * PAGE, 50),
    ):
        for _ in range(rng.choice([0, most // 10, most])):
            memory[rng.randrange(begin, end)] ^= 1 << rng.randrange(8)
    ram.put(0, bytes(memory))
    return bytes(memory)


def assert_counted(report: dict[str, Any], model: Model) -> None:
    assert counts(report) == +model.counts
    assert {name: count for name, count in report["log"].items() if count} == +model.log
    names = ("intact", "corrupt", "changing")
    assert [report["checksums"][name] for name in names] == [model.checksums[name] for name in names]


def test_blocks(riorecover: Riorecover, ram: Ram, fresh_disk: Path, tmp_path: Path, longer: int) -> None:
    """A block is written as memory now has it, if it is listed, without what is undone; all is counted."""
    rng = random.Random(30)
    before = fresh_disk.read_bytes()
    for _ in range(6 * longer):
        fill(ram, rng, [12, 13], blocks=True)
        model = Model(damage(ram, rng))
        disk = Path(shutil.copy(fresh_disk, tmp_path / "disk"))
        report = riorecover.recover(ram, disk, e2fsck=NO_CHECK)
        assert_counted(report, model)
        for block, (old, new) in enumerate(zip(blocks(before), blocks(disk.read_bytes()), strict=True)):
            assert new == model.block(block, old)


@pytest.mark.parametrize("seed", range(6))
def test_files(riorecover: Riorecover, ram: Ram, loop: Mounted, seed: int) -> None:
    """A page of a file is as it was, or as memory now has it, if it is listed; no size changes."""
    rng = random.Random(seed)
    files = {loop.inode(name)[0]: name for name in ("/file", "/kept")}
    fill(ram, rng, [*files, 1500], blocks=False)
    model = Model(damage(ram, rng))
    report = riorecover.recover(ram, loop.device, loop.folder)
    assert_counted(report, model)
    for ino, name in files.items():
        content = (loop.folder / name[1:]).read_bytes()
        pages = [model.pages.get((ino, index), b"o" * PAGE) for index in range(3)]
        assert content == b"".join(pages)[:FILE_SIZE]
    assert (loop.folder / "other").read_bytes() == b"o" * FILE_SIZE
