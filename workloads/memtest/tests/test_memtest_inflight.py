# SPDX-License-Identifier: Apache-2.0
"""A step in flight: what it may have left is accepted, and nothing beyond it."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from memtest_helper import SEED, Memtest, flip

PAGE = 4096

Step = dict[str, Any]


def _inside(step: Step) -> bool:
    return bool(step["offset"] > 0 and step["offset"] + step["length"] < step["old_size"])


def _rename(step: Step, kind: str, replaces: bool) -> bool:
    return bool(step["kind"] == "rename" and step["type"] == kind and step["replaces"] == replaces)


CASES: dict[str, Callable[[Step], bool]] = {
    "create": lambda step: step["kind"] == "create",
    "mkdir": lambda step: step["kind"] == "mkdir",
    "rmdir": lambda step: step["kind"] == "rmdir",
    "unlink": lambda step: step["kind"] == "unlink",
    "read": lambda step: step["kind"] == "read",
    "append": lambda step: step["kind"] == "append" and step["old_size"] > 0 and step["length"] > 1000,
    "write inside": lambda step: step["kind"] == "write" and _inside(step) and step["length"] > 100,
    "write over the end": lambda step: (
        step["kind"] == "write"
        and 0 < step["offset"] < step["old_size"] - 100
        and step["old_size"] + 100 < step["offset"] + step["length"]
    ),
    "write past the end": lambda step: step["kind"] == "write" and step["offset"] > step["old_size"] > 0,
    "truncate shorter": lambda step: step["kind"] == "truncate" and 0 < step["size"] < step["old_size"] - 1,
    "truncate shorter in a page": lambda step: (
        step["kind"] == "truncate"
        and step["size"] % PAGE > 100
        and step["old_size"] // PAGE > step["size"] // PAGE + 1
    ),
    "truncate longer": lambda step: step["kind"] == "truncate" and 0 < step["old_size"] < step["size"] - 1,
    "rename file": lambda step: _rename(step, "file", False),
    "rename over": lambda step: _rename(step, "file", True),
    "rename dir": lambda step: _rename(step, "dir", False),
}
WRITES = ["append", "write inside", "write over the end", "write past the end"]
TRUNCATES = ["truncate shorter", "truncate shorter in a page", "truncate longer"]


@dataclass
class Flight:
    """A step, and the test directory as it is before and after it."""

    memtest: Memtest
    step: Step
    before: Path
    after: Path

    @property
    def done(self) -> int:
        return int(self.step["step"]) - 1

    @property
    def path(self) -> str:
        return str(self.step["path"])

    def differences(self, root: Path) -> list[tuple[str, str]]:
        """What verify finds when the step may be in flight."""
        return self.memtest.differences(root, SEED, self.done, self.done + 1)

    def mixed(self, size: int, rng: random.Random) -> bytearray:
        """Some bytes of the step's file as before it, the others as after it; zero past either's end."""
        ends = [(root / self.path).read_bytes().ljust(size, b"\0") for root in (self.before, self.after)]
        return bytearray(ends[rng.randrange(2)][at] for at in range(size))

    def sizes(self) -> tuple[int, int]:
        return (self.before / self.path).stat().st_size, (self.after / self.path).stat().st_size


def _suits(memtest: Memtest, case: str, step: Step) -> bool:
    """Whether the step is one of the case; a directory renamed shall have files below it."""
    if step["step"] < 60 or not CASES[case](step):
        return False
    if case == "rename dir":
        model = memtest.model(SEED, step["step"] - 1)
        return any(path.startswith(step["path"] + "/f") for path in model)
    if case == "rename file":
        parent = step["path"].rpartition("/")[0]
        return bool(parent != "tree" and not step["to"].startswith(parent + "/"))
    if case == "rename over":
        model = memtest.model(SEED, step["step"] - 1)
        return bool(model[step["path"]]["size"] > 100 and model[step["to"]]["size"] > 100)
    return True


@pytest.fixture(scope="session")
def flights(memtest: Memtest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Flight]:
    """Makes the Flight of a case, once."""
    made: dict[str, Flight] = {}
    steps = memtest.steps(SEED, 1500)

    def make(case: str) -> Flight:
        if case not in made:
            step = next(step for step in steps if _suits(memtest, case, step))
            folder = tmp_path_factory.mktemp("flight")
            memtest.run(folder / "before", SEED, step["step"] - 1)
            memtest.run(folder / "after", SEED, step["step"])
            made[case] = Flight(memtest, step, folder / "before", folder / "after")
        return made[case]

    return make


def copy(root: Path, to: Path) -> Path:
    return Path(shutil.copytree(root, to / "dir"))


@pytest.mark.parametrize("case", CASES)
def test_before_and_after_are_accepted(flights: Callable[[str], Flight], case: str) -> None:
    flight = flights(case)
    assert flight.differences(flight.before) == []
    assert flight.differences(flight.after) == []


@pytest.mark.parametrize("case", [case for case in CASES if case != "read"])
def test_neither_is_accepted_in_place_of_the_other(flights: Callable[[str], Flight], case: str) -> None:
    """Without an intent the step has not begun, and a step done has to be there."""
    flight = flights(case)
    assert flight.memtest.differences(flight.after, SEED, flight.done)
    assert flight.memtest.differences(flight.before, SEED, flight.done + 1)


@pytest.mark.parametrize("state", ["before", "after"])
@pytest.mark.parametrize("case", CASES)
def test_another_file_is_not_in_flight(
    flights: Callable[[str], Flight], tmp_path: Path, case: str, state: str
) -> None:
    flight = flights(case)
    root = copy(getattr(flight, state), tmp_path)
    named = (flight.path, flight.step.get("to", flight.path))
    others = [str(path.relative_to(root)) for path in (root / "tree").rglob("f*") if path.stat().st_size]
    other = min(path for path in others if not path.startswith(named))
    flip(root / other, 0)
    assert flight.differences(root) == [(other, "content")]


@pytest.mark.parametrize("case", WRITES)
def test_any_mixture_of_a_write_is_accepted(
    flights: Callable[[str], Flight], tmp_path: Path, case: str
) -> None:
    flight = flights(case)
    root = copy(flight.before, tmp_path)
    low, high = flight.sizes()
    rng = random.Random(case)
    for size in {low, high, low + (high > low), *(rng.randint(low, high) for _ in range(3))}:
        (root / flight.path).write_bytes(flight.mixed(size, rng))
        assert flight.differences(root) == [], size


@pytest.mark.parametrize("case", WRITES)
def test_a_third_value_in_the_range_is_found(
    flights: Callable[[str], Flight], tmp_path: Path, case: str
) -> None:
    flight = flights(case)
    root = copy(flight.before, tmp_path)
    size = flight.sizes()[1]
    at = flight.step["offset"] + flight.step["length"] // 2
    data = flight.mixed(size, random.Random(case))
    states = [state / flight.path for state in (flight.before, flight.after)]
    ends = [state.read_bytes().ljust(size, b"\0")[at] for state in states]
    data[at] = next(value for value in range(256) if value not in ends)
    (root / flight.path).write_bytes(data)
    found = flight.memtest.verify(root, SEED, flight.done, flight.done + 1)["differences"]
    assert [(one["path"], one["kind"], one["offset"], one["length"]) for one in found] == [
        (flight.path, "content", at, 1)
    ]


@pytest.mark.parametrize("state", ["before", "after"])
@pytest.mark.parametrize("case", WRITES)
def test_a_byte_out_of_the_range_is_found(
    flights: Callable[[str], Flight], tmp_path: Path, case: str, state: str
) -> None:
    flight = flights(case)
    root = copy(getattr(flight, state), tmp_path)
    offset, end = flight.step["offset"], flight.step["offset"] + flight.step["length"]
    places = [offset - 1] + ([end] if case == "write inside" else [])
    if case == "write past the end" and state == "after":
        places.append(flight.sizes()[0])  # the hole
    for at in (at for at in places if at < (root / flight.path).stat().st_size):
        flip(root / flight.path, at)
        found = flight.memtest.verify(root, SEED, flight.done, flight.done + 1)["differences"]
        assert [(one["kind"], one["offset"], one["length"]) for one in found] == [("content", at, 1)]
        flip(root / flight.path, at)


@pytest.mark.parametrize("case", WRITES)
def test_a_size_out_of_the_range_is_found(
    flights: Callable[[str], Flight], tmp_path: Path, case: str
) -> None:
    flight = flights(case)
    root = copy(flight.after, tmp_path)
    low, high = flight.sizes()
    for size in (high + 1, low - 1):
        os.truncate(root / flight.path, size)
        assert flight.differences(root) == [(flight.path, "size")]


@pytest.mark.parametrize("case", TRUNCATES)
def test_a_truncate_is_either_done_or_not(
    flights: Callable[[str], Flight], tmp_path: Path, case: str
) -> None:
    flight = flights(case)
    for size in (min(flight.sizes()) + 1, max(flight.sizes()) + 1, min(flight.sizes()) - 1):
        root = copy(flight.after, tmp_path / str(size))
        os.truncate(root / flight.path, size)
        assert (flight.path, "size") in flight.differences(root)
    for state in (flight.before, flight.after):
        root = copy(state, tmp_path / state.name)
        at = (root / flight.path).stat().st_size - 1
        flip(root / flight.path, at)
        found = flight.memtest.verify(root, SEED, flight.done, flight.done + 1)["differences"]
        assert [(one["kind"], one["offset"], one["length"]) for one in found] == [("content", at, 1)]


def test_a_page_may_be_cleared_before_the_file_is_cut(
    flights: Callable[[str], Flight], tmp_path: Path
) -> None:
    """Seen on a disk with a journal: fsync writes data, the kernel crashes before the size is there."""
    flight = flights("truncate shorter in a page")
    root = copy(flight.before, tmp_path)
    old, new = flight.sizes()
    end = -(-new // PAGE) * PAGE
    assert new < end < old - 1
    with (root / flight.path).open("r+b") as file:
        file.seek(new)
        file.write(bytes(end - new))
    assert flight.differences(root) == []
    # Neither before the new end nor behind its page, nor if the step has not begun.
    for at in (new - 1, end):
        flip(root / flight.path, at)
        found = flight.memtest.verify(root, SEED, flight.done, flight.done + 1)["differences"]
        assert [(one["kind"], one["offset"], one["length"]) for one in found] == [("content", at, 1)]
        flip(root / flight.path, at)
    assert flight.memtest.differences(root, SEED, flight.done) == [(flight.path, "content")]


@pytest.mark.parametrize("case", [*WRITES, *TRUNCATES, "read"])
def test_a_file_in_use_is_never_absent(flights: Callable[[str], Flight], tmp_path: Path, case: str) -> None:
    flight = flights(case)
    root = copy(flight.after, tmp_path)
    (root / flight.path).unlink()
    assert flight.differences(root) == [(flight.path, "missing")]


@pytest.mark.parametrize("case", ["create", "mkdir"])
def test_what_is_made_is_empty_and_of_its_type(
    flights: Callable[[str], Flight], tmp_path: Path, case: str
) -> None:
    flight = flights(case)
    path = flight.path
    root = copy(flight.after, tmp_path)
    if case == "create":
        (root / path).write_bytes(b"x")
        assert flight.differences(root) == [(path, "size")]
        (root / path).unlink()
        (root / path).mkdir()
    else:
        (root / path / "extra").touch()
        assert flight.differences(root) == [(path + "/extra", "extra")]
        shutil.rmtree(root / path)
        (root / path).touch()
    assert flight.differences(root) == [(path, "type")]


@pytest.mark.parametrize("case", ["unlink", "rmdir"])
def test_what_is_removed_is_whole_or_gone(
    flights: Callable[[str], Flight], tmp_path: Path, case: str
) -> None:
    flight = flights(case)
    root = copy(flight.before, tmp_path)
    if case == "unlink":
        os.truncate(root / flight.path, (root / flight.path).stat().st_size + 1)
        assert flight.differences(root) == [(flight.path, "size")]
    else:
        (root / flight.path / "extra").touch()
        assert flight.differences(root) == [(flight.path + "/extra", "extra")]


def _copy_to_new_place(flight: Flight, root: Path) -> None:
    old, new = root / flight.path, root / flight.step["to"]
    if old.is_dir():
        shutil.copytree(old, new)
    else:
        shutil.copyfile(old, new)


RENAMES = ["rename file", "rename over", "rename dir"]


@pytest.mark.parametrize("case", RENAMES)
def test_a_rename_may_be_at_both_places(flights: Callable[[str], Flight], tmp_path: Path, case: str) -> None:
    flight = flights(case)
    root = copy(flight.before, tmp_path)
    _copy_to_new_place(flight, root)
    assert flight.differences(root) == []


@pytest.mark.parametrize("case", RENAMES)
def test_a_rename_is_never_at_neither_place(
    flights: Callable[[str], Flight], tmp_path: Path, case: str
) -> None:
    flight = flights(case)
    root = copy(flight.before, tmp_path)
    new = flight.step["to"]
    if (root / flight.path).is_dir():
        shutil.rmtree(root / flight.path)
    else:
        (root / flight.path).unlink()
    found = flight.differences(root)
    if case == "rename over":  # what stands there is the file that should be gone by now
        assert {path for path, _ in found} == {new}
        assert {kind for _, kind in found} <= {"content", "size"}
    else:
        assert found == [(new, "missing")]


def test_a_file_renamed_over_is_never_absent(flights: Callable[[str], Flight], tmp_path: Path) -> None:
    flight = flights("rename over")
    root = copy(flight.before, tmp_path)
    (root / flight.step["to"]).unlink()
    assert flight.differences(root) == [(flight.step["to"], "missing")]


@pytest.mark.parametrize("case", ["rename file", "rename over"])
@pytest.mark.parametrize("place", ["path", "to"])
def test_a_renamed_file_is_checked_where_it_is(
    flights: Callable[[str], Flight], tmp_path: Path, case: str, place: str
) -> None:
    flight = flights(case)
    root = copy(flight.before, tmp_path)
    _copy_to_new_place(flight, root)
    path = root / flight.step[place]
    path.write_bytes(path.read_bytes() + b"x")
    found = flight.differences(root)
    assert (flight.step[place], "size") in found
    assert {path for path, _ in found} == {flight.step[place]}


def _files_below(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("f*"))


@pytest.mark.parametrize("place", ["path", "to"])
def test_what_is_below_a_renamed_dir_is_checked_where_it_is(
    flights: Callable[[str], Flight], tmp_path: Path, place: str
) -> None:
    flight = flights("rename dir")
    root = copy(flight.before if place == "path" else flight.after, tmp_path)
    top = flight.step[place]
    below = _files_below(root / top)[0]
    with (root / top / below).open("ab") as file:
        file.write(b"x")
    (root / top / "extra").touch()
    assert set(flight.differences(root)) == {(f"{top}/{below}", "size"), (f"{top}/extra", "extra")}
    (root / top / below).unlink()
    assert set(flight.differences(root)) == {(f"{top}/{below}", "missing"), (f"{top}/extra", "extra")}


def test_a_renamed_dir_is_not_torn_between_its_places(
    flights: Callable[[str], Flight], tmp_path: Path
) -> None:
    flight = flights("rename dir")
    root = copy(flight.before, tmp_path)
    _copy_to_new_place(flight, root)
    below = _files_below(root / flight.path)[0]
    (root / flight.path / below).unlink()
    assert flight.differences(root) == [(f"{flight.path}/{below}", "missing")]


def test_a_symlink_on_the_way_to_the_old_place_is_not_followed(
    flights: Callable[[str], Flight], tmp_path: Path
) -> None:
    """The old path, with a symlink in it, leads to the file: that excuses no absence at the new place."""
    flight = flights("rename file")
    root = copy(flight.before, tmp_path)
    parent = Path(flight.path).parent
    (root / parent).rename(tmp_path / "outside")
    (root / parent).symlink_to(tmp_path / "outside")
    found = flight.differences(root)
    assert set(found) == {(str(parent), "type"), (flight.step["to"], "missing")}
