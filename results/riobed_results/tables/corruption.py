# SPDX-License-Identifier: Apache-2.0
"""The corruption table: how often a crash corrupted a file or directory, by fault class and cache mode.

It has the form of table 1 of Chen et al., "The Rio File Cache", ASPLOS 1996.
"""

from collections.abc import Callable, Iterator

from pydantic import BaseModel, Field

from riobed_results.store import Counts, Provenance, Results, cell_counts, in_order, kernels
from riobed_results.tables.comparison import (
    ALPHA,
    POWER,
    Comparison,
    compare,
    comparison_grid,
    comparison_note,
    fault_crashes,
    fault_totals,
)
from riobed_results.tables.controls import CONTROLS, failed_controls, losing_modes, missing_controls
from riobed_results.tables.paper import NOTE as PAPER_NOTE
from riobed_results.tables.paper import Beside, beside_paper, paper_grid
from riobed_results.tables.proportions import (
    CONFIDENCE,
    UNKNOWN,
    MeanTime,
    Share,
    corrupted_share,
    interval_text,
    mean_time,
    mean_time_text,
    total_text,
)
from riobed_results.tables.render import Grid, Page, csv_text, printable
from riobed_results.tables.table import CampaignTable, campaign_page

NOTE = (
    "Corruptions: crashes after which a file or directory differed from what it must be; blank: none, "
    "-: no crash counted. Totals: corruptions of crashes, with the exact (Clopper-Pearson) 95 % interval; "
    "years to a corruption: mean of a machine that crashes every two months, with the same interval. "
    "Controls are in no total: the negative one (none) changes nothing, the positive one (planted) changes "
    "one bit that the check must find; n of N: resets after which something differed. "
    "A discard (no crash within the limit, or given up early) and an infra error (our own failure, tried "
    "again) are in no denominator."
)


CONTROL_NAMES = {
    "none": "negative control (none)",
    "panic": "negative control (panic)",
    "planted": "positive control (planted)",
}


class Row(BaseModel):
    """One fault class; `cells` has every mode of the table, even those without a trial."""

    fault_class: str
    cells: dict[str, Counts]


class Statistics(BaseModel):
    """The statistics of the totals, and their provenance.

    `failed_controls` has a sentence for each failed control; the campaign's numbers then cannot be trusted.
    `missing_controls` has a sentence if a control has not run in a mode with crashes by faults.
    """

    interval: str = "Clopper-Pearson"
    confidence: float = CONFIDENCE
    totals: dict[str, Share]
    mean_time: dict[str, MeanTime]
    alpha: float = ALPHA
    power: float = POWER
    comparisons: list[Comparison]
    paper: Beside | None
    failed_controls: list[str]
    missing_controls: list[str]
    environment: Provenance
    # Build ids by mode for the note, if the campaign has them.
    kernels: dict[str, str] = Field(default_factory=dict, exclude=True)


class CorruptionTable(BaseModel):
    """The computed table; its keys are a stable interface. `rows` has the controls, `totals` does not."""

    campaign: str
    modes: list[str]
    rows: list[Row]
    totals: dict[str, Counts]
    statistics: Statistics

    @property
    def environment(self) -> Provenance:
        """The campaign's provenance."""
        return self.statistics.environment

    def of_faults(self) -> list[Row]:
        """Return the rows that are in the totals."""
        return [row for row in self.rows if row.fault_class not in CONTROLS]

    def of_controls(self) -> list[Row]:
        """Return the rows of controls."""
        return [row for row in self.rows if row.fault_class in CONTROLS]


def corruption_table(results: Results) -> CorruptionTable:
    """Compute the table of a campaign; StoreError if it has no trial yet."""
    campaign = results.campaign
    counts = cell_counts(results.rows)
    if not counts:
        raise results.without("trials yet")
    modes = in_order(campaign, "modes", (mode for mode, _ in counts))
    classes = in_order(campaign, "fault_classes", (fault_class for _, fault_class in counts))
    rows = [
        Row(fault_class=name, cells={mode: counts.get((mode, name), Counts()) for mode in modes})
        for name in classes
    ]
    faulty = [row for row in rows if row.fault_class not in CONTROLS]
    totals = fault_totals(results)
    shares = {mode: corrupted_share(total) for mode, total in totals.items()}
    statistics = Statistics(
        totals=shares,
        mean_time={mode: mean_time(share) for mode, share in shares.items()},
        comparisons=compare(totals, fault_crashes(results)),
        paper=beside_paper({row.fault_class: row.cells for row in faulty}, modes),
        failed_controls=failed_controls(results.rows, losing_modes(results.campaign)),
        missing_controls=missing_controls(results),
        environment=campaign.provenance,
        kernels=kernels(campaign),
    )
    return CorruptionTable(
        campaign=campaign.name, modes=modes, rows=rows, totals=totals, statistics=statistics
    )


def corruption_page(table: CorruptionTable) -> Page:
    """Return the page of the corruption table."""
    return campaign_page(table, grids(table), " ".join(_notes(table)), _csv(table))


def _notes(table: CorruptionTable) -> Iterator[str]:
    yield NOTE
    if table.statistics.comparisons:
        yield comparison_note(table.statistics.power, table.statistics.kernels)
    if table.statistics.paper:
        yield PAPER_NOTE


def cell_text(counts: Counts) -> str:
    """Return a cell in the paper's form: the number of corruptions, blank for none."""
    return UNKNOWN if not counts.crashes else str(counts.corrupted or "")


def grids(table: CorruptionTable) -> list[Grid]:
    """Return the grids: corruptions, controls, trials, comparisons, and the paper's numbers."""
    totals = [table.totals[mode] for mode in table.modes]
    shares = [table.statistics.totals[mode] for mode in table.modes]
    head = ["Fault class", *map(printable, table.modes)]

    def body(cell: Callable[[Counts], str]) -> list[list[str]]:
        return [
            [printable(row.fault_class), *(cell(row.cells[mode]) for mode in table.modes)]
            for row in table.of_faults()
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
    found = [Grid("Corruptions", head, body(cell_text), corruptions)]
    if table.of_controls():
        found.append(_controls_grid(table))
    found.append(Grid("Crashes + discards", head, body(_trials_text), trials))
    if table.statistics.comparisons:
        found.append(comparison_grid(table.statistics.comparisons))
    if table.statistics.paper:
        found.append(paper_grid(table.statistics.paper))
    return found


def _controls_grid(table: CorruptionTable) -> Grid:
    """Return the grid of controls, which are in no total: corruptions of resets, and discards if any."""
    body = [
        [CONTROL_NAMES[row.fault_class], *(_control_text(row.cells[mode]) for mode in table.modes)]
        for row in table.of_controls()
    ]
    return Grid("Controls", ["Control", *map(printable, table.modes)], body, [])


def _control_text(counts: Counts) -> str:
    discards = f" + {counts.discards} discards" if counts.discards else ""
    return (f"{counts.corrupted} of {counts.crashes}" if counts.crashes else UNKNOWN) + discards


def _trials_text(counts: Counts) -> str:
    return f"{counts.crashes} + {counts.discards}"


def _csv(table: CorruptionTable) -> str:
    """Return one CSV table: the paper's form in the columns named after modes, then the counts."""
    behind = ("crashes", "discards", "traps", "infra_errors")
    lines: list[list[object]] = []
    faults = [(row.fault_class, row.cells, cell_text) for row in table.of_faults()]
    controls = [(CONTROL_NAMES[row.fault_class], row.cells, cell_text) for row in table.of_controls()]
    for label, cells, form in [*faults, ("Total", table.totals, total_text), *controls]:
        of = [cells[mode] for mode in table.modes]
        lines.append([label, *map(form, of), *(getattr(c, name) for c in of for name in behind)])
    return csv_text(
        ["fault_class", *table.modes, *(f"{mode} {name}" for mode in table.modes for name in behind)], lines
    )


CORRUPTION = CampaignTable(
    name="corruption",
    title="Corruptions",
    help="How often a crash corrupted a file, by fault class and cache mode.",
    compute=corruption_table,
    page=corruption_page,
    present=lambda rows: any(row.fault_class not in CONTROLS for row in rows),
)
