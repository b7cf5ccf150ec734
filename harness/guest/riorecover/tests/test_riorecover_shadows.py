# SPDX-License-Identifier: Apache-2.0
"""Blocks of metadata in the middle of a change: restored as before it, or as after it."""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from registry_image import CHANGING, CLEAN, PAGE, RAM_PAGES, Entry, Ram, metadata, shadowed
from riorecover_helper import Riorecover, counts, tool

BLOCK = 1500
ORIGINAL, SHADOW = 2000, 3000  # page frames
OLD, NEW = (random.Random(seed).randbytes(PAGE) for seed in (21, 22))


Restored = Callable[[], tuple[bytes, dict[str, Any]]]


@pytest.fixture
def restored(riorecover: Riorecover, ram: Ram, disk: Path) -> Restored:
    """The block after a recovery, and the report."""

    def run() -> tuple[bytes, dict[str, Any]]:
        report = riorecover.recover(ram.valid(), disk, e2fsck=tool("true"))
        return block_of(disk, BLOCK), report

    return run


def block_of(disk: Path, block: int) -> bytes:
    return disk.read_bytes()[block * PAGE : (block + 1) * PAGE]


def test_the_shadow_is_restored(restored: Restored, ram: Ram) -> None:
    ram.change(ORIGINAL, BLOCK, OLD, NEW)
    content, report = restored()
    assert content == OLD and report["metadata"] == {"written": 1, "failed": 0}
    assert counts(report) == {"shadowed": 1}


def test_each_moment_of_a_change(restored: Restored, ram: Ram) -> None:
    """The old version until the change has ended, then the new."""
    ram.entry(ORIGINAL, metadata(BLOCK), OLD)
    assert restored()[0] == OLD
    for new in (OLD, OLD[:100] + NEW[100:], NEW):
        ram.change(ORIGINAL, BLOCK, OLD, new)
        assert restored()[0] == OLD
    ram.entry(ORIGINAL, replace(metadata(BLOCK), ino=SHADOW), NEW)
    assert restored()[0] == NEW


@pytest.mark.parametrize(
    ("entry", "counted"),
    [
        (metadata(BLOCK, state=CLEAN | CHANGING), {"clean": 1}),  # needs no shadow
        (shadowed(BLOCK, RAM_PAGES), {"unreadable": 1}),
        (shadowed(BLOCK, 2**32 - 1), {"unreadable": 1}),
    ],
    ids=["clean", "shadow behind memory", "shadow far behind it"],
)
def test_nothing_is_restored(
    restored: Restored, ram: Ram, disk: Path, entry: Entry, counted: dict[str, int]
) -> None:
    before = disk.read_bytes()
    ram.entry(ORIGINAL, entry, NEW)
    assert counts(restored()[1]) == counted and disk.read_bytes() == before


def test_an_operation_completes_all_its_blocks_at_once(restored: Restored, ram: Ram, disk: Path) -> None:
    """One block with a shadow and one that was clean; the number in the table decides for both."""
    clean = BLOCK + 1
    before = block_of(disk, clean)
    ram.entry(ORIGINAL, replace(metadata(BLOCK), generation=77, ino=SHADOW), NEW)
    ram.put(SHADOW * PAGE, OLD)
    ram.entry(ORIGINAL + 1, replace(metadata(clean), generation=77), NEW)
    ram.valid().pending(77, place=127)
    content, report = restored()
    assert (content, block_of(disk, clean)) == (OLD, before)
    assert counts(report) == {"shadowed": 1, "pending": 1}
    ram.pending(0, place=127, inverted=0)
    content, report = restored()
    assert (content, block_of(disk, clean)) == (NEW, NEW)
    assert counts(report) == {"dirty_metadata": 2}


@pytest.mark.parametrize(("operation", "inverted"), [(77, 77), (76, None), (0, None)])
def test_a_damaged_or_other_place_in_the_table_holds_nothing_back(
    restored: Restored, ram: Ram, operation: int, inverted: int | None
) -> None:
    ram.entry(ORIGINAL, replace(metadata(BLOCK), generation=77), NEW)
    ram.valid().pending(operation, inverted=inverted)
    content, report = restored()
    assert content == NEW and counts(report) == {"dirty_metadata": 1}


def test_a_pending_number_is_no_matter_for_file_data(restored: Restored, ram: Ram) -> None:
    ram.entry(ORIGINAL, Entry(ino=12, index=BLOCK, generation=77), NEW)
    ram.valid().pending(77)
    assert counts(restored()[1]) == {"dirty_data": 1}
