# SPDX-License-Identifier: Apache-2.0
"""The time of trials with a result, in host seconds by phase."""

import statistics
from collections import defaultdict
from itertools import chain
from typing import Any

from pydantic import BaseModel

from riobed_results.store import CONTROLS, Group, Provenance, Results, Row, crashed, in_order, numbers
from riobed_results.tables.framework.render import Grid, Page, csv_text
from riobed_results.tables.framework.table import CampaignTable, campaign_page
from riobed_results.text import printable

WHOLE = "whole trial"
# How trials ended, with titles. Controls are apart: they are reset at once and would shorten crashes.
ENDINGS = {
    "crash": "Trials that ended in a crash",
    "stuck": "Trials whose workload was stuck",
    "survived": "Trials that survived and were brought down",
    "discard": "Trials that ended in a discard",
    "control": "Trials of controls (none, planted)",
}
NOTE = (
    "Host seconds: median (first to third quartile; number of trials). The whole trial is the sum of its "
    "phases, so its median is not the sum of theirs. Trials that began with a fresh boot are left out. "
    "The trial's clock does not run while a guest waits for a processor of the host, as it may in watch."
)


class Spread(BaseModel):
    """Seconds of `n` trials; quartiles by inclusive interpolation, equal to the median if n is 1."""

    n: int
    median: float
    q1: float
    q3: float


class PhaseTable(BaseModel):
    """`spreads` by ending, mode and phase; the last phase is the whole trial.

    `steal` has by mode how long guests waited for a processor of the host; empty if no row says so.
    """

    campaign: str
    modes: list[str]
    phases: list[str]
    spreads: dict[str, dict[str, dict[str, Spread]]]
    steal: dict[str, Spread]
    environment: Provenance


def phase_table(results: Results) -> PhaseTable:
    """Compute the phase times of a campaign; StoreError if it has no result."""
    campaign = results.campaign
    rows = results.groups("phase_seconds", "steal_s", wants=timed)
    if not rows:
        raise results.without("results yet")
    modes = in_order(campaign, "modes", (row.mode for row in rows))
    orders = dict.fromkeys(map(phases_of, rows))
    # A discard ends early, so the trial with the most phases gives the order.
    furthest = max(orders, key=lambda order: len(order))
    phases = [*dict.fromkeys(chain(furthest, *orders)), WHOLE]
    cells: defaultdict[tuple[str, str, str], list[Any]] = defaultdict(list)
    import numpy as np

    for row in rows:
        seconds = _seconds(row)
        for name, column in zip(
            (*phases_of(row), WHOLE), (*seconds, sum(seconds, np.zeros(row.weight))), strict=True
        ):
            cells[ending(row), row.mode, name].append(column)
    spreads = {
        g: {
            mode: {name: _spread(found) for name in phases if (found := cells.get((g, mode, name)))}
            for mode in modes
        }
        for g in ENDINGS
    }
    waited = {mode: numbers((row for row in rows if row.mode == mode), "steal_s") for mode in modes}
    return PhaseTable(
        campaign=campaign.name,
        modes=modes,
        phases=phases,
        spreads=spreads,
        steal={mode: _spread([np.array(seconds)]) for mode, seconds in waited.items() if seconds},
        environment=campaign.provenance,
    )


def phases_of(row: Row) -> tuple[str, ...]:
    """Return the names of a trial's phases; a restore that compared memory counts as a separate phase."""
    restore = "restore_checked" if row.restore_checked else "restore"
    return tuple(restore if name == "restore" else name for name in row.phase_names)


def _seconds(row: Group) -> Any:
    """Return an array for each phase, with the seconds of all trials."""
    import numpy as np

    if not row.phase_names:
        return []
    every = np.fromstring(" ".join(row.numbers["phase_seconds"]), sep=" ")
    return every.reshape(row.weight, len(row.phase_names)).T


def timed(row: Row) -> bool:
    """Whether the times of this trial count."""
    return row.outcome != "infra_error" and not row.fresh_boot


def ending(row: Row) -> str:
    """Return how a trial ended, a key of ENDINGS."""
    return "control" if row.fault_class in CONTROLS else "crash" if crashed(row) else row.outcome


def phase_page(table: PhaseTable) -> Page:
    """Return the page of the phase times."""
    head = ["Phase", *map(printable, table.modes)]
    grids = []
    for name, by_mode in table.spreads.items():
        lines = [
            [printable(phase), *(_cell(by_mode[mode].get(phase)) for mode in table.modes)]
            for phase in table.phases
            if any(phase in spreads for spreads in by_mode.values())
        ]
        if lines:
            grids.append(Grid(ENDINGS[name], head, lines[:-1], lines[-1:]))
    if table.steal:
        cells = [_cell(table.steal.get(mode)) for mode in table.modes]
        grids.append(Grid("All of these trials", head, [["waited for the host", *cells]], []))
    return campaign_page(table, grids, NOTE, _csv(table))


def _spread(columns: list[Any]) -> Spread:
    import numpy as np

    # Python takes seconds to sort a million numbers.
    values = np.sort(np.concatenate(columns)).tolist()
    q1, median, q3 = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return Spread(n=len(values), median=round(median, 3), q1=round(q1, 3), q3=round(q3, 3))


def _cell(spread: Spread | None) -> str:
    return f"{spread.median:.2f} ({spread.q1:.2f} to {spread.q3:.2f}; {spread.n})" if spread else ""


def _csv(table: PhaseTable) -> str:
    lines = (
        [name, mode, phase, *spread.model_dump().values()]
        for name, by_mode in table.spreads.items()
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
