# SPDX-License-Identifier: Apache-2.0
"""List the rows of a campaign, as JSON with every stored column or as a readable table."""

import json
from io import StringIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from riobed_results.store import TrialRow, follows, values
from riobed_results.tables.render import printable


def trials_json(campaign: str, rows: list[TrialRow]) -> str:
    """Return a JSON array with an object per row: `campaign`, every column, what `follows`, and `faults`."""
    trials = [
        {"campaign": campaign, **values(row), **follows(row), "faults": list(map(values, row.faults))}
        for row in rows
    ]
    return json.dumps(trials, indent=1) + "\n"


def trials_text(rows: list[TrialRow], width: int) -> str:
    """Return a table of the rows, at most `width` characters wide; times are in seconds.

    A row's `id` in the database is left out, because commands and logs identify a trial by its position.
    """
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("position", "attempt"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("mode", "fault class", "outcome", "crash", "corruption"):
        table.add_column(name, no_wrap=True)
    table.add_column("activated", justify="right", no_wrap=True)
    table.add_column("to crash", justify="right", no_wrap=True)
    table.add_column("title or detail")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in _cells(row)))
    out = StringIO()
    Console(file=out, width=width).print(table)
    return "".join(line.rstrip() + "\n" for line in out.getvalue().splitlines())


def _cells(row: TrialRow) -> tuple[str, ...]:
    place = f" ({row.corruption_where})" if row.corruption_where else ""
    return (
        str(row.position),
        str(row.attempt),
        row.mode,
        row.fault_class,
        row.outcome,
        row.crash_kind or "",
        (row.corruption or "") + place,
        f"{row.activated} of {row.injected}",
        "" if row.time_to_crash_s is None else f"{row.time_to_crash_s:.2f}",
        row.crash_title or row.detail,
    )
