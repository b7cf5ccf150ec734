# SPDX-License-Identifier: Apache-2.0
"""The corruption table as a page."""

import csv
import io
from collections.abc import Callable

from riobed_results.corruption import CorruptionTable, Share
from riobed_results.queries import Counts
from riobed_results.render import Grid, Page, printable, source_text

NO_CRASH = "-"  # in the place of a count that rests on no crash at all; a blank means none of some
NOTE = (
    "Corruptions: crashes after which a file or directory differed from what it must be; blank: none, "
    "-: no crash counted. Totals: corruptions of crashes, with the exact (Clopper-Pearson) 95 % interval. "
    "A discard (no crash within the limit) and an infra error (our own failure, tried again) are in no "
    "denominator."
)


def corruption_page(table: CorruptionTable) -> Page:
    """Return the corruption table for people and programs."""
    return Page(
        title=f"Corruption table of {table.campaign}",
        source=source_text(table.campaign, table.statistics.environment),
        grids=grids(table),
        note=NOTE,
        csv=_csv(table),
        json=table.model_dump_json(indent=2) + "\n",
    )


def cell_text(counts: Counts) -> str:
    """Return a cell of the paper's form: the number of corruptions, blank for none."""
    return NO_CRASH if not counts.crashes else str(counts.corrupted or "")


def total_text(counts: Counts) -> str:
    """Return `n of N (p %)` over crashes, without the percentage if there was no crash."""
    share = f" ({counts.corrupted / counts.crashes:.1%})".replace("%", " %") if counts.crashes else ""
    return f"{counts.corrupted} of {counts.crashes}{share}"


def interval_text(share: Share) -> str:
    """Return an interval in per cent, e.g. `0.5 to 2.2 %`."""
    if share.low is None or share.high is None:
        return NO_CRASH
    return f"{share.low * 100:.1f} to {share.high * 100:.1f} %"


def grids(table: CorruptionTable) -> list[Grid]:
    """Return the two tables for people: corruptions, and the numbers of trials behind them."""
    totals = [table.totals[mode] for mode in table.modes]
    shares = [table.statistics.totals[mode] for mode in table.modes]
    head = ["Fault class", *map(printable, table.modes)]

    def body(cell: Callable[[Counts], str]) -> list[list[str]]:
        return [
            [printable(row.fault_class), *(cell(row.cells[mode]) for mode in table.modes)]
            for row in table.rows
        ]

    corruptions = [
        ["Total", *map(total_text, totals)],
        ["95 % interval", *map(interval_text, shares)],
    ]
    trials = [
        ["Total", *map(_trials_text, totals)],
        ["Protection traps", *(str(total.traps) for total in totals)],
        ["Infra errors", *(str(total.infra_errors) for total in totals)],
    ]
    return [
        Grid("Corruptions", head, body(cell_text), corruptions),
        Grid("Crashes + discards", head, body(_trials_text), trials),
    ]


def _trials_text(counts: Counts) -> str:
    return f"{counts.crashes} + {counts.discards}"


def _csv(table: CorruptionTable) -> str:
    """One table: the paper's form in the columns named like the modes, then the counts behind it."""
    behind = ("crashes", "discards", "traps", "infra_errors")
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["fault_class", *table.modes, *(f"{m} {name}" for m in table.modes for name in behind)])
    lines = [(row.fault_class, row.cells, cell_text) for row in table.rows]
    for label, cells, form in [*lines, ("Total", table.totals, total_text)]:
        of = [cells[mode] for mode in table.modes]
        writer.writerow([label, *map(form, of), *(getattr(c, name) for c in of for name in behind)])
    return out.getvalue()
