# SPDX-License-Identifier: Apache-2.0
"""Tables of a study of traces: how one is declared, and how bytes, shares and times are written."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel
from riobed_caches.rows import Row, TraceRow

from riobed_results.errors import StoreError
from riobed_results.tables.framework.render import Grid, Page, csv_text, json_text
from riobed_results.tables.framework.table import FolderTable
from riobed_results.text import printable

Form = Literal["text", "bytes", "percent", "number", "ratio", "dollars"]
Value = str | float | None
R = TypeVar("R", bound=Row)
FOLDER_HELP = "Folder of 'riobed caches --out'."


class Column(BaseModel):
    """A column, and how its values are written. Values are bytes, shares of 1, numbers, ratios or dollars."""

    name: str
    form: Form = "text"


class Values(BaseModel):
    """One grid of values; None is what the trace cannot say."""

    title: str
    columns: list[Column]
    lines: list[list[Value]]


class StudyTable(BaseModel):
    """A table of a study; `warnings` say which trace cannot support it, and why."""

    traces: list[TraceRow]
    grids: list[Values]
    warnings: list[str] = []


class UnsupportedError(StoreError):
    """No trace of a study supports a table; `why` says why."""

    def __init__(self, folder: Path, why: str) -> None:
        super().__init__(f"study {folder}: {why}")
        self.why = why


@dataclass(frozen=True)
class Study:
    """The rows of a folder."""

    folder: Path
    traces: list[TraceRow]

    def rows(self, kind: type[R]) -> list[R]:
        """Return the rows of a kind; StoreError if the folder has no file of them, or a damaged one."""
        return _read(self.folder, kind)

    def able(self, *needs: str) -> tuple[set[str], list[str]]:
        """Return the names of the traces that have all that is needed, and why the others are left out."""
        lacking = {
            trace.trace: [need for need in needs if need not in trace.has.split("; ")]
            for trace in self.traces
        }
        why = [
            f"{name} is left out: it does not have {', '.join(lack)}."
            for name, lack in lacking.items()
            if lack
        ]
        return {name for name, lack in lacking.items() if not lack}, why


def is_study(folder: Path) -> bool:
    """Return whether a folder has the rows of a study."""
    return (folder / TraceRow.file).exists()


def read_study(folder: Path) -> Study:
    """Read the traces of a folder; StoreError if it is not that of a study."""
    return Study(folder, _read(folder, TraceRow))


def _read(folder: Path, kind: type[R]) -> list[R]:
    # pyarrow takes a third of a second to import, and most commands need none of it.
    from riobed_caches.errors import CachesError
    from riobed_caches.rowfiles import read_rows

    try:
        return read_rows(folder, kind)
    except CachesError as error:
        raise StoreError(str(error)) from None


@dataclass(frozen=True)
class Definition:
    """A table of a study: `build` makes its grids and warnings from the rows; the rest as in a Table."""

    name: str
    title: str
    help: str
    build: Callable[[Study], tuple[Sequence[Values], Sequence[str]]]
    note: str
    legend: Mapping[str, str] = field(default_factory=dict)


def study_table(definition: Definition) -> FolderTable[StudyTable]:
    """Make the table of a definition."""

    def compute(folder: Path) -> StudyTable:
        study = read_study(folder)
        return supported(study, *definition.build(study))

    return FolderTable(
        name=definition.name,
        title=definition.title,
        help=definition.help,
        compute=compute,
        page=lambda table: study_page(definition.note, definition.legend, table),
        folder_help=FOLDER_HELP,
    )


def supported(study: Study, grids: Sequence[Values], warnings: Sequence[str]) -> StudyTable:
    """Return the table of the grids that have lines; UnsupportedError if none has."""
    full = [grid for grid in grids if grid.lines]
    if not full:
        raise UnsupportedError(study.folder, " ".join(warnings) or "No trace has rows for this table.")
    return StudyTable(traces=study.traces, grids=full, warnings=list(warnings))


def study_page(note: str, legend: Mapping[str, str], table: StudyTable) -> Page:
    """Return the page of a table of a study, still without title."""
    named = (
        f"{trace.trace} ({trace.recorder}, {trace.seconds:.0f} s, {trace.events} events, "
        f"sha256 {trace.sha256[:12]})"
        for trace in table.traces
    )
    grids = [
        Grid(
            printable(grid.title),
            [printable(column.name) for column in grid.columns],
            [[text(v, c.form) for v, c in zip(line, grid.columns, strict=True)] for line in grid.lines],
            [],
        )
        for grid in table.grids
    ]
    source = printable(f"Traces: {', '.join(named)}.")
    cells = (
        [grid.title, number, column.name, value]
        for grid in table.grids
        for number, line in enumerate(grid.lines)
        for column, value in zip(grid.columns, line, strict=True)
    )
    csv = csv_text(["table", "line", "column", "value"], cells)
    warnings = [*losses(table.traces), *table.warnings]
    return Page(source, grids, note, csv, json_text(table), warnings=warnings, legend=legend)


def losses(traces: Sequence[TraceRow]) -> list[str]:
    """Return a line for each trace that lost events; it must stand above what was made of them."""
    return [f"{row.trace} lost {row.lost} of {row.events + row.lost} events." for row in traces if row.lost]


def text(value: Value, form: Form) -> str:
    """Return a value as people read it; - for None."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return printable(value)
    if form == "bytes":
        return size_text(value)
    if form == "percent":
        return f"{100 * value:.1f} %"
    if form == "ratio":
        return f"{value:.3g}"
    if form == "dollars":
        return f"{value:.2f}"
    return f"{value:.0f}"


def size_text(value: float) -> str:
    """Return a number of bytes with a unit, e.g. `512 KiB`."""
    units = ["TiB", "GiB", "MiB", "KiB", "B"]
    while (unit := units.pop()) and abs(value) >= 1024 and units:
        value /= 1024
    return f"{value:.0f} {unit}" if value >= 100 or value == int(value) else f"{value:.3g} {unit}"
