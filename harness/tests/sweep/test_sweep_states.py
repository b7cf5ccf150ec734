# SPDX-License-Identifier: Apache-2.0
"""From a log of changes to the states that a recovery may find."""

from pathlib import Path

import pytest
from riobed.errors import InfraError
from riobed.guest import Layout
from riobed.guest.memory.layout import ENTRY_SIZE, MIB, MIN_RAM, PAGE
from riobed.guest.memory.registry import CHANGING, DIRTY, METADATA
from riobed.sweep.changes import Change
from riobed.sweep.crash import states
from riobed.sweep.memory import Memory
from riobed.sweep.recording import Recording, check_log

LAYOUT = Layout(MIN_RAM)
FILE, BLOCK, OTHER = 1000, 1001, 1002
DISKS = (Path("before"), Path("after"))


def entry(page: int) -> int:
    return LAYOUT.registry_start + PAGE + page * ENTRY_SIZE


def word(state: int) -> bytes:
    return (state << 32).to_bytes(8, "little")


def store(physical: int, content: bytes) -> Change:
    return Change(physical, content, store=True)


@pytest.fixture
def ram(tmp_path: Path) -> Path:
    path = tmp_path / "ram"
    with path.open("wb") as file:
        file.truncate(MIN_RAM)
        for page, state in ((FILE, DIRTY | CHANGING), (BLOCK, DIRTY | CHANGING | METADATA)):
            file.seek(entry(page))
            file.write(word(state))
    return path


def recording(ram: Path, *changes: Change) -> Recording:
    return Recording(ram, DISKS, list(changes), ({}, {}), 0)


def numbers(ram: Path, copy_step: int, *changes: Change) -> list[int]:
    memory = Memory(ram, LAYOUT)
    found = [state.number for state in states(recording(ram, *changes), memory, copy_step)]
    memory.close()
    return found


def test_a_state_is_what_a_recovery_can_tell_from_the_one_before(ram: Path) -> None:
    changes = [
        store(BLOCK * PAGE, b"x"),
        store(BLOCK * PAGE, b"x"),
        store(OTHER * PAGE, b"is not listed"),
        store(entry(OTHER), word(DIRTY)),
        store(OTHER * PAGE, b"is listed"),
        # What a page has before it is listed is no store of its own.
        Change(FILE * PAGE, b"y", store=False),
    ]
    assert numbers(ram, 1, *changes) == [0, 1, 4, 5, 5]


@pytest.mark.parametrize("step", [1, -1])
def test_of_the_stores_of_a_copy_some_are_left_out(ram: Path, step: int) -> None:
    copy = [store(FILE * PAGE + 100 + step * at, b"x") for at in range(10)]
    assert numbers(ram, 4, *copy, store(BLOCK * PAGE, b"x")) == [0, 1, 5, 9, 11, 11]


def test_the_disk_is_the_later_one_from_the_first_request_on(ram: Path) -> None:
    changes = [store(BLOCK * PAGE, b"x"), Change(1 << 40, b"", store=False), store(BLOCK * PAGE, b"y")]
    memory = Memory(ram, LAYOUT)
    found = [state.disk for state in states(recording(ram, *changes), memory, 1)]
    memory.close()
    assert found == [DISKS[0], DISKS[0], DISKS[1], DISKS[1]]


def test_a_log_that_lacks_a_change_is_no_result(ram: Path, tmp_path: Path) -> None:
    now = tmp_path / "now"
    now.write_bytes(ram.read_bytes())
    with now.open("r+b") as file:
        for page in (BLOCK, OTHER):
            file.seek(page * PAGE)
            file.write(b"xy")
    # The page that is not listed has another use by now.
    whole = [store(BLOCK * PAGE, b"x"), store(OTHER * PAGE, b"z"), store(BLOCK * PAGE + 1, b"y")]
    check_log(ram, whole, now, LAYOUT)
    with pytest.raises(InfraError, match="lacks changes of 1 of 2 pages"):
        check_log(ram, whole[:2], now, LAYOUT)


def test_a_recovery_leaves_memory_as_it_was(ram: Path) -> None:
    memory = Memory(ram, LAYOUT)
    before = ram.read_bytes()
    with memory.kept(), ram.open("r+b") as file:
        file.seek(LAYOUT.registry_start)
        file.write(b"recovered")
    assert LAYOUT.registry_size >= MIB and ram.read_bytes() == before
    memory.close()
