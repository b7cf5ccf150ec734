# SPDX-License-Identifier: Apache-2.0
"""The search for the dose at which half of the runs crash, and what it writes into a spec."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from campaign_world import World, result, undisturbed
from harness_builders import spec as make_spec
from riobed.commands import calibrate as command
from riobed.commands.calibrate import Search, calibrate, with_doses
from riobed.commands.run import Where
from riobed.crash.formats import Crash
from riobed.errors import UsageError
from riobed.plan import CampaignSpec, load_spec
from riobed.plan.dose import Stage, estimate, next_dose, stage_spec
from riobed.trial import TrialRecord
from riobed.trial.observe.watch import Observation
from riobed.trial.verdict import Verdict

RUNS = 16
TEXT = """# Why this campaign is run.
name: one  # and this stays
seed: 15
modes: [rio, write-through]
fault_classes: [kernel_text, none, pointer]
faults: 20  # the paper's
limit_s: 15
"""


def crash_rate(dose: int, half: float) -> float:
    """Twice the faults: three times the odds of a crash."""
    odds = (dose / half) ** 1.585
    return odds / (1 + odds)


def searched(half: float, seed: int) -> list[Stage]:
    """A search against that curve."""
    rng, stages = random.Random(seed), list[Stage]()
    while (dose := next_dose(stages)) and len(stages) < 6:
        crashes = sum(rng.random() < crash_rate(dose, half) for _ in range(RUNS))
        stages.append(Stage(dose, crashes, RUNS))
    return stages


@pytest.mark.parametrize(
    "half", [2, *(pytest.param(half, marks=pytest.mark.extended) for half in (6, 20)), 50]
)
def test_the_dose_is_found(half: float) -> None:
    found = [estimate(searched(half, seed)) for seed in range(100)]
    near = sum(0.3 <= crash_rate(each.dose, half) <= 0.7 for each in found)
    known = [each for each in found if each.low is not None and each.high is not None]
    held = sum((each.low or 0) <= half <= (each.high or 0) for each in known)
    assert near >= 90 and len(known) >= 95 and held >= 0.85 * len(known)


@pytest.mark.parametrize(("crashes", "tried", "dose"), [(RUNS, [20, 5, 1], 1), (0, [20, 80, 100], 100)])
def test_where_no_number_is_small_or_large_enough(crashes: int, tried: list[int], dose: int) -> None:
    stages: list[Stage] = []
    while each := next_dose(stages):
        stages.append(Stage(each, crashes, RUNS))
    assert [stage.dose for stage in stages] == tried
    assert (estimate(stages).dose, estimate(stages).half) == (dose, None)


def test_a_stage_has_trials_of_its_own() -> None:
    spec = make_spec(fault_classes=["kernel_text", "pointer"], seed=7, recovery_reset_s=(0, 1))
    stages = [stage_spec(spec, "rio", number, {"pointer": 3}, 5) for number in range(2)]
    assert len({spec.seed, *(stage.seed for stage in stages)}) == 3
    assert [stage.fault_count("pointer") for stage in stages] == [3, 3]
    # It is the same whatever dose is in the spec by then.
    again = spec.model_copy(update={"faults": {"pointer": 9}})
    assert stage_spec(again, "rio", 0, {"pointer": 3}, 5) == stages[0]
    # What is copied without a check must pass one.
    assert CampaignSpec.model_validate(stages[0].model_dump()) == stages[0]


def by_number_of_faults(guest: Any, spec: CampaignSpec, record: TrialRecord) -> None:
    """Of kernel_text six faults crash, of pointer one."""
    result(guest, spec, record)
    crashed = len(record.faults) >= {"kernel_text": 6, "pointer": 1}[record.planned.fault_class]
    if crashed:
        record.observation = Observation("hang", Crash("hang", "hang in iput"), 1.0, "running")
        record.verdict = Verdict("hang", "hang", "hang in iput", "none")
    else:
        record.observation = Observation("stuck", Crash("hang", "stuck"), 1.0, "running")
        record.verdict = Verdict("stuck", "hang", "stuck", "none")


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    world = World(monkeypatch, tmp_path)
    world.trial = by_number_of_faults

    def run_spec(spec: CampaignSpec, store: str, logs: Path | None, where: Where) -> None:
        world.campaign(spec).run(world.workers(spec, where.count), world.reported.append)

    monkeypatch.setattr(command, "run_spec", run_spec)
    return world


def calibrated(world: World, text: str, *, from_spec: bool = False) -> str:
    path = world.folder / "spec.yaml"
    path.write_text(text)
    calibrate(path, str(world.folder), Where(2), Search(trials=4, from_spec=from_spec), None)
    return path.read_text()


def test_doses_come_from_campaigns_and_go_into_the_spec(world: World) -> None:
    first = calibrated(world, TEXT)
    spec = load_spec(world.folder / "spec.yaml")
    assert spec.fault_count("pointer") == 1 and 5 <= spec.fault_count("kernel_text") <= 6
    assert first.startswith("# Why this campaign is run.\nname: one  # and this stays\n")
    assert first.endswith("limit_s: 15\n")
    kept = json.loads((world.folder / "doses.json").read_text())
    tried = kept["classes"]["kernel_text"]["stages"]
    assert [each["dose"] for each in tried[:2]] == [20, 5] and len(tried) == 6
    assert all(each["crashes"] == 4 * (each["dose"] >= 6) for each in tried) and kept["mode"] == "rio"
    assert [each["dose"] for each in kept["classes"]["pointer"]["stages"]] == [20, 5, 1]
    assert {row.mode for row in world.reported} == {"rio"}
    done = len(world.started)
    assert done == 4 * (6 + 3)
    # All is known by now: nothing is run again, and the file stays as it is.
    assert calibrated(world, first) == first and len(world.started) == done


def test_a_search_may_begin_with_the_doses_of_the_spec(world: World) -> None:
    text = TEXT.replace("faults: 20  # the paper's", "faults: {kernel_text: 3, pointer: 1}")
    calibrated(world, text, from_spec=True)
    kept = json.loads((world.folder / "doses.json").read_text())["classes"]
    tried = {name: [stage["dose"] for stage in found["stages"]] for name, found in kept.items()}
    assert tried["kernel_text"][:2] == [3, 12] and tried["pointer"] == [1]


def test_a_calibration_goes_on_where_it_was_stopped(world: World) -> None:
    def stop(guest: Any, position: int) -> None:
        if len(world.started) == 11:
            raise KeyboardInterrupt

    world.before = stop
    with pytest.raises(KeyboardInterrupt):
        calibrated(world, TEXT)
    assert (world.folder / "spec.yaml").read_text() == TEXT
    world.before = undisturbed
    calibrated(world, TEXT)
    assert len(world.reported) == 4 * (6 + 3)


@pytest.mark.parametrize(
    "text",
    [
        TEXT.replace("faults: 20  # the paper's\n", "faults:\n  # before\n  kernel_text: 3\n  pointer: 4\n"),
        TEXT.replace("faults: 20  # the paper's\n", ""),
        with_doses(TEXT, {"kernel_text": 9}, "mode rio", Path("s.yaml")),
    ],
)
def test_only_the_doses_of_a_spec_change(text: str) -> None:
    changed = with_doses(text, {"kernel_text": 3}, "mode rio", Path("s.yaml"))
    assert changed.count("By riobed calibrate") == 1 and "  kernel_text: 3\n" in changed
    assert all(line in changed for line in TEXT.splitlines() if "faults: 20" not in line)
    with pytest.raises(UsageError, match=r"s\.yaml: "):
        with_doses("{name: one, faults: 20}", {"kernel_text": 3}, "", Path("s.yaml"))
