# SPDX-License-Identifier: Apache-2.0
"""What the terminal says of a campaign under way: counts, rate, and the time left."""

from types import SimpleNamespace
from typing import Any

import pytest
from harness_builders import Clock, recovery, spec, trial_row
from rich.console import Console
from riobed.campaign.campaign import Cell
from riobed.commands import run
from riobed.commands.run import ProgressView, trials_left
from riobed.plan import campaign_vocabulary
from riobed_results.store import CONTROLS
from riobed_results.store.trial import FaultRow, TrialRow

SPEC = spec(modes=["rio", "delayed"], crashes_per_cell=10)
TOLD = campaign_vocabulary(SPEC)


@pytest.mark.parametrize(
    ("trials", "crashes", "left"),
    [
        (0, 0, 100),  # nothing is known: all it may have
        (20, 0, 80),
        (20, 4, 30),  # six are missing, one of five trials crashes
        (90, 4, 10),  # no more than it may have
        (40, 10, 0),
        (40, 12, 0),
        (100, 3, 0),
    ],
)
def test_trials_left_of_a_cell(trials: int, crashes: int, left: float) -> None:
    assert trials_left(Cell(trials, crashes), "kernel_text", SPEC) == left


def row(outcome: str, corruption: str | None = None, **fields: Any) -> TrialRow:
    return trial_row(outcome=outcome, corruption=corruption, **fields)


def test_counts_rate_and_time_left(clock: Clock) -> None:
    """In half an hour 8 trials gave a result, 30 + 10 are left: 150 minutes at that rate."""
    cells = {("rio", "kernel_text"): Cell(20, 4), ("delayed", "kernel_text"): Cell(90, 9)}
    campaign: Any = SimpleNamespace(cells=cells, missing=lambda: ["a trial"] * 77)
    view = ProgressView(SPEC, campaign, "tcg")
    clock.now += 1800
    assert view.hours_left() is None
    ended = [row("panic", "none"), row("hang", "direct"), row("infra_error"), row("stuck", "none")]
    ended += [row("survived", "none"), *[row("survived", "indirect")] * 2]
    for one in ended + [row("survived", "none", fault_class=name) for name in ("none", "planted")]:
        view.count(one)
    assert view.outcomes == {"crash": 2, "stuck": 1, "survived": 3, "infra_error": 1}
    assert +view.corrupted == {"crash": 1, "survived": 2} and view.controls == 2
    assert view.hours_left() == (pytest.approx(2.5), False)
    console = Console(width=400, record=True)
    console.print(view)
    said = console.export_text()
    # Crashes and trials of each cell; trials given up.
    assert all(part in said for part in ("4 (20 ", "9 (90 ", "77", "2.5 h"))
    # It may have 80 trials more: with the other's 10 90 at 16 an hour.
    cells["rio", "kernel_text"] = Cell(20, 0)
    assert view.hours_left() == (pytest.approx(90 / 16), True)


def test_a_long_time_is_said_in_hours_or_days() -> None:
    hours = [0.5, 1.999, 2, 47.9, 60]
    assert [run.span(each) for each in hours] == ["30 min", "120 min", "2.0 h", "47.9 h", "2.5 days"]


@pytest.mark.parametrize(
    ("mode", "fault_class", "corruption", "says"),
    [
        ("rio", "kernel_text", "direct", "  CORRUPTION"),
        ("rio", "kernel_text", "none", ""),
        ("rio", "none", "none", ""),
        ("rio", "none", "indirect", "  CONTROL FAILED"),
        ("delayed", "none", "unclassified", "  unclassified (expected)"),
        ("delayed", "none", "none", ""),
        ("rio", "planted", "direct", "  direct (expected)"),
        ("rio", "planted", "indirect", "  CONTROL FAILED"),
        ("rio", "planted", "none", "  CONTROL FAILED"),
    ],
)
def test_a_line_says_what_a_corruption_is(mode: str, fault_class: str, corruption: Any, says: str) -> None:
    died = {"crash_kind": "reset", "crash_title": "title", "time_to_crash_s": 0.5}
    outcome = "survived" if fault_class in CONTROLS else "panic"
    ended = row(outcome, corruption, mode=mode, fault_class=fault_class, **died)
    ended.recovery = recovery(checksums={"intact": 1})
    if fault_class == "planted":
        ended.faults = [FaultRow(index=0, fault_class="planted", injected=True, params={"kind": "stray"})]
    what = "reset" if outcome == "panic" else outcome
    assert run.describe(ended, 90, TOLD).endswith(f"{what} 0.5 s: title{says}")
    ended.crash_title = "page\nfault in " + "long_name" * 9
    short = run.describe(ended, 80, TOLD)
    assert len(short) == 80 and short.endswith(f"…{says}") and " 0.5 s: pag" in short


@pytest.mark.parametrize(("mode", "says"), [("delayed", "  lost 3 steps"), ("rio", "  CONTROL FAILED")])
def test_a_line_says_how_many_steps_are_lost(mode: str, says: str) -> None:
    died = {"crash_kind": "reset", "crash_title": "power lost", "time_to_crash_s": 0.5}
    ended = row("survived", "none", mode=mode, fault_class="none", steps_lost=3, **died)
    assert run.describe(ended, 90, TOLD).endswith(f"power lost{says}")
