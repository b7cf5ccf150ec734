# SPDX-License-Identifier: Apache-2.0
"""The table of a sweep: operations of the file system, crashed at each store to what Rio lists."""

from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel

from riobed_results.store import SERIES, Provenance
from riobed_results.tables.controls.rows import load_rows, save_rows
from riobed_results.tables.framework.render import Grid, Page, csv_text, json_text, source_text
from riobed_results.tables.framework.table import FolderTable
from riobed_results.text import printable

FILE = "sweep.json"
# The fields that must be equal to go on with a sweep.
SAME_SWEEP = (*SERIES, "workload", "mode", "copy_step", "memory_mib", "disk_mib")
HEAD = ["Operation", "Cases", "Crash points", "States compared", "Unexplained", "Verdict"]
# Of rows that are not of a recovery, and that are.
GRIDS = {"Operations": False, "Recovery from operations": True}
NOTE = "One row an operation."
LEGEND = {
    "Cases": "what disk and memory had of the files when it began, and what a second task did beside it.",
    "Crash points": "stores into the registry or a page that it lists, while the operation ran; of a "
    "recovery, its writes to the disk.",
    "States compared": "the memories at these points that differ for a recovery: each was recovered, and "
    "the whole tree compared.",
    "Unexplained": "states that were not recovered, or whose tree is neither that before nor that after the "
    "operation, nor documented in between.",
}
# A state has one line for each path that is wrong.
MAX_LINES = 40


class SweepProvenance(Provenance):
    """The provenance of a sweep, and what was requested. Sizes in MiB.

    Of the stores of a copy, which are one behind the other, each `copy_step`-th was a crash.
    """

    mode: str
    memory_mib: int
    disk_mib: int
    copy_step: int


class SweepRow(BaseModel, extra="forbid"):
    """One case: an operation with what was in memory, and beside it.

    With `recovery` the crash points are the writes of a recovery after it, and not its stores. `said` has the
    first lines about the states that are unexplained.
    """

    operation: str
    data: str
    beside: str
    vcpus: int
    recovery: bool = False
    points: int = 0
    compared: int = 0
    unexplained: int = 0
    said: list[str] = []
    seconds: float = 0
    infra_error: str | None = None
    finished: str = ""

    @property
    def good(self) -> bool:
        """Whether all states of the case are explained."""
        return bool(self.compared) and not self.unexplained and not self.infra_error


class Sweep(BaseModel, extra="forbid"):
    """A whole sweep."""

    environment: SweepProvenance
    rows: list[SweepRow] = []


def load_sweep(folder: Path) -> Sweep:
    """Read the sweep in a folder; StoreError if there is none or it cannot be read."""
    return load_rows(folder / FILE, Sweep, "sweep")


def save_sweep(folder: Path, sweep: Sweep) -> None:
    """Write the sweep atomically; StoreError if it cannot be written."""
    save_rows(folder / FILE, sweep, "sweep")


def sweep_page(sweep: Sweep) -> Page:
    """Return the page of a sweep."""
    on = sweep.environment
    what = f"sweep (mode {on.mode}, {on.memory_mib} MiB of memory, {on.disk_mib} MiB of disk"
    step = f", 1 of {on.copy_step} of the stores of a copy" if on.copy_step > 1 else ""
    grids = [_grid(title, [row for row in sweep.rows if row.recovery == of]) for title, of in GRIDS.items()]
    return Page(
        source_text(f"{what}{step})", on),
        [grid for grid in grids if grid.body],
        NOTE,
        _csv(sweep),
        json_text(sweep),
        legend=LEGEND,
    )


def _grid(title: str, rows: list[SweepRow]) -> Grid:
    operations = list(dict.fromkeys(row.operation for row in rows))
    lines = [_line(name, [row for row in rows if row.operation == name]) for name in operations]
    return Grid(title, HEAD, lines, [_line("Total", rows)])


def verdict(rows: Iterable[SweepRow]) -> str:
    """Return the verdict in a few words: good, or the first finding."""
    bad = next((row for row in rows if not row.good), None)
    if not bad:
        return "good"
    if bad.infra_error:
        return "infra error"
    return printable(bad.said[0]) if bad.said else "nothing compared"


def _line(name: str, rows: list[SweepRow]) -> list[str]:
    numbers = (
        len(rows),
        sum(row.points for row in rows),
        sum(row.compared for row in rows),
        sum(row.unexplained for row in rows),
    )
    return [printable(name), *map(str, numbers), verdict(rows)]


def _csv(sweep: Sweep) -> str:
    fields = [
        "operation",
        "data",
        "beside",
        "vcpus",
        "recovery",
        "points",
        "compared",
        "unexplained",
        "seconds",
    ]
    lines = ([*(getattr(row, name) for name in fields), verdict([row])] for row in sweep.rows)
    return csv_text([*fields, "verdict"], lines)


SWEEP = FolderTable(
    name="sweep",
    title="Sweep",
    help="Whether a crash at each store of an operation leaves a tree as before or as after.",
    compute=load_sweep,
    page=sweep_page,
    folder_help="Folder of the sweep.",
)
