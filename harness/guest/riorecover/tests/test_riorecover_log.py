# SPDX-License-Identifier: Apache-2.0
"""The operation log: what an operation that had not ended had changed is put back, and nothing else."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from registry_image import (
    LOG_FIRST,
    LOG_FREE,
    LOG_NEXT,
    LOG_PAGES,
    OTHER_DEV,
    PAGE,
    UNDO_SUPERSEDED,
    Ram,
    flip,
    log_address,
    log_word,
    metadata,
    next_page,
    undo,
)
from riorecover_helper import Riorecover, blocks, tool

BLOCK = 1500
FRAME = 2000
NEW = random.Random(22).randbytes(PAGE)
Restored = Callable[[], tuple[bytes, dict[str, int]]]


@pytest.fixture
def restored(riorecover: Riorecover, ram: Ram, disk: Path) -> Restored:
    """The block after a recovery, and the counts of the log that are not zero."""
    ram.entry(FRAME, metadata(BLOCK), NEW)

    def run() -> tuple[bytes, dict[str, int]]:
        report = riorecover.recover(ram.valid(), disk, e2fsck=tool("true"))
        return blocks(disk.read_bytes())[BLOCK], {k: n for k, n in report["log"].items() if n}

    return run


def test_bytes_are_put_back_last_first(restored: Restored, ram: Ram) -> None:
    ram.log_page(
        2, undo(2, BLOCK, 96, b"first"), undo(2, BLOCK, 98, b"second"), undo(2, BLOCK, PAGE - 1, b"e")
    )
    content, log = restored()
    assert content == NEW[:96] + b"firstond" + NEW[104:-1] + b"e"
    assert log == {"operations": 1, "undone": 3}
    memory = ram.path.read_bytes()
    assert memory[FRAME * PAGE : (FRAME + 1) * PAGE] == NEW, "the evidence is not touched"


def test_a_block_that_is_not_in_memory(riorecover: Riorecover, ram: Ram, disk: Path) -> None:
    """Its base is what the disk has; a clean page is not used."""
    before = blocks(disk.read_bytes())
    ram.entry(FRAME, metadata(0, state=1), NEW)
    ram.log_page(0, undo(0, 0, 1144, b"undone"), undo(0, BLOCK, 5, b"five"))
    report = riorecover.recover(ram.valid(), disk, e2fsck=tool("true"))
    assert report["metadata"] == {"written": 2, "failed": 0}
    after = blocks(disk.read_bytes())
    assert after[BLOCK] == before[BLOCK][:5] + b"five" + before[BLOCK][9:]
    assert after[0] == before[0][:1144] + b"undone" + before[0][1150:]
    assert [n for n in range(len(before)) if before[n] != after[n]] == [0, BLOCK]


def test_an_operation_that_ended_is_not_undone(restored: Restored, ram: Ram) -> None:
    """One store to the word of its first page drops what follows, too."""
    record = undo(1, BLOCK, 0, b"old")
    ram.log_page(4, undo(4, BLOCK, 8, b"old"), kind=LOG_NEXT)
    for word in (log_word(1, LOG_FREE, 0, 0), log_word(1, LOG_FIRST, 0, 7), log_word(1, LOG_NEXT, 32, 7)):
        ram.put(log_address(1), word + record + next_page(1, 4))
        assert restored() == (NEW, {})


def test_a_long_operation_goes_on_in_other_pages(restored: Restored, ram: Ram) -> None:
    """Wherever they lie; what is recorded later is put back earlier."""
    ram.log_page(5, undo(5, BLOCK, 0, b"one"), next_page(5, 0))
    ram.log_page(0, undo(0, BLOCK, 1, b"two"), next_page(0, 7), kind=LOG_NEXT)
    ram.log_page(7, undo(7, BLOCK, 0, b"three"), kind=LOG_NEXT)
    assert restored() == (b"oneoe" + NEW[5:], {"operations": 1, "undone": 3})


def test_a_crash_before_the_first_record_of_the_next_page(restored: Restored, ram: Ram) -> None:
    """The page that it goes on in is still free, and that is no damage."""
    ram.log_page(1, undo(1, BLOCK, 0, b"old"), next_page(1, 2))
    assert restored() == (b"old" + NEW[3:], {"operations": 1, "undone": 1})


def test_what_is_not_to_be_put_back(restored: Restored, ram: Ram) -> None:
    ram.log_page(1, undo(1, BLOCK, 0, b"s", UNDO_SUPERSEDED), undo(1, BLOCK, 9, b"u"))
    ram.log_page(2, undo(2, BLOCK, 0, b"f", dev=OTHER_DEV, operation=8), operation=8)
    assert restored() == (NEW[:9] + b"u" + NEW[10:], {"operations": 1, "undone": 1, "superseded": 1})


def test_a_damaged_record_is_skipped(restored: Restored, ram: Ram) -> None:
    """Its length may be damaged, too: behind it the next undamaged record counts."""
    first, second, third = (undo(1, BLOCK, 10 * n, b"old") for n in range(3))
    for bit in range(0, 8 * len(second), 5):
        ram.log_page(1, first, flip(second, bit), third)
        expect = b"old" + NEW[3:20] + b"old" + NEW[23:]
        assert restored() == (expect, {"operations": 1, "undone": 2, "rejected": 1}), bit


def test_a_record_of_an_earlier_operation_does_not_count(restored: Restored, ram: Ram) -> None:
    """It lies behind the used part of the page; the word is damaged so that it says more."""
    ram.log_page(1, undo(1, BLOCK, 0, b"old"), undo(1, BLOCK, 20, b"bad", operation=6))
    assert restored() == (b"old" + NEW[3:], {"operations": 1, "undone": 1, "rejected": 1})


def test_a_damaged_word_loses_its_operation(restored: Restored, ram: Ram) -> None:
    ram.log_page(1, undo(1, BLOCK, 0, b"old"))
    for bit in range(64):
        ram.put(log_address(1), flip(log_word(1, LOG_FIRST, 32, 7), bit))
        assert restored() == (NEW, {"rejected": 1}), bit


NONSENSE = {
    "no bytes": undo(1, BLOCK),
    "bytes behind the block": undo(1, BLOCK, PAGE - 2, b"old"),
    "block behind the disk": undo(1, 2048, 0, b"old"),
    "last block there can be": undo(1, 2**64 - 1, 0, b"old"),
    "unknown type": undo(1, BLOCK, 0, b"old", kind=4),
    "on behind the log": next_page(1, LOG_PAGES),
    "on far behind the log": next_page(1, 2**32 + 3),
    "on in itself": next_page(1, 1),
    "on in a first page": next_page(1, 3),
    "on in another operation": next_page(1, 4),
    "on in a circle": next_page(1, 5),
}


@pytest.mark.parametrize("record", NONSENSE.values(), ids=NONSENSE.keys())
def test_nonsense_is_not_followed(restored: Restored, ram: Ram, record: bytes) -> None:
    ram.log_page(1, undo(1, BLOCK, 0, b"old"), record)
    ram.log_page(3, undo(3, BLOCK, 20, b"old", operation=9), operation=9)
    ram.log_page(4, undo(4, BLOCK, 30, b"bad", operation=8), kind=LOG_NEXT, operation=8)
    ram.log_page(5, next_page(5, 6), kind=LOG_NEXT)
    ram.log_page(6, next_page(6, 5), kind=LOG_NEXT)
    content, log = restored()
    assert content == b"old" + NEW[3:20] + b"old" + NEW[23:]
    assert log == {"operations": 2, "undone": 2, "inconsistent": 1}


@pytest.mark.parametrize("word", [(LOG_FIRST, 12, 7), (LOG_FIRST, PAGE, 7), (3, 32, 7), (LOG_FREE, 0, 7)])
def test_a_word_that_makes_no_sense(restored: Restored, ram: Ram, word: tuple[int, int, int]) -> None:
    ram.put(log_address(1), log_word(1, *word) + undo(1, BLOCK, 0, b"old"))
    assert restored() == (NEW, {"inconsistent": 1})
