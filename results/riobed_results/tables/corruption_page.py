# SPDX-License-Identifier: Apache-2.0
"""The corruption table as a page."""

from collections.abc import Callable, Iterator

from riobed_results.store.queries import Counts
from riobed_results.tables.comparison import comparison_grid, comparison_note
from riobed_results.tables.corruption import CorruptionTable
from riobed_results.tables.paper import NOTE as PAPER_NOTE
from riobed_results.tables.paper import paper_grid
from riobed_results.tables.proportions import UNKNOWN, interval_text, mean_time_text, total_text
from riobed_results.tables.render import Grid, Page, csv_text, printable, source_text

NOTE = (
    "Corruptions: crashes after which a file or directory differed from what it must be; blank: none, "
    "-: no crash counted. Totals: corruptions of crashes, with the exact (Clopper-Pearson) 95 % interval; "
    "years to a corruption: mean of a machine that crashes every two months, with the same interval. "
    "Rows none and planted are controls, and in no total. "
    "A discard (no crash within the limit, or given up early) and an infra error (our own failure, tried "
    "again) are in no denominator."
)


def corruption_page(table: CorruptionTable) -> Page:
    """Return the corruption table for people and programs."""
    return Page(
        title=f"Corruption table of {table.campaign}",
        source=source_text(table.campaign, table.statistics.environment),
        grids=grids(table),
        note=" ".join(_notes(table)),
        csv=_csv(table),
        json=table.model_dump_json(indent=2) + "\n",
    )


def _notes(table: CorruptionTable) -> Iterator[str]:
    yield NOTE
    if table.statistics.comparisons:
        yield comparison_note(table.statistics.power)
    if table.statistics.paper:
        yield PAPER_NOTE


def cell_text(counts: Counts) -> str:
    """Return a cell of the paper's form: the number of corruptions, blank for none."""
    return UNKNOWN if not counts.crashes else str(counts.corrupted or "")


def grids(table: CorruptionTable) -> list[Grid]:
    """Return the tables for people: corruptions, the trials behind them, what follows from them."""
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
        ["Years to a corruption", *map(mean_time_text, table.statistics.mean_time.values())],
    ]
    trials = [
        ["Total", *map(_trials_text, totals)],
        ["Protection traps", *(str(total.traps) for total in totals)],
        ["Infra errors", *(str(total.infra_errors) for total in totals)],
    ]
    found = [
        Grid("Corruptions", head, body(cell_text), corruptions),
        Grid("Crashes + discards", head, body(_trials_text), trials),
    ]
    if table.statistics.comparisons:
        found.append(comparison_grid(table.statistics.comparisons))
    if table.statistics.paper:
        found.append(paper_grid(table.statistics.paper))
    return found


def _trials_text(counts: Counts) -> str:
    return f"{counts.crashes} + {counts.discards}"


def _csv(table: CorruptionTable) -> str:
    """One table: the paper's form in the columns named like the modes, then the counts behind it."""
    behind = ("crashes", "discards", "traps", "infra_errors")
    lines: list[list[object]] = []
    labelled = [(row.fault_class, row.cells, cell_text) for row in table.rows]
    for label, cells, form in [*labelled, ("Total", table.totals, total_text)]:
        of = [cells[mode] for mode in table.modes]
        lines.append([label, *map(form, of), *(getattr(c, name) for c in of for name in behind)])
    return csv_text(
        ["fault_class", *table.modes, *(f"{mode} {name}" for mode in table.modes for name in behind)], lines
    )
