# SPDX-License-Identifier: Apache-2.0
"""Many crashes run again: which ones, each once, and the match rate. Guests are not real."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from harness_builders import campaign_row, trial_row
from riobed.commands.replay_many import Many, choose, replay_many
from riobed.errors import InfraError, UsageError
from riobed.trial.record import TrialRecord
from riobed_results.store.trial import TrialRow
from riobed_results.tables.controls.replays import FILE, read_replays
from test_replay import World, crash

CAMPAIGN = campaign_row(seed="15", spec="fault_classes: [pointer, kernel_heap, none]")


def row(position: int, fault_class: str, outcome: str = "panic") -> TrialRow:
    return trial_row(position, outcome, fault_class=fault_class)


def test_crashes_are_balanced_over_classes_and_always_the_same() -> None:
    rows = [row(n, "pointer") for n in range(50)] + [row(50 + n, "kernel_heap") for n in range(3)]
    rows += [row(60, "none"), row(61, "pointer", "survived")]
    chosen = choose(CAMPAIGN, rows, 10)
    assert Counter(one.fault_class for one in chosen) == {"pointer": 7, "kernel_heap": 3}
    assert [one.fault_class for one in chosen[:4]] == ["pointer", "kernel_heap"] * 2
    # More of them begin with the same ones, so that a longer run goes on with a shorter one's.
    assert choose(CAMPAIGN, rows, 20)[:10] == chosen
    assert {one.position for one in choose(CAMPAIGN, rows, 10**6)} == set(range(53))
    assert [one.position for one in chosen if one.fault_class == "pointer"] != list(range(7))


def test_a_campaign_without_crashes() -> None:
    with pytest.raises(UsageError, match="no crash to"):
        choose(CAMPAIGN, [row(1, "none"), row(2, "pointer", "survived")], 10)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    return World(monkeypatch, tmp_path)


def run(world: World, crashes: int = 5, **words: Any) -> dict[str, Any]:
    return dict(json.loads(replay_many(Many(crashes, str(world.store), "test", **words), "json", None)))


def test_each_crash_is_replayed_once(world: World, tmp_path: Path) -> None:
    before = world.store.read_bytes()
    table = run(world)
    assert (table["total"]["replays"], table["total"]["crash_title"]) == (1, 1)
    assert world.asked == ["snapshot", "trial 1", "discard"]
    folder = tmp_path / "replays" / "test"
    assert {path.name for path in folder.iterdir()} == {FILE, "00001", "replays.md"}
    # It goes on where it was stopped: here there is nothing left to do.
    assert run(world) == table
    assert world.asked == ["snapshot", "trial 1", "discard"]
    assert world.store.read_bytes() == before


def test_our_own_failure_is_tried_again_on_a_new_guest(world: World, tmp_path: Path) -> None:
    failures = [InfraError("no agent")] * 2

    def fail(record: TrialRecord) -> None:
        if failures:
            raise failures.pop()
        crash(record, "double fault in g")

    world.run = fail
    assert run(world)["total"]["crash_title"] == 0
    assert world.asked == [*["snapshot", "trial 1", "discard"] * 3]
    (stored,) = read_replays(tmp_path / "replays/test")
    assert stored.now.crash_title == "double fault in g"


@pytest.mark.parametrize("changes", [{"campaign": "other"}, {"on": {"kernel_build_id": "ffff"}}])
def test_others_are_not_mixed_in(world: World, tmp_path: Path, changes: dict[str, Any]) -> None:
    run(world)
    path = tmp_path / "replays/test" / FILE
    line = json.loads(path.read_text())
    on = {"on": line["on"] | changes.pop("on", {})}
    path.write_text(json.dumps(line | changes | on) + "\n")
    with pytest.raises(UsageError, match="choose another --folder"):
        run(world)
    assert run(world, folder=tmp_path / "new")["total"]["replays"] == 1
