# SPDX-License-Identifier: Apache-2.0
"""List the rows of a campaign, as JSON with every stored column or as a readable table."""

import json
import textwrap
from collections.abc import Iterable, Iterator
from io import StringIO
from itertools import islice
from typing import get_args

from rich.console import Console
from rich.table import Table
from rich.text import Text

from riobed_results.export.follows import follows
from riobed_results.rules.clock import CRASH_NOTE, crash_moment
from riobed_results.store import MECHANISM, CorruptionWhere, Group, Results, Row, TrialRow, values
from riobed_results.text import printable

_AT_ONCE = 1000  # rows that are laid out together
_LONGEST_PLACE = max(get_args(CorruptionWhere), key=len)
_FACTS = ("mode", "fault class", "outcome", "crash", "corruption")


def trials_json(campaign: str, rows: Iterable[TrialRow]) -> Iterator[str]:
    """Write a JSON array with an object per row: `campaign`, every column, what `follows`, and `faults`."""
    before = "[\n"
    for row in rows:
        faults = list(map(values, row.faults))
        trial = {"campaign": campaign, **values(row), **follows(row), "faults": faults}
        yield before + textwrap.indent(json.dumps(trial, indent=1), " ")
        before = ",\n"
    yield "\n]\n"


def trials_text(results: Results, width: int) -> Iterator[str]:
    """Write a table of the rows, at most `width` characters wide, and what its times are.

    A row's `id` in the database is left out, because commands and logs identify a trial by its position.
    """
    widths = _widths(results.trials)
    left = results.stream()
    first = True
    while some := list(islice(left, _AT_ONCE)):
        table = Table(box=None, header_style="bold", pad_edge=False, show_header=first)
        for name in ("position", "attempt"):
            table.add_column(name, justify="right", no_wrap=True, min_width=len(name))
        for name, wide in zip(_FACTS, widths, strict=True):
            table.add_column(name, no_wrap=True, min_width=wide)
        table.add_column("activated", justify="right", no_wrap=True, min_width=9)
        table.add_column("to crash", justify="right", no_wrap=True, min_width=8)
        table.add_column("title or detail")
        for row in some:
            table.add_row(*(Text(printable(cell)) for cell in _cells(row)))
        out = StringIO()
        Console(file=out, width=width).print(table)
        yield "".join(line.rstrip() + "\n" for line in out.getvalue().splitlines())
        first = False
    yield f"\nto crash: seconds {CRASH_NOTE}\n"


def _widths(trials: list[Group]) -> list[int]:
    """Return the widths of columns with facts of trials: the same in each part of a long table."""
    cells = [_FACTS, *(_facts(trial, _LONGEST_PLACE) for trial in trials)]
    return [max(map(len, column)) for column in zip(*cells, strict=True)]


def _facts(row: Row, place: str | None) -> tuple[str, ...]:
    return row.mode, row.fault_class, row.outcome, row.crash_kind or "", _corruption(row, place)


def _corruption(row: Row, place: str | None) -> str:
    """Say whether files differ; beside it what checksums say and the place, where they are known."""
    if row.corruption in (None, "none"):
        return "" if row.corruption is None else "no"
    how = None if row.corruption == "unclassified" else MECHANISM[str(row.corruption)]
    beside = ", ".join(filter(None, (how, place)))
    return f"yes ({beside})" if beside else "yes"


def _cells(row: TrialRow) -> tuple[str, ...]:
    return (
        str(row.position),
        str(row.attempt),
        *_facts(row, row.corruption_where),
        f"{row.activated} of {row.injected}",
        str(crash_moment(row) or ""),
        row.crash_title or row.detail,
    )
