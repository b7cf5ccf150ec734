# SPDX-License-Identifier: Apache-2.0
"""A suite of stressors: what is read, what is refused, how the time is shared out."""

import re
from pathlib import Path

import pytest
from riobed.errors import UsageError
from riobed.products import CHECKOUT
from riobed.soak.suite import Suite, load_suite, turns

WEIGHTS = {"big": 3, "one": 1, "two": 1}
STRESSORS = {name: {"weight": weight, "what": name[0]} for name, weight in WEIGHTS.items()}
SUITE = Suite.model_validate({"stressors": STRESSORS})


def test_time_is_shared_by_weight_among_those_chosen() -> None:
    shared = [(turn.name, turn.seconds) for turn in turns(SUITE, 5, [])]
    assert shared == [("big", 180), ("one", 60), ("two", 60)]
    # In the suite's order, whatever the user's.
    chosen = [(turn.name, turn.what, turn.seconds) for turn in turns(SUITE, 1, ["two", "big"])]
    assert chosen == [("big", "b", 45), ("two", "t", 15)]


def test_what_cannot_be_run() -> None:
    with pytest.raises(UsageError, match=r"^unknown stressor 'bog'; there are: big, one, two$"):
        turns(SUITE, 5, ["bog"])
    with pytest.raises(UsageError, match=r"^0\.3 minutes leave 4 s for a stressor: give more, or "):
        turns(SUITE, 0.3, [])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("stressors: {}", "stressors: Dictionary should have at least 1 item"),
        ("stressors: {a: {weight: 0, what: x}}", "stressors.a.weight: Input should be greater"),
        ("stressors: {a: {weight: 1}}", "stressors.a.what: Field required"),
        ("stressors: {'../a': {weight: 1, what: x}}", "stressors.../a"),
        ("stressors: {a: {weight: 1, what: x, reset: random}}", "stressors.a: check: needed"),
        ("stressors: {a: {weight: 1, what: x, check: x}}", "stressors.a: check: needed"),
        ("stressors: [", "not YAML: "),
        ("bild: x\nstressors: {a: {weight: 1, what: x}}", "bild: Extra inputs"),
    ],
)
def test_a_bad_suite(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "suite.yaml").write_text(text)
    with pytest.raises(UsageError, match=rf"^suite {tmp_path}/suite\.yaml: {re.escape(says)}[^\n]*$"):
        load_suite(tmp_path)


def test_a_folder_without_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"No such file or directory; a suite is a folder with that file$"):
        load_suite(tmp_path)


def test_each_stressor_of_ours_is_a_program() -> None:
    folder = CHECKOUT / "workloads/stress"
    programs = {path.name for path in (folder / "stressors").iterdir() if path.stat().st_mode & 0o100}
    assert set(load_suite(folder).stressors) == programs
