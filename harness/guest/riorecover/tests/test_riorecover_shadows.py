# SPDX-License-Identifier: Apache-2.0
"""Blocks of metadata in the middle of a change: restored as before it, or as after it."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from riorecover_helper import CHANGING, CLEAN, PAGE, Entry, Ram, Riorecover, counts, metadata, shadowed, tool

NO_CHECK = tool("true")
BLOCK = 1500
ORIGINAL, SHADOW = 2000, 3000  # page frames
OLD, NEW = (random.Random(seed).randbytes(PAGE) for seed in (21, 22))


def restored(riorecover: Riorecover, ram: Ram, disk: Path, folder: Path) -> tuple[bytes, dict[str, Any]]:
    """The block after a recovery, and the report."""
    report = riorecover.recover(ram.valid(), disk, folder, e2fsck=NO_CHECK)
    return disk.read_bytes()[BLOCK * PAGE : (BLOCK + 1) * PAGE], report


def test_the_shadow_is_restored(riorecover: Riorecover, ram: Ram, disk: Path, tmp_path: Path) -> None:
    ram.change(ORIGINAL, BLOCK, OLD, NEW)
    content, report = restored(riorecover, ram, disk, tmp_path)
    assert content == OLD and report["metadata"] == {"written": 1, "failed": 0}
    assert counts(report) == {"shadowed": 1}


def test_each_moment_of_a_change(riorecover: Riorecover, ram: Ram, disk: Path, tmp_path: Path) -> None:
    """The old version until the change has ended, then the new."""
    ram.entry(ORIGINAL, metadata(BLOCK), OLD)
    assert restored(riorecover, ram, disk, tmp_path)[0] == OLD
    for new in (OLD, OLD[:100] + NEW[100:], NEW):
        ram.change(ORIGINAL, BLOCK, OLD, new)
        assert restored(riorecover, ram, disk, tmp_path)[0] == OLD
    ram.entry(ORIGINAL, replace(metadata(BLOCK), ino=SHADOW), NEW)
    assert restored(riorecover, ram, disk, tmp_path)[0] == NEW


def test_a_clean_block_needs_no_shadow(riorecover: Riorecover, ram: Ram, disk: Path, tmp_path: Path) -> None:
    before = disk.read_bytes()
    ram.entry(ORIGINAL, metadata(BLOCK, state=CLEAN | CHANGING), NEW)
    restored(riorecover, ram, disk, tmp_path)
    assert disk.read_bytes() == before


@pytest.mark.parametrize("frame", [4096, 2**32 - 1], ids=["behind memory", "far behind it"])
def test_a_shadow_that_cannot_be_read_is_counted(
    riorecover: Riorecover, ram: Ram, disk: Path, tmp_path: Path, frame: int
) -> None:
    before = disk.read_bytes()
    ram.entry(ORIGINAL, shadowed(BLOCK, frame), NEW)
    _, report = restored(riorecover, ram, disk, tmp_path)
    assert disk.read_bytes() == before and counts(report) == {"unreadable": 1}


def test_an_operation_completes_all_its_blocks_at_once(
    riorecover: Riorecover, ram: Ram, disk: Path, tmp_path: Path
) -> None:
    """One block with a shadow and one that was clean; the number in the table decides for both."""
    clean = BLOCK + 1
    before = disk.read_bytes()[clean * PAGE : (clean + 1) * PAGE]
    ram.entry(ORIGINAL, replace(metadata(BLOCK), generation=77, ino=SHADOW), NEW)
    ram.put(SHADOW * PAGE, OLD)
    ram.entry(ORIGINAL + 1, replace(metadata(clean), generation=77), NEW)
    ram.valid()
    ram.pending(77, place=127)
    content, report = restored(riorecover, ram, disk, tmp_path)
    assert content == OLD and disk.read_bytes()[clean * PAGE : (clean + 1) * PAGE] == before
    assert counts(report) == {"shadowed": 1, "pending": 1}
    ram.pending(0, place=127, inverted=0)
    content, report = restored(riorecover, ram, disk, tmp_path)
    assert content == NEW and disk.read_bytes()[clean * PAGE : (clean + 1) * PAGE] == NEW
    assert counts(report) == {"dirty_metadata": 2}


@pytest.mark.parametrize(("operation", "inverted"), [(77, 77), (76, None), (0, None)])
def test_a_damaged_or_other_place_in_the_table_holds_nothing_back(
    riorecover: Riorecover, ram: Ram, disk: Path, tmp_path: Path, operation: int, inverted: int | None
) -> None:
    ram.entry(ORIGINAL, replace(metadata(BLOCK), generation=77), NEW)
    ram.valid()
    ram.pending(operation, inverted=inverted)
    content, report = restored(riorecover, ram, disk, tmp_path)
    assert content == NEW and counts(report) == {"dirty_metadata": 1}


def test_a_pending_number_is_no_matter_for_file_data(
    riorecover: Riorecover, ram: Ram, disk: Path, tmp_path: Path
) -> None:
    ram.entry(ORIGINAL, Entry(ino=12, index=BLOCK, generation=77), NEW)
    ram.valid()
    ram.pending(77)
    _, report = restored(riorecover, ram, disk, tmp_path)
    assert counts(report) == {"dirty_data": 1}
