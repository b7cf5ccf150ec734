# SPDX-License-Identifier: Apache-2.0
"""Checksums of pages: what changed without the kernel's knowledge is named, and restored all the same."""

import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from registry_image import (
    CHANGING,
    CHECKSUMS,
    CLEAN,
    DIRTY,
    PAGE,
    RAM_PAGES,
    Entry,
    Ram,
    data,
    flip,
    metadata,
)
from riorecover_helper import Riorecover, tool

CONTENT = random.Random(20).randbytes(PAGE)
NO_CHECK = tool("true")


def checksums(riorecover: Riorecover, ram: Ram, disk: Path, **header: Any) -> dict[str, Any]:
    return dict(riorecover.inspect(ram.valid(**header), disk)["checksums"])


def plant(ram: Ram, pfn: int, entry: Entry, bit: int = 4 * PAGE) -> None:
    """A page one bit of which was changed behind the kernel's back."""
    ram.entry(pfn, entry, CONTENT)
    ram.put(pfn * PAGE, flip(CONTENT, bit))


def test_intact_pages(riorecover: Riorecover, ram: Ram, disk: Path) -> None:
    ram.entry(300, data(12, 0), CONTENT)
    ram.entry(301, replace(data(12, 1), state=CLEAN), b"short")
    ram.entry(302, metadata(5), CONTENT)
    found = checksums(riorecover, ram, disk)
    assert found == {"intact": 3, "corrupt": 0, "changing": 0, "mismatches": []}


@pytest.mark.parametrize("bit", [0, 7, 12345, 8 * PAGE - 1])
def test_one_bit_is_enough(riorecover: Riorecover, ram: Ram, disk: Path, bit: int) -> None:
    plant(ram, 300, data(12, 7), bit)
    found = checksums(riorecover, ram, disk)
    assert (found["intact"], found["corrupt"]) == (0, 1)
    assert found["mismatches"] == [{"ino": 12, "index": 7, "dirty": True, "metadata": False}]


def test_mismatches_say_what_the_page_was(riorecover: Riorecover, ram: Ram, disk: Path) -> None:
    plant(ram, 300, replace(data(13, 2), state=CLEAN))
    plant(ram, 301, metadata(5))
    plant(ram, 302, metadata(6, state=CLEAN))
    mismatches = [tuple(mismatch.values()) for mismatch in checksums(riorecover, ram, disk)["mismatches"]]
    # Inode, index; is it dirty, is it metadata?
    assert mismatches == [(13, 2, False, False), (0, 5, True, True), (0, 6, False, True)]


@pytest.mark.parametrize(
    ("entries", "flags", "changing"),
    [
        ([replace(data(12, 0), state=DIRTY | CHANGING), metadata(5, state=CLEAN | CHANGING)], CHECKSUMS, 2),
        ([data(12, 0), replace(data(12, 1), state=DIRTY | CHANGING)], 0, 0),
        ([replace(data(12, 0), dev=1), data(10, 0)], CHECKSUMS, 0),
    ],
    ids=["pages that change", "a kernel without checksums", "another file system, and nonsense"],
)
def test_pages_of_which_nothing_is_known(
    riorecover: Riorecover, ram: Ram, disk: Path, entries: list[Entry], flags: int, changing: int
) -> None:
    for number, entry in enumerate(entries):
        plant(ram, 300 + number, entry)
    found = checksums(riorecover, ram, disk, flags=flags)
    assert found == {"intact": 0, "corrupt": 0, "changing": changing, "mismatches": []}


def test_more_than_can_be_named(riorecover: Riorecover, ram: Ram, disk: Path) -> None:
    for number in range(100):
        plant(ram, 1500 + number, data(12, number))
    found = checksums(riorecover, ram, disk)
    assert found["corrupt"] == 100
    assert [mismatch["index"] for mismatch in found["mismatches"]] == list(range(64))


def test_page_that_cannot_be_read(riorecover: Riorecover, ram: Ram, disk: Path) -> None:
    ram.entry(RAM_PAGES - 1, replace(data(12, 0), state=CLEAN), CONTENT)
    with ram.path.open("r+b") as file:
        file.truncate((RAM_PAGES - 1) * PAGE)
    report = riorecover.inspect(ram.valid(), disk)
    assert report["entries"]["clean"] == 1 and report["checksums"]["corrupt"] == 0


def test_a_corrupt_page_is_restored(
    riorecover: Riorecover, ram: Ram, fresh_disk: Path, tmp_path: Path
) -> None:
    """An instrument, not a filter: recovery does the same with checksums and without."""
    plant(ram, 2000, metadata(1500))
    disks = []
    for flags in (0, 1):
        disk = Path(shutil.copy(fresh_disk, tmp_path / f"disk{flags}"))
        report = riorecover.recover(ram.valid(flags=flags), disk, e2fsck=NO_CHECK)
        assert report["metadata"]["written"] == 1 and report["checksums"]["corrupt"] == flags
        disks.append(disk.read_bytes())
    assert disks[0] == disks[1]
    assert disks[0][1500 * PAGE : 1501 * PAGE] == flip(CONTENT, 4 * PAGE)
