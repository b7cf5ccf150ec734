# SPDX-License-Identifier: Apache-2.0
"""Verify --oldest: what was made durable must be there, and the rest in a state that it had since."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from memtest_helper import SEED, STEPS, Memtest, flip

BLOCK = 4096
DONE = STEPS + 60
EVERY = 7  # steps, of those that are made durable


def states(report: dict[str, Any]) -> dict[str, int]:
    """How many files and names are in each state but the newest."""
    return {state: count for state, count in report["states"].items() if count}


@pytest.fixture(scope="session")
def history(memtest: Memtest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """The test directory after each of some steps; not to be changed."""
    root = tmp_path_factory.mktemp("history")

    def after(steps: int) -> Path:
        if not (root / str(steps)).exists():
            memtest.run(root / str(steps), SEED, steps)
        return root / str(steps)

    return after


@pytest.fixture
def judged(memtest: Memtest, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """What verify says of the directory that crashed in step DONE + 1."""

    def judge(root: Path, oldest: int = 0, every: int = 0, failed: str = "") -> dict[str, Any]:
        return memtest.verify(root, SEED, DONE, DONE + 1, failed, oldest, every)

    return judge


def copy(root: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(root, tmp_path / "dir"))


@pytest.mark.parametrize("steps", [0, 1, STEPS - 1, STEPS, DONE])
def test_an_earlier_step_is_right_and_its_age_is_told(
    history: Callable[[int], Path], judged: Callable[..., dict[str, Any]], steps: int
) -> None:
    report = judged(history(steps))
    assert report["difference_count"] == 0 and set(states(report)) <= {"older"}
    assert DONE - report["steps_lost"] == report["kept"] >= steps
    assert bool(report["files_lost"]) == bool(report["bytes_lost"]) == (steps < DONE)


@pytest.mark.parametrize("synced", [{"oldest": STEPS + 1}, {"every": 1}])
def test_what_was_made_durable_must_be_there(
    history: Callable[[int], Path], judged: Callable[..., dict[str, Any]], synced: dict[str, int]
) -> None:
    report = judged(history(STEPS // 2), **synced)
    assert report["difference_count"] and report["states"]["unsynced"]
    # Nothing tells how old that is.
    assert (report["kept"], report["steps_lost"]) == (None, None)
    assert judged(history(DONE), **synced)["difference_count"] == 0


def test_each_file_and_each_block_may_be_of_a_step_of_its_own(
    history: Callable[[int], Path], judged: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    rng, found = random.Random(1), set()
    olds = [history(steps) for steps in range(STEPS - 60, DONE, 20)]
    for number in range(20):
        root = copy(history(DONE), tmp_path / str(number))
        for path in sorted((root / "tree").rglob("f*")):
            versions = [
                old / path.relative_to(root) for old in olds if (old / path.relative_to(root)).is_file()
            ]
            data, length = bytearray(path.read_bytes()), path.stat().st_size
            for at in range(0, length, BLOCK) if versions else []:
                other = rng.choice(versions).read_bytes()
                if min(length, at + BLOCK) <= len(other) and rng.random() < 0.5:
                    data[at : at + BLOCK] = other[at : min(length, at + BLOCK)]
            path.write_bytes(data)
        report = judged(root)
        assert report["difference_count"] == 0, report
        found |= set(states(report))
    assert found == {"older", "mixed"}


DAMAGE: dict[str, Callable[[bytes, bytes, int], bytes]] = {
    # The size may be any in the midst of the write.
    "mixed": lambda old, new, at: new[: at + BLOCK],
    "zeroed": lambda old, new, at: new[:at] + bytes(BLOCK) + new[at + BLOCK :],
    "stale": lambda old, new, at: new[:at] + b"?" + new[at + 1 :],
    "damaged": lambda old, new, at: new + b"?",
    "older": lambda old, new, at: old,
}


@pytest.mark.parametrize("state", DAMAGE)
def test_states_are_told_apart(
    memtest: Memtest, history: Callable[[int], Path], tmp_path: Path, state: str
) -> None:
    """Of a file that a step made some blocks longer."""
    step = next(
        step
        for step in reversed(memtest.steps(SEED, DONE))
        if step["kind"] == "append" and step["length"] > 4 * BLOCK
    )
    number, path = step["step"], step["path"]
    old, new = ((history(steps) / path).read_bytes() for steps in (number - 1, number))
    root = copy(history(number), tmp_path)
    (root / path).write_bytes(DAMAGE[state](old, new, (len(old) // BLOCK + 1) * BLOCK))
    report = memtest.verify(root, SEED, number, 0, "", 0)
    assert states(report) == {state: 1}
    assert [found["path"] for found in report["differences"]] == [path] * (state in ("stale", "damaged"))


def test_a_block_may_have_bytes_of_two_steps(
    memtest: Memtest, history: Callable[[int], Path], tmp_path: Path
) -> None:
    step = next(
        step
        for step in reversed(memtest.steps(SEED, DONE))
        if step["kind"] == "write"
        and step["offset"] + step["length"] <= step["old_size"]
        and step["length"] > 200
    )
    number, middle = step["step"], step["offset"] + step["length"] // 2
    old, new = ((history(steps) / step["path"]).read_bytes() for steps in (number - 1, number))
    root = copy(history(number), tmp_path)
    (root / step["path"]).write_bytes(new[:middle] + old[middle:])
    report = memtest.verify(root, SEED, number, 0, "", 0)
    assert states(report) == {"torn": 1} and report["kept"] == number - 1


@pytest.mark.parametrize(("copies", "state"), [(0, "misplaced"), (1, "older"), (2, "misplaced")])
def test_a_rename_leaves_one_name(
    memtest: Memtest,
    history: Callable[[int], Path],
    judged: Callable[..., dict[str, Any]],
    tmp_path: Path,
    copies: int,
    state: str,
) -> None:
    step = next(
        step
        for step in reversed(memtest.steps(SEED, DONE))
        if step["kind"] == "rename"
        and step["type"] == "file"
        and not step["replaces"]
        and (history(DONE) / step["to"]).is_file()
        and (history(DONE) / step["path"]).parent.is_dir()
    )
    root = copy(history(DONE), tmp_path)
    if copies:
        shutil.copyfile(root / step["to"], root / step["path"])
    if copies < 2:
        (root / step["to"]).unlink()
    assert state in states(judged(root, step["step"] - 1))


def test_a_newer_name_of_older_content_is_counted(
    memtest: Memtest, history: Callable[[int], Path], judged: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    steps = memtest.steps(SEED, DONE)
    rename, write = next(
        (step, before)
        for step in reversed(steps)
        if step["kind"] == "rename" and (history(DONE) / step["to"]).is_file()
        for before in reversed(steps[: step["step"]])
        if before["kind"] in ("write", "append") and before["path"] == step["path"]
    )
    root = copy(history(DONE), tmp_path)
    shutil.copyfile(history(write["step"] - 1) / write["path"], root / rename["to"])
    report = judged(root)
    assert (report["difference_count"], report["states"]["renamed"]) == (0, 1)
    assert report["kept"] == write["step"] - 1


def test_what_was_never_written_is_damage(
    history: Callable[[int], Path], judged: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    root = copy(history(STEPS), tmp_path)
    flip(root / "twins/000.a", 0)
    (root / "tree/other").touch()
    (root / "twins/001.a").chmod(0o600)
    assert judged(root)["states"]["damaged"] == 3


def test_steps_that_failed_may_be_there_or_not(
    memtest: Memtest, history: Callable[[int], Path], judged: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    *_, last = memtest.steps(SEED, STEPS)
    for steps in (STEPS - 1, STEPS):
        report = memtest.verify(history(steps), SEED, STEPS, 0, f"{STEPS}:EIO", 0)
        assert (report["difference_count"], report["steps_lost"]) == (0, 0)
    root = copy(history(STEPS), tmp_path)
    flip(root / last["path"], last["offset"])
    assert memtest.verify(root, SEED, STEPS, 0, f"{STEPS}:EIO", 0)["difference_count"] == 1


def test_text_says_after_which_step(memtest: Memtest, history: Callable[[int], Path]) -> None:
    verify = ["verify", "--dir", history(STEPS), "--seed", SEED, "--done", DONE, *memtest.limit]
    result = memtest(*verify, "--oldest", 0)
    assert result.returncode == 0
    assert result.stdout.startswith("equal after step ")
