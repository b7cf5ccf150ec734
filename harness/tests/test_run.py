# SPDX-License-Identifier: Apache-2.0
"""What the terminal says of a campaign under way: counts, rate, and the time left."""

from types import SimpleNamespace
from typing import Any

import pytest
from harness_builders import recovery, spec
from rich.console import Console
from riobed.campaign.campaign import Cell
from riobed.commands import run
from riobed.commands.run import ProgressView, trials_left
from riobed_results.store.models import FaultRow, TrialRow

SPEC = spec(
    modes=["rio", "delayed"], fault_classes=["kernel_text"], crashes_per_cell=10, max_trials_per_cell=100
)


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


def row(outcome: Any, corruption: Any = None) -> TrialRow:
    return TrialRow(
        campaign_id=1,
        position=0,
        attempt=1,
        mode="rio",
        fault_class="kernel_text",
        seed="1",
        outcome=outcome,
        started="",
        finished="",
        corruption=corruption,
    )


def test_counts_rate_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """In half an hour 8 trials gave a result, 30 + 10 are left: 150 minutes at that rate."""
    cells = {("rio", "kernel_text"): Cell(20, 4), ("delayed", "kernel_text"): Cell(90, 9)}
    now = [1000.0]
    monkeypatch.setattr(run.time, "monotonic", lambda: now[0])
    campaign: Any = SimpleNamespace(cells=cells, missing=lambda: missing)
    missing: list[object] = []
    view = ProgressView(SPEC, campaign, "tcg")
    now[0] += 1800
    for outcome, corruption in [("crash", "none"), ("crash", "direct"), ("infra_error", None)]:
        view.count(row(outcome, corruption))
    for _ in range(4):
        view.count(row("discard"))
    for fault_class in ("none", "planted"):
        control = row("crash", "none")
        control.fault_class = fault_class
        view.count(control)
    console = Console(width=400, record=True)
    console.print(view)
    said = " ".join(console.export_text().split())
    assert "kernel_text │ 4 (20 trials) │ 9 (90 trials)" in said
    assert (
        "13 of 20 crashes (65%). In 30.0 min: 2 crashes (1 with corruption), 4 discards, "
        "2 trials of controls, 1 infra errors; 4 crashes an hour, about 2.5 h left" in said
    )
    # It may have 80 trials more: with the other's 10 90 at 16 an hour.
    cells["rio", "kernel_text"] = Cell(20, 0)
    console.print(view)
    assert "4 crashes an hour, at most 5.6 h left" in " ".join(console.export_text().split())
    missing.append("a trial")
    console.print(view)
    assert "1 infra errors (1 trials given up for now); 4 crashes" in " ".join(console.export_text().split())


@pytest.mark.parametrize(
    ("hours", "said"), [(0.5, "30 min"), (1.999, "120 min"), (2, "2.0 h"), (47.9, "47.9 h"), (60, "2.5 days")]
)
def test_a_long_time_is_said_in_hours_or_days(hours: float, said: str) -> None:
    assert run.span(hours) == said


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
def test_a_line_says_what_is_a_corruption_and_what_a_control(
    mode: str, fault_class: str, corruption: Any, says: str
) -> None:
    ended = row("crash", corruption)
    ended.mode, ended.fault_class = mode, fault_class
    ended.crash_kind, ended.crash_title, ended.time_to_crash_s = "reset", "title", 0.5
    ended.recovery = recovery(checksums={"intact": 1})
    if fault_class == "planted":
        ended.faults = [FaultRow(index=0, fault_class="planted", injected=True, params={"kind": "stray"})]
    assert run.describe(ended, 80).endswith(f"reset 0.5 s: title{says}")
    ended.crash_title = "page\nfault in " + "long_name" * 9
    short = run.describe(ended, 80)
    assert len(short) == 80 and short.endswith(f"…{says}") and "reset 0.5 s: page\\n" in short
