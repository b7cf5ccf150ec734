# SPDX-License-Identifier: Apache-2.0
"""The entries: which copy of two is believed, what makes no sense, and damage of every kind."""

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from registry_image import (
    BOOT_ID,
    CHANGING,
    CLEAN,
    DEV,
    DIRTY,
    ENTRY,
    FREE,
    OTHER_DEV,
    PAGE,
    RAM_PAGES,
    START,
    Entry,
    Ram,
    data,
    entry_address,
    flip,
    metadata,
    word,
)
from riorecover_helper import Riorecover, blocks, checked, counts, registry_options, tool

BLOCKS = 2048  # of the disk


def look(riorecover: Riorecover, ram: Ram, disk: Path) -> dict[str, int]:
    ram.valid()
    return counts(riorecover.inspect(ram, disk))


def test_every_state(riorecover: Riorecover, ram: Ram, disk: Path) -> None:
    ram.entry(300, Entry(state=FREE, ino=12, index=2**60))
    ram.entry(301, replace(data(12, 0), state=CLEAN))
    ram.entry(302, data(12, 1))
    ram.entry(303, metadata(BLOCKS - 1))
    ram.entry(304, metadata(3, state=CLEAN))
    ram.entry(305, metadata(BLOCKS, dev=OTHER_DEV))
    ram.entry(306, replace(data(12, 3), state=DIRTY | CHANGING))
    ram.entry(307, metadata(6, state=DIRTY | CHANGING))
    found = look(riorecover, ram, disk)
    assert found == {"clean": 2, "dirty_data": 2, "dirty_metadata": 2, "foreign": 1}


NONSENSE = {
    "unknown state": Entry(state=3, ino=12),
    "unknown flag": Entry(state=DIRTY | 0x10, ino=12),
    "unknown flag of a free page": Entry(state=FREE | 0x20),
    "bits that must be zero": Entry(state=DIRTY | 1 << 8, ino=12),
    "block behind the disk": metadata(BLOCKS),
    "last block there can be": metadata(2**64 - 1),
    "metadata of a file": replace(metadata(5), ino=12),
    "metadata with a generation": replace(metadata(5), generation=1),
    "no file": data(0, 0),
    "root directory": data(2, 0),
    "inode of the file system's own": data(10, 0),
    "page behind the largest file": data(12, 2**51 - 1),
    "last page there can be": data(12, 2**64 - 1),
}


@pytest.mark.parametrize("entry", NONSENSE.values(), ids=NONSENSE.keys())
def test_nonsense_is_not_followed(riorecover: Riorecover, ram: Ram, disk: Path, entry: Entry) -> None:
    """And not taken for damage: whoever wrote it knew the checksum."""
    ram.entry(300, entry)
    assert look(riorecover, ram, disk) == {"inconsistent": 1}


def test_entries_of_another_place_are_rejected(riorecover: Riorecover, ram: Ram, disk: Path) -> None:
    """Of another page frame, or of another boot; the word alone, or the identity alone."""
    own, other, earlier = (metadata(5).pack(*key) for key in ((300,), (301,), (300, BOOT_ID + 1)))
    for number, entry in enumerate([other, earlier, own[:8] + other[8:], earlier[:8] + own[8:]], 1):
        ram.put(entry_address(300), entry)
        assert look(riorecover, ram, disk) == {"rejected": 1}, number


def test_single_flipped_bits(riorecover: Riorecover, ram: Ram, disk: Path) -> None:
    """One bit in each of 4096 entries, each bit of an entry 16 times: all are rejected."""
    entries = [metadata(pfn % BLOCKS).pack(pfn) for pfn in range(RAM_PAGES)]
    ram.table([flip(entry, bit % 256) for bit, entry in enumerate(entries)])
    assert look(riorecover, ram, disk) == {"rejected": RAM_PAGES}


def test_zeros_are_damage(riorecover: Riorecover, ram: Ram, disk: Path) -> None:
    """No word is zero, but where that is the free page's own, one in 65536."""
    ram.put(entry_address(0), bytes(RAM_PAGES * ENTRY))
    free = sum(word(0, pfn) == bytes(8) for pfn in range(RAM_PAGES))
    assert look(riorecover, ram, disk) == {"rejected": RAM_PAGES - free}


def test_two_pages_for_one_place(riorecover: Riorecover, ram: Ram, disk: Path) -> None:
    """Both are counted; that with the highest address remains."""
    for pfn, content in ((310, b"b"), (312, b"c"), (301, b"a")):
        ram.entry(pfn, metadata(1500), content * PAGE)
    files = [data(12, 1), data(12, 2), data(13, 1), data(12, 1, generation=1), data(12, 1)]
    for pfn, entry in enumerate(files, 320):
        ram.entry(pfn, entry)
    report = riorecover.recover(ram.valid(), disk, e2fsck=tool("true"))
    assert counts(report) == {"dirty_metadata": 3, "dirty_data": 5, "duplicates": 3}
    assert blocks(disk.read_bytes())[1500] == b"c" * PAGE


def cuts() -> list[int]:
    rng = random.Random(5)
    borders = [0, START, START + 2048, START + PAGE, entry_address(100), RAM_PAGES * PAGE]
    near = {border + delta for border in borders for delta in (-1, 0, 1, 32)}
    return sorted(cut for cut in {*near, *(rng.randrange(RAM_PAGES * PAGE) for _ in range(40))} if cut >= 0)


def test_image_cut_off_anywhere(riorecover: Riorecover, ram: Ram, disk: Path) -> None:
    """What lies behind the end is unreadable, never guessed, never touched."""
    ram.valid()
    whole = [metadata(pfn % BLOCKS).pack(pfn) for pfn in range(RAM_PAGES)]
    for cut in cuts():
        with ram.path.open("r+b") as file:
            file.truncate(RAM_PAGES * PAGE)
        ram.valid()
        ram.table(whole)
        with ram.path.open("r+b") as file:
            file.truncate(cut)
        report = riorecover.inspect(ram, disk)
        pages = cut // PAGE
        if pages <= START // PAGE:
            assert report["registry"] == "cold" and report["entries"]["entries"] == 0, cut
            continue
        there = min(RAM_PAGES, (pages - START // PAGE - 1) * PAGE // ENTRY)
        expect = {"dirty_metadata": min(pages, there)}
        expect["unreadable"] = RAM_PAGES - expect["dirty_metadata"]
        expect["duplicates"] = max(0, there - BLOCKS)
        assert counts(report) == {name: count for name, count in expect.items() if count}, cut


def test_page_that_the_limit_cuts(riorecover: Riorecover, ram: Ram, disk: Path) -> None:
    ram.valid().entry(RAM_PAGES - 1, metadata(5))
    ram.entry(RAM_PAGES - 2, metadata(6))
    options = registry_options(ram)
    options[3] = RAM_PAGES * PAGE - 1
    result = riorecover("inspect", *options, "--device", disk)
    report = checked(json.loads(result.stdout))
    assert counts(report) == {"dirty_metadata": 1, "unreadable": 1}


def test_device_number_is_compared_whole(riorecover: Riorecover, ram: Ram, disk: Path) -> None:
    for bit in range(32):
        ram.entry(400 + bit, metadata(5, dev=DEV ^ 1 << bit))
    assert look(riorecover, ram, disk) == {"foreign": 32}
