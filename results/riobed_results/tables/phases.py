# SPDX-License-Identifier: Apache-2.0
"""The time of trials with a result, in host seconds by phase."""

import statistics
from collections.abc import Iterable
from itertools import chain

from pydantic import BaseModel

from riobed_results.store import Provenance, Results, TrialRow, in_order
from riobed_results.tables.controls import CONTROLS
from riobed_results.tables.render import Grid, Page, csv_text, printable
from riobed_results.tables.table import CampaignTable, campaign_page

WHOLE = "whole trial"
# The groups of trials, with titles. Controls are apart: they are reset at once and would shorten crashes.
GROUPS = {
    "crash": "Trials that ended in a crash",
    "discard": "Trials that ended in a discard",
    "control": "Trials of controls (none, planted)",
}
NOTE = (
    "Host seconds: median (first to third quartile; number of trials). The whole trial is the sum of its "
    "phases, so its median is not the sum of theirs. Trials that began with a fresh boot are left out."
)


class Spread(BaseModel):
    """Seconds of `n` trials; quartiles by inclusive interpolation, equal to the median if n is 1."""

    n: int
    median: float
    q1: float
    q3: float


class PhaseTable(BaseModel):
    """`spreads` by group, mode and phase; the last phase is the whole trial."""

    campaign: str
    modes: list[str]
    phases: list[str]
    spreads: dict[str, dict[str, dict[str, Spread]]]
    environment: Provenance


def phase_table(results: Results) -> PhaseTable:
    """Compute the phase times of a campaign; StoreError if it has no result."""
    campaign = results.campaign
    rows = list(filter(timed, results.rows))
    if not rows:
        raise results.without("results yet")
    modes = in_order(campaign, "modes", (row.mode for row in rows))
    times = list(map(seconds, rows))
    # A discard ends early, so the trial with the most phases gives the order.
    furthest = max(times, key=len)
    phases = [*dict.fromkeys(chain(furthest, *times)), WHOLE]
    cells: dict[tuple[str, str], list[dict[str, float]]] = {(g, mode): [] for g in GROUPS for mode in modes}
    for row, of_row in zip(rows, times, strict=True):
        cells[_group(row), row.mode].append(of_row)
    spreads = {group: {mode: _spreads(phases, cells[group, mode]) for mode in modes} for group in GROUPS}
    environment = campaign.provenance
    return PhaseTable(
        campaign=campaign.name, modes=modes, phases=phases, spreads=spreads, environment=environment
    )


def seconds(row: TrialRow) -> dict[str, float]:
    """Return the seconds of a trial's phases; a restore that compared memory counts as a separate phase."""
    name = "restore_checked" if row.restore_checked else "restore"
    return {name if phase == "restore" else phase: value for phase, value in row.phases.items()}


def timed(row: TrialRow) -> bool:
    """Whether the times of this trial count."""
    return row.outcome != "infra_error" and not row.fresh_boot


def _group(row: TrialRow) -> str:
    return "control" if row.fault_class in CONTROLS else row.outcome


def phase_page(table: PhaseTable) -> Page:
    """Return the page of the phase times."""
    head = ["Phase", *map(printable, table.modes)]
    grids = []
    for group, by_mode in table.spreads.items():
        lines = [
            [printable(phase), *(_cell(by_mode[mode].get(phase)) for mode in table.modes)]
            for phase in table.phases
            if any(phase in spreads for spreads in by_mode.values())
        ]
        if lines:
            grids.append(Grid(GROUPS[group], head, lines[:-1], lines[-1:]))
    return campaign_page(table, grids, NOTE, _csv(table))


def _spreads(phases: Iterable[str], trials: list[dict[str, float]]) -> dict[str, Spread]:
    found = {name: [trial[name] for trial in trials if name in trial] for name in phases}
    found[WHOLE] = [sum(trial.values()) for trial in trials]
    return {name: _spread(values) for name, values in found.items() if values}


def _spread(values: list[float]) -> Spread:
    q1, median, q3 = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return Spread(n=len(values), median=round(median, 3), q1=round(q1, 3), q3=round(q3, 3))


def _cell(spread: Spread | None) -> str:
    return f"{spread.median:.2f} ({spread.q1:.2f} to {spread.q3:.2f}; {spread.n})" if spread else ""


def _csv(table: PhaseTable) -> str:
    lines = (
        [group, mode, phase, *spread.model_dump().values()]
        for group, by_mode in table.spreads.items()
        for mode, spreads in by_mode.items()
        for phase, spread in spreads.items()
    )
    return csv_text(["group", "mode", "phase", *Spread.model_fields], lines)


PHASES = CampaignTable(
    name="phases",
    title="Phase times",
    help="Where a trial's time goes, by phase and cache mode.",
    compute=phase_table,
    page=phase_page,
    present=lambda rows: any(map(timed, rows)),
    section="phases",
    about_faults=False,
)
