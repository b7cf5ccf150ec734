# SPDX-License-Identifier: Apache-2.0
"""Verify --oldest: the directory as it was after an earlier step is right, anything else is not."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from memtest_helper import SEED, STEPS, Memtest, flip

DONE = STEPS + 60


def judged(memtest: Memtest, root: Path, oldest: int, done: int = DONE, failed: str = "") -> dict[str, Any]:
    """What verify says when the steps after `oldest` may be lost."""
    return memtest.verify(root, SEED, done, done + 1, failed, oldest=oldest)


def kept(memtest: Memtest, step: int) -> int:
    """The last step after which everything is as after `step`."""
    changes = (later["step"] for later in memtest.steps(SEED, DONE + 1) if later["kind"] != "read")
    return next(number for number in changes if number > step) - 1


@pytest.mark.parametrize("steps", [0, 1, STEPS - 1, STEPS, DONE])
def test_an_earlier_step_is_right(memtest: Memtest, tmp_path: Path, steps: int) -> None:
    memtest.run(tmp_path / "dir", SEED, steps)
    report = judged(memtest, tmp_path / "dir", 0)
    last = min(kept(memtest, steps), DONE)
    assert (report["difference_count"], report["files_lost"]) == (0, 0)
    assert (report["oldest"], report["kept"], report["steps_lost"]) == (0, last, DONE - last)


def test_a_step_before_the_oldest_is_wrong_as_without_the_option(memtest: Memtest, tree: Path) -> None:
    last = kept(memtest, STEPS)
    assert judged(memtest, tree, last)["kept"] == last
    report = judged(memtest, tree, last + 1)
    assert [report.pop(key) for key in ("oldest", "kept", "steps_lost")] == [last + 1, None, None]
    assert report == memtest.verify(tree, SEED, DONE, DONE + 1) and report["difference_count"]


def test_no_step_has_what_is_damaged_or_from_two_steps(memtest: Memtest, tree: Path, tmp_path: Path) -> None:
    later = tmp_path / "later"
    memtest.run(later, SEED, DONE)
    changed = next(
        path.relative_to(tree)
        for path in sorted((tree / "tree").rglob("f*"))
        if (later / path.relative_to(tree)).is_file()
        and (later / path.relative_to(tree)).read_bytes() != path.read_bytes()
    )
    shutil.copyfile(later / changed, tree / changed)
    assert judged(memtest, tree, 0)["steps_lost"] is None
    flip(later / "twins/000.a", 0)
    report = judged(memtest, later, 0)
    assert report["steps_lost"] is None
    assert [found["kind"] for found in report["differences"]] == ["twin"]


def test_a_step_may_have_been_lost_in_part(memtest: Memtest, tmp_path: Path) -> None:
    step = next(
        step
        for step in memtest.steps(SEED, STEPS)[100:]
        if step["kind"] == "append" and step["length"] > 5000 and step["old_size"]
    )
    before, path = step["step"] - 1, tmp_path / "dir" / step["path"]
    memtest.run(tmp_path / "dir", SEED, step["step"])
    data = path.read_bytes()
    path.write_bytes(data[: step["old_size"] + 4096])
    assert judged(memtest, tmp_path / "dir", 0)["kept"] == before
    path.write_bytes(data[: step["old_size"] - 1])
    assert judged(memtest, tmp_path / "dir", 0)["kept"] is None


def test_steps_that_failed_after_those_that_are_kept(memtest: Memtest, tree: Path) -> None:
    last = kept(memtest, STEPS)
    for failed in (f"{last + 2}:EIO,{last + 9}:ENOSPC", f"{DONE + 1}:EIO"):
        report = judged(memtest, tree, 0, failed=failed)
        assert (report["kept"], report["frozen"]) == (last, [])


def test_a_step_that_failed_before_is_judged_as_ever(memtest: Memtest, tree: Path) -> None:
    """The last step of the tree is an append; that it failed does not mean that it left nothing."""
    *_, last = memtest.steps(SEED, STEPS)
    failed = f"{STEPS}:EIO"
    assert last["kind"] == "append" and judged(memtest, tree, 0, failed=failed)["kept"] >= STEPS - 1
    flip(tree / last["path"], last["offset"])
    assert judged(memtest, tree, 0, failed=failed)["kept"] is None


def test_text_says_after_which_step(memtest: Memtest, tree: Path) -> None:
    verify = ["verify", "--dir", tree, "--seed", SEED, "--done", DONE, *memtest.limit]
    result = memtest(*verify, "--oldest", 0)
    assert result.returncode == 0
    assert result.stdout.startswith(f"equal after step {kept(memtest, STEPS)}: 0 differences")
