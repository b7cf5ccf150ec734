# SPDX-License-Identifier: Apache-2.0
"""Flipped bits all over memory: against a second reading of the registry, written from the format alone."""

from __future__ import annotations

import random
import shutil
import struct
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from registry_image import (
    BOOT_ID,
    CHANGING,
    CLEAN,
    DEV,
    DIRTY,
    FREE,
    METADATA,
    OTHER_DEV,
    PAGE,
    SHADOWED,
    Entry,
    Ram,
    crc32c,
    data,
    metadata,
    pair_address,
    shadowed,
)
from riorecover_helper import FILE_SIZE, Mounted, Riorecover, blocks, counts, tool

NO_CHECK = tool("true")
FRAMES = range(1024, 1024 + 200)
SHADOWS = FRAMES.stop + 100
ENTRY = struct.Struct("<IIQIHBBII")
GOOD_STATES = {FREE, CLEAN, DIRTY, CLEAN | CHANGING, DIRTY | CHANGING}
GOOD_STATES |= {state | METADATA for state in GOOD_STATES}
GOOD_STATES |= {SHADOWED | METADATA}


@dataclass
class Model:
    """What a recovery has to find in an image of RAM."""

    counts: Counter[str] = field(default_factory=Counter)
    checksums: Counter[str] = field(default_factory=Counter)
    blocks: dict[int, set[bytes]] = field(default_factory=dict)
    pages: dict[tuple[int, int], set[bytes]] = field(default_factory=dict)

    def read(self, memory: bytes) -> Model:
        for pfn in FRAMES:
            at = pair_address(pfn)
            self._pair(pfn, memory[at : at + 64], memory)
        return self

    def _pair(self, pfn: int, pair: bytes, memory: bytes) -> None:
        seed = crc32c(struct.pack("<QQ", BOOT_ID, pfn))
        copies = [pair[:32], pair[32:]]
        whole = [copy for copy in copies if crc32c(copy[:28], seed) == int.from_bytes(copy[28:], "little")]
        if not any(pair):
            return
        if not whole:
            self.counts["rejected"] += 1
            return
        if len(whole) == 2:
            whole.sort(key=lambda copy: copy[23])  # no sequence number here wraps
        elif any(copies[copies.index(whole[0]) ^ 1]):
            self.counts["fallback"] += 1
        self._entry(whole[-1], pfn, memory)

    def _entry(self, entry: bytes, pfn: int, memory: bytes) -> None:
        ino, _generation, index, dev, _length, state, _seq, data_crc, _crc = ENTRY.unpack(entry)
        assert state in GOOD_STATES
        at = ino if state & 15 == SHADOWED else pfn
        content = memory[at * PAGE : (at + 1) * PAGE]
        if dev != DEV:
            self.counts["foreign"] += 1
            return
        verdict = "intact" if crc32c(content) == data_crc else "corrupt"
        self.checksums["changing" if state & CHANGING else verdict] += 1
        if state & 15 == CLEAN:
            self.counts["clean"] += 1
        elif state & METADATA:
            self.counts["shadowed" if state & 15 == SHADOWED else "dirty_metadata"] += 1
            self.blocks.setdefault(index, set()).add(content)
        else:
            self.counts["dirty_data"] += 1
            self.pages.setdefault((ino, index), set()).add(content)


def any_entry(rng: random.Random, number: int, files: list[int]) -> Entry:
    """Of every kind; a block now and then is listed twice."""
    block, file, page = 1000 + number // 2, rng.choice(files), rng.randrange(4)
    kinds = [
        *(metadata(block, state=state) for state in (DIRTY, CLEAN, DIRTY | CHANGING)),
        metadata(block, dev=OTHER_DEV),
        shadowed(block, SHADOWS + number),
        data(file, page),
        replace(data(file, page), state=CLEAN),
    ]
    return rng.choice(kinds)


def fill(ram: Ram, rng: random.Random, files: list[int], blocks: bool) -> None:
    """A registry of two copies for each of some pages."""
    ram.valid()
    for number, pfn in enumerate(FRAMES):
        entry = any_entry(rng, number, files)
        if entry.state & METADATA and not blocks:
            continue
        content = rng.randbytes(PAGE)
        ram.put((entry.ino if entry.state & 15 == SHADOWED else pfn) * PAGE, content)
        entry = replace(entry, seq=9, data_crc=crc32c(content))
        older = replace(entry, seq=8) if rng.random() < 0.5 else metadata(1999, seq=8, state=CLEAN)
        copies = [older.pack(pfn), entry.pack(pfn)]
        rng.shuffle(copies)
        ram.pair(pfn, *(bytes(32) if copy == older.pack(pfn) and number % 3 else copy for copy in copies))


def damage(ram: Ram, rng: random.Random) -> bytes:
    """Flips bits of entries, and of the pages they list; the whole of memory."""
    memory = bytearray(ram.path.read_bytes())
    for _ in range(rng.choice([1, 30, 300])):
        memory[rng.randrange(pair_address(FRAMES[0]), pair_address(FRAMES[-1] + 1))] ^= 1 << rng.randrange(8)
    for _ in range(rng.choice([0, 5, 50])):
        memory[rng.randrange(FRAMES[0] * PAGE, (FRAMES[-1] + 1) * PAGE)] ^= 1 << rng.randrange(8)
    ram.put(0, bytes(memory))
    return bytes(memory)


def assert_counted(report: dict[str, Any], model: Model) -> None:
    assert counts(report) == +model.counts
    names = ("intact", "corrupt", "changing")
    assert [report["checksums"][name] for name in names] == [model.checksums[name] for name in names]


def test_blocks(riorecover: Riorecover, ram: Ram, fresh_disk: Path, tmp_path: Path) -> None:
    """A block is written as memory now has it, if it is listed, and every entry is counted."""
    rng = random.Random(30)
    before = fresh_disk.read_bytes()
    for _ in range(20):
        fill(ram, rng, [12, 13], blocks=True)
        model = Model().read(damage(ram, rng))
        disk = Path(shutil.copy(fresh_disk, tmp_path / "disk"))
        report = riorecover.recover(ram, disk, e2fsck=NO_CHECK)
        assert_counted(report, model)
        for block, (old, new) in enumerate(zip(blocks(before), blocks(disk.read_bytes()), strict=True)):
            assert new in model.blocks.get(block, {old})


@pytest.mark.parametrize("seed", range(12))
def test_files(riorecover: Riorecover, ram: Ram, loop: Mounted, seed: int) -> None:
    """A page of a file is as it was, or as memory now has it, if it is listed; no size changes."""
    rng = random.Random(seed)
    files = {loop.inode(name)[0]: name for name in ("/file", "/kept")}
    fill(ram, rng, [*files, 1500], blocks=False)
    model = Model().read(damage(ram, rng))
    report = riorecover.recover(ram, loop.device, loop.folder)
    assert_counted(report, model)
    for ino, name in files.items():
        content = (loop.folder / name[1:]).read_bytes()
        assert len(content) == FILE_SIZE
        for index in range(3):
            now = content[index * PAGE : (index + 1) * PAGE]
            may = {page[: len(now)] for page in model.pages.get((ino, index), {b"o" * PAGE})}
            assert now in may
    assert (loop.folder / "other").read_bytes() == b"o" * FILE_SIZE
