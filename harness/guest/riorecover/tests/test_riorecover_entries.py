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
    FREE,
    METADATA,
    OTHER_DEV,
    PAGE,
    RAM_PAGES,
    SHADOWED,
    START,
    Entry,
    Ram,
    data,
    flip,
    metadata,
    pair_address,
    shadowed,
)
from riorecover_helper import Riorecover, checked, counts, registry_options

BLOCKS = 2048  # of the disk


def look(riorecover: Riorecover, ram: Ram, disk: Path) -> dict[str, int]:
    ram.valid()
    return counts(riorecover.inspect(ram, disk))


def test_every_state(riorecover: Riorecover, ram: Ram, disk: Path) -> None:
    ram.entry(200, Entry(state=FREE, dev=0, length=0))
    ram.entry(201, replace(data(12, 0), state=CLEAN))
    ram.entry(202, data(12, 1))
    ram.entry(203, metadata(BLOCKS - 1))
    ram.entry(204, metadata(3, state=CLEAN))
    ram.entry(205, metadata(3, dev=OTHER_DEV))
    ram.entry(206, data(12, 2, size=0))
    ram.entry(207, shadowed(5, 208))
    ram.entry(209, replace(data(12, 3), state=DIRTY | CHANGING))
    ram.entry(210, metadata(6, state=CLEAN | CHANGING))
    found = look(riorecover, ram, disk)
    assert found == {"clean": 3, "dirty_data": 3, "dirty_metadata": 1, "shadowed": 1, "foreign": 1}


NONSENSE = {
    "unknown state": Entry(state=4, ino=12),
    "unknown flag": Entry(state=DIRTY | 0x10, ino=12),
    "unknown flag of a free page": Entry(state=FREE | 0x10),
    "another unknown flag": Entry(state=DIRTY | METADATA | 0x20, index=5),
    "shadowed file data": Entry(state=SHADOWED, ino=12),
    "shadowed with a flag": replace(shadowed(5, 300), state=SHADOWED | METADATA | CHANGING),
    "shadowed without a shadow": shadowed(5, 0),
    "more bytes than a page": data(12, 0, size=PAGE + 1),
    "block behind the disk": metadata(BLOCKS),
    "block far behind the disk": metadata(2**52),
    "last block there can be": metadata(2**64 - 1),
    "half a block of metadata": Entry(state=DIRTY | METADATA, index=3, length=PAGE // 2),
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
    assert look(riorecover, ram, disk) == {"senseless": 1}


def test_nonsense_does_not_uncover_the_older_copy(riorecover: Riorecover, ram: Ram, disk: Path) -> None:
    """It was written so: what was true before is of no use."""
    ram.pair(300, metadata(5, seq=1).pack(300), metadata(BLOCKS, seq=2).pack(300))
    assert look(riorecover, ram, disk) == {"senseless": 1}


def test_foreign_entries_are_rejected(riorecover: Riorecover, ram: Ram, disk: Path) -> None:
    ram.pair(300, bytes(32), metadata(5).pack(301))
    ram.pair(301, metadata(5).pack(301, boot_id=BOOT_ID + 1), metadata(5).pack(300))
    assert look(riorecover, ram, disk) == {"rejected": 2}


@pytest.mark.parametrize("seq", [0, 1, 126, 127, 128, 254, 255])
@pytest.mark.parametrize("newest", [0, 1])
def test_newer_copy_holds(riorecover: Riorecover, ram: Ram, disk: Path, seq: int, newest: int) -> None:
    copies = [metadata(5, seq=seq, state=CLEAN).pack(300)] * 2
    copies[newest] = metadata(5, seq=(seq + 1) & 0xFF).pack(300)
    ram.pair(300, *copies)
    assert look(riorecover, ram, disk) == {"dirty_metadata": 1}


def test_torn_update(riorecover: Riorecover, ram: Ram, disk: Path) -> None:
    """Cut after any byte: the state before or the one after, and nothing is rejected."""
    frames = range(500, 500 + 33)
    for cut, pfn in enumerate(frames):
        oldest = metadata(5, seq=1).pack(pfn)
        before = metadata(5, seq=2, state=CLEAN).pack(pfn)
        after = metadata(6, seq=3).pack(pfn)
        ram.pair(pfn, after[:cut] + oldest[cut:], before)
    found = look(riorecover, ram, disk)
    # Cut before the first byte that differs: still whole, as is the update once complete.
    whole = zip(metadata(5, seq=1).pack(500), metadata(6, seq=3).pack(500), strict=True)
    first = [one == other for one, other in whole].index(False)
    assert found == {"dirty_metadata": 1, "clean": 32, "fallback": 32 - (first + 1)}


def test_single_flipped_bits(riorecover: Riorecover, ram: Ram, disk: Path) -> None:
    """One bit in each of 4096 lone entries: all are rejected."""
    rng = random.Random(2)
    lone = [metadata(rng.randrange(BLOCKS)).pack(pfn) for pfn in range(RAM_PAGES)]
    ram.table([bytes(32) + flip(entry, rng.randrange(256)) for entry in lone])
    assert look(riorecover, ram, disk) == {"rejected": RAM_PAGES}


def cuts() -> list[int]:
    rng = random.Random(5)
    borders = [0, START, START + 2048, START + PAGE, pair_address(100), RAM_PAGES * PAGE]
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
        ram.table([bytes(32) + entry for entry in whole])
        with ram.path.open("r+b") as file:
            file.truncate(cut)
        report = riorecover.inspect(ram, disk)
        pages = cut // PAGE
        if pages <= START // PAGE:
            assert report["registry"] == "cold" and report["entries"]["pairs"] == 0, cut
            continue
        pairs_there = min(RAM_PAGES, (pages - START // PAGE - 1) * PAGE // 64)
        expect = {"dirty_metadata": min(pages, pairs_there)}
        expect["unreadable"] = RAM_PAGES - expect["dirty_metadata"]
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
