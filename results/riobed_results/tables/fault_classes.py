# SPDX-License-Identifier: Apache-2.0
"""The table of fault classes: faults requested, injected and activated, and the trials' outcomes."""

import statistics
from collections.abc import Callable

from pydantic import BaseModel

from riobed_results.store import Provenance, Results, TrialRow, in_order
from riobed_results.tables.controls import CONTROLS
from riobed_results.tables.proportions import percent
from riobed_results.tables.render import Grid, Page, csv_text, printable
from riobed_results.tables.table import CampaignTable, campaign_page

NOTE = (
    "Faults of trials that gave a result. Activated: executed or used, of those that can be watched; trials "
    "activated: at least one of its faults was. Crashed, of which hung, and discarded (no crash within the "
    "limit, or given up early): trials. Seconds: median from injection to the crash, on the host's clock. "
    "Titles: different crash titles."
)


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
    discarded: int
    infra_errors: int
    median_s: float | None
    titles: int


class ClassTable(BaseModel):
    """`lines` by mode and fault class; `totals` by mode over all fault classes."""

    campaign: str
    modes: list[str]
    fault_classes: list[str]
    lines: dict[str, dict[str, ClassLine]]
    totals: dict[str, ClassLine]
    environment: Provenance


def class_table(results: Results) -> ClassTable:
    """Compute the table of a campaign; StoreError if no trial of it requested a fault."""
    campaign = results.campaign
    rows = list(filter(asked, results.rows))
    if not rows:
        raise results.without("trials with faults")
    modes = in_order(campaign, "modes", (row.mode for row in rows))
    classes = in_order(campaign, "fault_classes", (row.fault_class for row in rows))
    lines = {
        mode: {name: class_line(found) for name in classes if (found := _of(rows, mode, name))}
        for mode in modes
    }
    return ClassTable(
        campaign=campaign.name,
        modes=modes,
        fault_classes=[name for name in classes if any(name in of_mode for of_mode in lines.values())],
        lines=lines,
        totals={mode: class_line([row for row in rows if row.mode == mode]) for mode in modes},
        environment=campaign.provenance,
    )


def asked(row: TrialRow) -> bool:
    """Whether this trial requested faults; a planted change is not a fault."""
    return row.requested > 0 and row.fault_class not in CONTROLS


def _of(rows: list[TrialRow], mode: str, fault_class: str) -> list[TrialRow]:
    return [row for row in rows if (row.mode, row.fault_class) == (mode, fault_class)]


def class_line(rows: list[TrialRow]) -> ClassLine:
    """Count these trials, including infra errors."""
    results = [row for row in rows if row.outcome != "infra_error"]
    crashes = [row for row in results if row.outcome == "crash"]
    faults = [fault for row in results for fault in row.faults]
    seconds = [row.time_to_crash_s for row in crashes if row.time_to_crash_s is not None]
    return ClassLine(
        trials=len(results),
        requested=sum(row.requested for row in results),
        injected=sum(fault.injected for fault in faults),
        watched=sum(fault.injected and fault.activated is not None for fault in faults),
        activated=sum(bool(fault.activated) for fault in faults),
        trials_activated=sum(any(fault.activated for fault in row.faults) for row in results),
        crashed=len(crashes),
        hung=sum(row.crash_kind == "hang" for row in crashes),
        discarded=len(results) - len(crashes),
        infra_errors=len(rows) - len(results),
        median_s=round(statistics.median(seconds), 3) if seconds else None,
        titles=len({row.crash_title for row in crashes}),
    )


# The columns of the printed table; programs read the fields of ClassLine.
_COLUMNS: dict[str, Callable[[ClassLine], str]] = {
    "Requested": lambda line: str(line.requested),
    "Injected": lambda line: str(line.injected),
    "Activated": lambda line: percent(line.activated, line.watched),
    "Trials": lambda line: str(line.trials),
    "Trials activated": lambda line: percent(line.trials_activated, line.trials),
    "Crashed": lambda line: percent(line.crashed, line.trials),
    "of which hung": lambda line: str(line.hung),
    "Discarded": lambda line: percent(line.discarded, line.trials),
    "Seconds": lambda line: "-" if line.median_s is None else f"{line.median_s:.2f}",
    "Titles": lambda line: str(line.titles),
    "Infra errors": lambda line: str(line.infra_errors),
}


def class_page(table: ClassTable) -> Page:
    """Return the table's page, with a grid per mode."""
    grids = [_grid(mode, table) for mode in table.modes if table.lines[mode]]
    return campaign_page(table, grids, NOTE, _csv(table))


def _grid(mode: str, table: ClassTable) -> Grid:
    body = [_cells(name, line) for name, line in table.lines[mode].items()]
    return Grid(
        f"Mode {printable(mode)}",
        ["Fault class", *_COLUMNS],
        body,
        [_cells("Total", table.totals[mode])] if len(body) > 1 else [],
    )


def _cells(name: str, line: ClassLine) -> list[str]:
    return [printable(name), *(text(line) for text in _COLUMNS.values())]


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
    every_fault=True,
)
