# SPDX-License-Identifier: Apache-2.0
"""A step in flight: what it may have left is accepted, and nothing beyond it."""

import functools
import os
import random
import shutil
import tempfile
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


def _over_the_end(step: Step) -> bool:
    old = step["old_size"]
    return bool(0 < step["offset"] < old - 100 and old + 100 < step["offset"] + step["length"])


def _in_a_page(step: Step) -> bool:
    return bool(step["size"] % PAGE > 100 and step["old_size"] // PAGE > step["size"] // PAGE + 1)


def _rename(kind: str, replaces: bool) -> Callable[[Step], bool]:
    return lambda step: bool(step["type"] == kind and step["replaces"] == replaces)


# The kind of step, and what it must be like.
CASES: dict[str, tuple[str, Callable[[Step], bool]]] = {
    **{kind: (kind, lambda _: True) for kind in ("create", "mkdir", "rmdir", "unlink", "read")},
    "append": ("append", lambda step: step["old_size"] > 0 and step["length"] > 1000),
    "write inside": ("write", lambda step: _inside(step) and step["length"] > 100),
    "write over the end": ("write", _over_the_end),
    "write past the end": ("write", lambda step: step["offset"] > step["old_size"] > 0),
    "truncate shorter": ("truncate", lambda step: 0 < step["size"] < step["old_size"] - 1),
    "truncate shorter in a page": ("truncate", _in_a_page),
    "truncate longer": ("truncate", lambda step: 0 < step["old_size"] < step["size"] - 1),
    "rename file": ("rename", _rename("file", False)),
    "rename over": ("rename", _rename("file", True)),
    "rename dir": ("rename", _rename("dir", False)),
}
WRITES = ["append", "write inside", "write over the end", "write past the end"]
TRUNCATES = ["truncate shorter", "truncate shorter in a page", "truncate longer"]


@dataclass
class Flight:
    """A step, and the test directory as it is before and after it; copies of them are made in `folder`."""

    memtest: Memtest
    step: Step
    before: Path
    after: Path
    folder: Path

    @property
    def done(self) -> int:
        return int(self.step["step"]) - 1

    @property
    def path(self) -> str:
        return str(self.step["path"])

    def copy(self, state: str) -> Path:
        """A new copy of `before` or `after`."""
        return Path(shutil.copytree(getattr(self, state), tempfile.mkdtemp(dir=self.folder) + "/dir"))

    def differences(self, root: Path) -> list[tuple[str, str]]:
        """What verify finds when the step may be in flight."""
        return self.memtest.differences(root, SEED, self.done, self.done + 1)

    def assert_wrong_at(self, root: Path, at: int) -> None:
        """Verify finds one byte of the step's file wrong, and nothing else."""
        (found,) = self.memtest.verify(root, SEED, self.done, self.done + 1)["differences"]
        place = found["path"], found["kind"], found["offset"], found["length"]
        assert place == (self.path, "content", at, 1)

    def assert_flip_is_found(self, root: Path, at: int) -> None:
        flip(root / self.path, at)
        self.assert_wrong_at(root, at)
        flip(root / self.path, at)

    def mixed(self, size: int, rng: random.Random) -> bytearray:
        """Some bytes of the step's file as before it, the others as after it; zero past either's end."""
        ends = [(root / self.path).read_bytes().ljust(size, b"\0") for root in (self.before, self.after)]
        return bytearray(ends[rng.randrange(2)][at] for at in range(size))

    def sizes(self) -> tuple[int, int]:
        return (self.before / self.path).stat().st_size, (self.after / self.path).stat().st_size


def _suits(memtest: Memtest, case: str, step: Step) -> bool:
    """Whether the step is one of the case; a directory renamed shall have files below it."""
    kind, suits = CASES[case]
    if step["step"] < 60 or step["kind"] != kind or not suits(step):
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
    steps = memtest.steps(SEED, 1500)

    @functools.cache
    def make(case: str) -> Flight:
        step = next(step for step in steps if _suits(memtest, case, step))
        folder = tmp_path_factory.mktemp("flight")
        memtest.run(folder / "before", SEED, step["step"] - 1)
        memtest.run(folder / "after", SEED, step["step"])
        return Flight(memtest, step, folder / "before", folder / "after", folder)

    return make


@pytest.fixture
def flight(flights: Callable[[str], Flight], case: str) -> Flight:
    """That of the case the test is for."""
    return flights(case)


def of(*cases: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases)


either_state = pytest.mark.parametrize("state", ["before", "after"])


@of(*CASES)
def test_before_and_after_are_accepted(flight: Flight) -> None:
    assert flight.differences(flight.before) == []
    assert flight.differences(flight.after) == []


@of(*(case for case in CASES if case != "read"))
def test_neither_is_accepted_in_place_of_the_other(flight: Flight) -> None:
    """Without an intent the step has not begun, and a step done has to be there."""
    assert flight.memtest.differences(flight.after, SEED, flight.done)
    assert flight.memtest.differences(flight.before, SEED, flight.done + 1)


@either_state
@of(*CASES)
def test_another_file_is_not_in_flight(flight: Flight, state: str) -> None:
    root = flight.copy(state)
    named = (flight.path, flight.step.get("to", flight.path))
    others = [str(path.relative_to(root)) for path in (root / "tree").rglob("f*") if path.stat().st_size]
    other = min(path for path in others if not path.startswith(named))
    flip(root / other, 0)
    assert flight.differences(root) == [(other, "content")]


@of(*WRITES)
def test_any_mixture_of_a_write_is_accepted(flight: Flight, case: str) -> None:
    root = flight.copy("before")
    low, high = flight.sizes()
    rng = random.Random(case)
    for size in {low, high, low + (high > low), *(rng.randint(low, high) for _ in range(3))}:
        (root / flight.path).write_bytes(flight.mixed(size, rng))
        assert flight.differences(root) == [], size


@of(*WRITES)
def test_a_third_value_in_the_range_is_found(flight: Flight, case: str) -> None:
    root = flight.copy("before")
    size = flight.sizes()[1]
    at = flight.step["offset"] + flight.step["length"] // 2
    data = flight.mixed(size, random.Random(case))
    states = [state / flight.path for state in (flight.before, flight.after)]
    ends = [state.read_bytes().ljust(size, b"\0")[at] for state in states]
    data[at] = next(value for value in range(256) if value not in ends)
    (root / flight.path).write_bytes(data)
    flight.assert_wrong_at(root, at)


@either_state
@of(*WRITES)
def test_a_byte_out_of_the_range_is_found(flight: Flight, case: str, state: str) -> None:
    root = flight.copy(state)
    offset, end = flight.step["offset"], flight.step["offset"] + flight.step["length"]
    places = [offset - 1] + ([end] if case == "write inside" else [])
    if case == "write past the end" and state == "after":
        places.append(flight.sizes()[0])  # the hole
    for at in (at for at in places if at < (root / flight.path).stat().st_size):
        flight.assert_flip_is_found(root, at)


@of(*WRITES)
def test_a_size_out_of_the_range_is_found(flight: Flight) -> None:
    root = flight.copy("after")
    low, high = flight.sizes()
    for size in (high + 1, low - 1):
        os.truncate(root / flight.path, size)
        assert flight.differences(root) == [(flight.path, "size")]


@of(*TRUNCATES)
def test_a_truncate_is_either_done_or_not(flight: Flight) -> None:
    for size in (min(flight.sizes()) + 1, max(flight.sizes()) + 1, min(flight.sizes()) - 1):
        root = flight.copy("after")
        os.truncate(root / flight.path, size)
        assert (flight.path, "size") in flight.differences(root)
    for state in ("before", "after"):
        root = flight.copy(state)
        flight.assert_flip_is_found(root, (root / flight.path).stat().st_size - 1)


@of("truncate shorter in a page")
def test_a_page_may_be_cleared_before_the_file_is_cut(flight: Flight) -> None:
    """Seen on a disk with a journal: fsync writes data, the kernel crashes before the size is there."""
    root = flight.copy("before")
    old, new = flight.sizes()
    end = -(-new // PAGE) * PAGE
    assert new < end < old - 1
    with (root / flight.path).open("r+b") as file:
        file.seek(new)
        file.write(bytes(end - new))
    assert flight.differences(root) == []
    # Neither before the new end nor behind its page, nor if the step has not begun.
    for at in (new - 1, end):
        flight.assert_flip_is_found(root, at)
    assert flight.memtest.differences(root, SEED, flight.done) == [(flight.path, "content")]


@of(*WRITES, *TRUNCATES, "read")
def test_a_file_in_use_is_never_absent(flight: Flight) -> None:
    root = flight.copy("after")
    (root / flight.path).unlink()
    assert flight.differences(root) == [(flight.path, "missing")]


@of("create")
def test_a_file_that_is_made_is_empty_and_a_file(flight: Flight) -> None:
    root = flight.copy("after")
    path = root / flight.path
    path.write_bytes(b"x")
    assert flight.differences(root) == [(flight.path, "size")]
    path.unlink()
    path.mkdir()
    assert flight.differences(root) == [(flight.path, "type")]


@of("mkdir", "rmdir")
def test_a_folder_that_is_made_or_removed_is_empty_and_a_folder(flight: Flight, case: str) -> None:
    root = flight.copy("after" if case == "mkdir" else "before")
    (root / flight.path / "extra").touch()
    assert flight.differences(root) == [(flight.path + "/extra", "extra")]
    shutil.rmtree(root / flight.path)
    (root / flight.path).touch()
    assert flight.differences(root) == [(flight.path, "type")]


@of("unlink")
def test_a_file_that_is_removed_is_whole_or_gone(flight: Flight) -> None:
    root = flight.copy("before")
    os.truncate(root / flight.path, (root / flight.path).stat().st_size + 1)
    assert flight.differences(root) == [(flight.path, "size")]


def _copy_to_new_place(flight: Flight, root: Path) -> None:
    old, new = root / flight.path, root / flight.step["to"]
    shutil.copytree(old, new) if old.is_dir() else shutil.copyfile(old, new)


RENAMES = ["rename file", "rename over", "rename dir"]


@of(*RENAMES)
def test_a_rename_may_be_at_both_places_but_never_at_neither(flight: Flight, case: str) -> None:
    root = flight.copy("before")
    _copy_to_new_place(flight, root)
    assert flight.differences(root) == []
    if case == "rename file":  # as a file system leaves it that adds the new name first
        root = flight.copy("before")
        (root / flight.step["to"]).hardlink_to(root / flight.path)
        assert flight.differences(root) == []
    root = flight.copy("before")
    old = root / flight.path
    shutil.rmtree(old) if old.is_dir() else old.unlink()
    found = flight.differences(root)
    if case == "rename over":  # what stands there is the file that should be gone by now
        assert {path for path, _ in found} == {flight.step["to"]}
        assert {kind for _, kind in found} <= {"content", "size"}
    else:
        assert found == [(flight.step["to"], "missing")]


@of("rename over")
def test_a_file_renamed_over_is_never_absent(flight: Flight) -> None:
    root = flight.copy("before")
    (root / flight.step["to"]).unlink()
    assert flight.differences(root) == [(flight.step["to"], "missing")]


@of("rename file", "rename over")
@pytest.mark.parametrize("place", ["path", "to"])
def test_a_renamed_file_is_checked_where_it_is(flight: Flight, place: str) -> None:
    root = flight.copy("before")
    _copy_to_new_place(flight, root)
    with (root / flight.step[place]).open("ab") as file:
        file.write(b"x")
    found = flight.differences(root)
    assert (flight.step[place], "size") in found
    assert {path for path, _ in found} == {flight.step[place]}


def _files_below(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("f*"))


@of("rename dir")
@pytest.mark.parametrize("place", ["path", "to"])
def test_what_is_below_a_renamed_dir_is_checked_where_it_is(flight: Flight, place: str) -> None:
    root = flight.copy("before" if place == "path" else "after")
    top = flight.step[place]
    below = _files_below(root / top)[0]
    with (root / top / below).open("ab") as file:
        file.write(b"x")
    (root / top / "extra").touch()
    assert set(flight.differences(root)) == {(f"{top}/{below}", "size"), (f"{top}/extra", "extra")}
    (root / top / below).unlink()
    assert set(flight.differences(root)) == {(f"{top}/{below}", "missing"), (f"{top}/extra", "extra")}


@of("rename dir")
def test_a_renamed_dir_is_not_torn_between_its_places(flight: Flight) -> None:
    root = flight.copy("before")
    _copy_to_new_place(flight, root)
    below = _files_below(root / flight.path)[0]
    (root / flight.path / below).unlink()
    assert flight.differences(root) == [(f"{flight.path}/{below}", "missing")]


@of("rename file")
def test_a_symlink_on_the_way_to_the_old_place_is_not_followed(flight: Flight) -> None:
    """The old path, with a symlink in it, leads to the file: that excuses no absence at the new place."""
    root = flight.copy("before")
    parent, outside = Path(flight.path).parent, root.with_name("outside")
    (root / parent).rename(outside)
    (root / parent).symlink_to(outside)
    found = flight.differences(root)
    assert set(found) == {(str(parent), "type"), (flight.step["to"], "missing")}
