# SPDX-License-Identifier: Apache-2.0
"""The table of fault classes: faults requested, injected and activated, and the trials' outcomes."""

import statistics
from collections.abc import Callable, Sequence

from pydantic import BaseModel

from riobed_results.store import (
    CONTROLS,
    Group,
    Provenance,
    Results,
    Row,
    crashed,
    how_many,
    in_order,
    judges_all,
    numbers,
    stored_spec,
)
from riobed_results.tables.framework.render import Grid, Page, csv_text
from riobed_results.tables.framework.shares import percent
from riobed_results.tables.framework.table import CampaignTable, campaign_page
from riobed_results.text import printable

NOTE = "Faults of trials that gave a result. The columns after Activated count trials."
LEGEND = {
    "Activated": "executed or used, of the faults that can be watched.",
    "Trials activated": "at least one of its faults was.",
    "Stuck": "the workload waits, the machine answers.",
    "Survived": "brought down at the limit.",
    "Steps made": "of those that survived, with as many steps after the last fault as the spec asks of a "
    "survivor (`survivor_steps`). The others were ended by time, or had no more steps to make.",
    "Seconds": "median from injection to the crash, by the trial's clock.",
    "Titles": "different crash titles.",
}
OLD_LEGEND = {"Discarded": "no crash within the limit, or given up early."}


class ClassLine(BaseModel):
    """One fault class in one mode; `median_s` is None if no trial crashed.

    `requested`, `injected`, `watched` and `activated` count faults; the other fields count trials.
    """

    trials: int
    requested: int
    injected: int
    watched: int
    activated: int
    trials_activated: int
    crashed: int
    hung: int
    stuck: int
    survived: int
    steps_made: int
    discarded: int
    infra_errors: int
    median_s: float | None
    titles: int


class ClassTable(BaseModel):
    """`lines` by mode and fault class; `totals` by mode over all fault classes.

    `asks_steps`: the spec ends survivors by steps.
    """

    campaign: str
    modes: list[str]
    fault_classes: list[str]
    lines: dict[str, dict[str, ClassLine]]
    totals: dict[str, ClassLine]
    environment: Provenance
    judges_all: bool
    asks_steps: bool


def class_table(results: Results) -> ClassTable:
    """Compute the table of a campaign; StoreError if no trial of it requested a fault."""
    campaign = results.campaign
    rows = results.groups("time_to_crash_s", sums=_SUMS, titles=True, wants=asked)
    if not rows:
        raise results.without("trials with faults")
    modes = in_order(campaign, "modes", (row.mode for row in rows))
    classes = in_order(campaign, "fault_classes", (row.fault_class for row in rows))
    cells: dict[tuple[str, str], list[Group]] = {}
    for row in rows:
        cells.setdefault((row.mode, row.fault_class), []).append(row)
    lines = {
        mode: {name: class_line(cells[mode, name]) for name in classes if (mode, name) in cells}
        for mode in modes
    }
    return ClassTable(
        campaign=campaign.name,
        modes=modes,
        fault_classes=[name for name in classes if any(name in of_mode for of_mode in lines.values())],
        lines=lines,
        totals={mode: class_line([row for row in rows if row.mode == mode]) for mode in modes},
        environment=campaign.provenance,
        judges_all=judges_all(rows),
        asks_steps=bool(stored_spec(campaign).get("survivor_steps")),
    )


_SUMS = ("requested", "faults_injected", "faults_watched", "faults_activated")


def asked(row: Row) -> bool:
    """Whether this trial requested faults; a planted change is not a fault."""
    return row.asked and row.fault_class not in CONTROLS


def class_line(rows: Sequence[Row]) -> ClassLine:
    """Count these trials, including infra errors."""
    results = [row for row in rows if row.outcome != "infra_error"]
    crashes = list(filter(crashed, results))
    seconds = numbers(crashes, "time_to_crash_s")
    return ClassLine(
        trials=how_many(results),
        requested=sum(numbers(results, "requested")),
        injected=sum(numbers(results, "faults_injected")),
        watched=sum(numbers(results, "faults_watched")),
        activated=sum(numbers(results, "faults_activated")),
        trials_activated=how_many(row for row in results if row.used),
        crashed=how_many(crashes),
        hung=how_many(row for row in crashes if row.crash_kind == "hang"),
        stuck=how_many(row for row in results if row.outcome == "stuck"),
        survived=how_many(row for row in results if row.outcome == "survived"),
        steps_made=how_many(row for row in results if row.ended_by == "steps made"),
        discarded=how_many(row for row in results if row.outcome == "discard"),
        infra_errors=how_many(rows) - how_many(results),
        median_s=round(statistics.median(seconds), 3) if seconds else None,
        titles=len({row.crash_title for row in crashes}),
    )


# The columns of the printed table; programs read the fields of ClassLine. Some are of some campaigns alone.
_COLUMNS: dict[str, Callable[[ClassLine], str]] = {
    "Requested": lambda line: str(line.requested),
    "Injected": lambda line: str(line.injected),
    "Activated": lambda line: percent(line.activated, line.watched),
    "Trials": lambda line: str(line.trials),
    "Trials activated": lambda line: percent(line.trials_activated, line.trials),
    "Crashed": lambda line: percent(line.crashed, line.trials),
    "of which hung": lambda line: str(line.hung),
    "Stuck": lambda line: percent(line.stuck, line.trials),
    "Survived": lambda line: percent(line.survived, line.trials),
    "Steps made": lambda line: percent(line.steps_made, line.survived),
    "Discarded": lambda line: percent(line.discarded, line.trials),
    "Seconds": lambda line: "-" if line.median_s is None else f"{line.median_s:.2f}",
    "Titles": lambda line: str(line.titles),
    "Infra errors": lambda line: str(line.infra_errors),
}


def class_page(table: ClassTable) -> Page:
    """Return the table's page, with a grid per mode."""
    grids = [_grid(mode, table) for mode in table.modes if table.lines[mode]]
    shown = {name: meaning for name, meaning in LEGEND.items() if name not in _hidden(table)}
    legend = shown | ({} if table.judges_all else OLD_LEGEND)
    return campaign_page(table, grids, NOTE, _csv(table), legend)


def _hidden(table: ClassTable) -> set[str]:
    """Return the columns that the campaign has not."""
    hidden = {"Discarded"} if table.judges_all else {"Stuck", "Survived"}
    return hidden if table.asks_steps else hidden | {"Steps made"}


def _grid(mode: str, table: ClassTable) -> Grid:
    columns = {name: text for name, text in _COLUMNS.items() if name not in _hidden(table)}

    def cells(name: str, line: ClassLine) -> list[str]:
        return [printable(name), *(text(line) for text in columns.values())]

    body = [cells(name, line) for name, line in table.lines[mode].items()]
    total = [cells("Total", table.totals[mode])] if len(body) > 1 else []
    return Grid(f"Mode {printable(mode)}", ["Fault class", *columns], body, total)


def _csv(table: ClassTable) -> str:
    lines = (
        [mode, name, *line.model_dump().values()]
        for mode, of_mode in table.lines.items()
        for name, line in of_mode.items()
    )
    return csv_text(["mode", "fault_class", *ClassLine.model_fields], lines)


FAULTS = CampaignTable(
    name="faults",
    title="Fault classes",
    help="What each fault class did: faults injected and activated, and what became of the trials.",
    compute=class_table,
    page=class_page,
    present=lambda rows: any(map(asked, rows)),
    section="faults",
)
