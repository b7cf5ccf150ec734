# SPDX-License-Identifier: Apache-2.0
"""The corruption table: how often a crash corrupted a file or directory, by fault class and cache mode.

It has the form of table 1 of Chen et al., "The Rio File Cache", ASPLOS 1996. As there, its totals count
crashes: machines that went down by themselves. Beside them is a block for each way a trial can end.
"""

import statistics
from collections.abc import Callable, Iterator, Sequence

from pydantic import BaseModel, Field

from riobed_results.rules.controls import failed_controls, missing_controls, powerless
from riobed_results.stats.proportions import CONFIDENCE, MeanTime, Share, mean_time
from riobed_results.stats.two_shares import ALPHA, POWER
from riobed_results.store import (
    CONTROLS,
    LOSSES_OF_POWER,
    CellCounts,
    Group,
    Provenance,
    Results,
    cell_counts,
    crashes_by_seed,
    how_many,
    in_order,
    judged,
    judges_all,
    kernels,
    numbers,
)
from riobed_results.store import (
    Row as Trials,
)
from riobed_results.tables.corruption.comparison import (
    Comparison,
    compare,
    comparison_grid,
    comparison_legend,
    fault_totals,
    kernel_note,
)
from riobed_results.tables.framework.render import Grid, Page, csv_text
from riobed_results.tables.framework.shares import (
    UNKNOWN,
    corrupted_share,
    interval_text,
    mean_time_text,
    total_text,
)
from riobed_results.tables.framework.table import CampaignTable, campaign_page
from riobed_results.tables.paper.table1 import LEGEND as PAPER_LEGEND
from riobed_results.tables.paper.table1 import Beside, beside_paper, paper_grid
from riobed_results.text import printable

NOTE = (
    "Every run is judged: reset, recovered and checked. Infra errors (our own failure, tried again) are in "
    "no denominator."
)
OLD_NOTE = (
    "A discard (no crash within the limit, or given up early) and an infra error (our own failure, tried "
    "again) are in no denominator."
)
LEGEND = {
    "Corruptions": "crashes after which a file or directory was not as it must be; blank: none, -: no crash.",
    "Total": "corruptions of crashes, with the exact (Clopper-Pearson) 95 % interval.",
    "Years to a corruption": "mean of a machine that crashes every two months, with the same interval.",
    "Controls": "are in no total: none (negative) changes nothing, planted (positive) changes one bit that "
    "the check must find. n of N: resets after which something differed.",
}
# Of campaigns whose every run is judged.
ENDS_LEGEND = {
    "after a panic": "also an oops, a protection trap, a reset of the processor. The totals count panics and "
    "hangs.",
    "after a hang": "of the machine.",
    "stuck": "the workload waits, the machine answers.",
    "survived": "brought down at the limit.",
}
LOSS_LEGEND = {
    "Judged by": "what the mode promises. Each step: all that the workload had reported must be there. What "
    "was synced: that must be there, and all else in a state that it had since. Any step: all files must be "
    "as after the same step.",
    "Files, bytes": "of the newest state of the workload's model, not there, wrong or older: median of all "
    "judged runs with faults, then the most. What no promise covers is lost without a corruption.",
    "Seconds": "from the report of the first step that is not there to that of the last (-: not known).",
}
POWER_NOTE = (
    "{} of the trials were followed by a loss of power and not by a reset: what was in memory alone is lost "
    "(table power)."
)
PROMISES = {"steps": "each step", "synced": "what was synced"}
LOST = ("files_lost", "bytes_lost", "seconds_lost")
# The blocks, with their titles.
OUTCOMES = {
    "panic": "Corruptions after a panic",
    "hang": "Corruptions after a hang",
    "stuck": "Corruptions of stuck workloads (in no total)",
    "survived": "Corruptions of machines that survived and were brought down (in no total)",
}


CONTROL_NAMES = {
    "none": "negative control (none)",
    "panic": "negative control (panic)",
    "planted": "positive control (planted)",
}


Cells = dict[tuple[str, str], CellCounts]


class Row(BaseModel):
    """One fault class; `cells` has every mode of the table, even those without a trial."""

    fault_class: str
    cells: dict[str, CellCounts]


class Loss(BaseModel):
    """What judged runs of a mode with faults lost of the newest state; None: not known.

    `promises` are those that the `runs` were judged by. The rest are numbers of files and bytes, and seconds.
    """

    promises: list[str]
    runs: int
    files_median: float | None
    files_most: int | None
    bytes_median: float | None
    bytes_most: int | None
    seconds_median: float | None
    seconds_most: float | None


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
    """The computed table; its keys are a stable interface. `rows` has the controls, `totals` does not.

    `rows` and `totals` count crashes. `outcomes` has the same rows for each way to end, without the controls;
    there, all judged trials that ended so count as `crashes`. It is empty unless `judges_all`.
    """

    campaign: str
    modes: list[str]
    rows: list[Row]
    totals: dict[str, CellCounts]
    outcomes: dict[str, list[Row]]
    losses: dict[str, Loss]
    judges_all: bool
    # Trials whose crash was followed by a loss of power.
    power_losses: int = Field(default=0, exclude=True)
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
    cells = cell_counts(results.trials)
    if not cells:
        raise results.without("trials yet")
    modes = in_order(campaign, "modes", (mode for mode, _ in cells))
    classes = in_order(campaign, "fault_classes", (fault_class for _, fault_class in cells))
    rows = _rows(classes, modes, cells)
    faulty = [row for row in rows if row.fault_class not in CONTROLS]
    totals = fault_totals(results)
    shares = {mode: corrupted_share(total) for mode, total in totals.items()}
    statistics = Statistics(
        totals=shares,
        mean_time={mode: mean_time(share) for mode, share in shares.items()},
        comparisons=compare(totals, crashes_by_seed(results)),
        paper=beside_paper({row.fault_class: row.cells for row in faulty}, modes),
        failed_controls=failed_controls(results.trials, results.campaign.vocabulary),
        missing_controls=missing_controls(results),
        environment=campaign.provenance,
        kernels=kernels(campaign),
    )
    return CorruptionTable(
        campaign=campaign.name,
        modes=modes,
        rows=rows,
        totals=totals,
        outcomes=_outcomes(results.trials, classes, modes),
        losses=_losses(results, modes),
        judges_all=judges_all(results.trials),
        power_losses=how_many(filter(powerless, results.trials)),
        statistics=statistics,
    )


def _rows(classes: list[str], modes: list[str], cells: Cells) -> list[Row]:
    return [
        Row(fault_class=name, cells={mode: cells.get((mode, name), CellCounts()) for mode in modes})
        for name in classes
    ]


def _outcomes(rows: Sequence[Trials], classes: list[str], modes: list[str]) -> dict[str, list[Row]]:
    """Return the counts by outcome, of the outcomes that occurred."""
    ended = {
        outcome: [row for row in rows if row.outcome == outcome and row.fault_class not in CONTROLS]
        for outcome in OUTCOMES
    }
    faulty = [name for name in classes if name not in CONTROLS]
    return {
        outcome: _rows(faulty, modes, cell_counts(found, lambda row: not row.late))
        for outcome, found in ended.items()
        if found
    }


def promise_of(row: Trials) -> str:
    """Return the promise that a judged run was judged by, in words.

    Stores before schema 8 do not say it: there it was each step or, after a loss of power in modes that said
    so, any one step.
    """
    if row.promise is None:
        return "any step" if row.restart in LOSSES_OF_POWER and row.lost_steps else "each step"
    return PROMISES[row.promise]


def _losses(results: Results, modes: list[str]) -> dict[str, Loss]:
    rows = results.groups(
        *LOST, wants=lambda row: judged(row) and row.fault_class not in CONTROLS and not row.late
    )
    return {mode: _loss([row for row in rows if row.mode == mode]) for mode in modes}


def _loss(rows: Sequence[Group]) -> Loss:
    known = {name: numbers(rows, name) for name in LOST}
    if len(known["seconds_lost"]) < len(known["files_lost"]):
        # Known of runs that lost nothing alone: the others would seem to have lost nothing, too.
        known["seconds_lost"] = []
    values = {
        f"{name.removesuffix('_lost')}_{what}": of(found) if found else None
        for name, found in known.items()
        for what, of in (("median", statistics.median), ("most", max))
    }
    return Loss(promises=sorted({promise_of(row) for row in rows}), runs=how_many(rows), **values)


def corruption_page(table: CorruptionTable) -> Page:
    """Return the page of the corruption table."""
    legend = LEGEND | LOSS_LEGEND | (ENDS_LEGEND if table.judges_all else {})
    if table.statistics.comparisons:
        legend |= comparison_legend(table.statistics.power)
    if table.statistics.paper:
        legend |= PAPER_LEGEND
    return campaign_page(table, grids(table), " ".join(_notes(table)), _csv(table), legend)


def _notes(table: CorruptionTable) -> Iterator[str]:
    yield NOTE if table.judges_all else OLD_NOTE
    if table.power_losses:
        yield POWER_NOTE.format(table.power_losses)
    if table.statistics.comparisons and (said := kernel_note(table.statistics.kernels)):
        yield said


def cell_text(counts: CellCounts) -> str:
    """Return a cell in the paper's form: the number of corruptions, blank for none."""
    return UNKNOWN if not counts.crashes else str(counts.corrupted or "")


def grids(table: CorruptionTable) -> list[Grid]:
    """Return the grids: corruptions, those by outcome, controls, trials, comparisons, the paper's numbers."""
    totals = [table.totals[mode] for mode in table.modes]
    shares = [table.statistics.totals[mode] for mode in table.modes]
    head = ["Fault class", *map(printable, table.modes)]

    def trials(counts: CellCounts) -> str:
        return ends_text(counts, table.judges_all)

    def body(cell: Callable[[CellCounts], str]) -> list[list[str]]:
        return [
            [printable(row.fault_class), *(cell(row.cells[mode]) for mode in table.modes)]
            for row in table.of_faults()
        ]

    corruptions = [
        ["Total (panic + hang)" if table.judges_all else "Total", *map(total_text, totals)],
        ["95 % interval", *map(interval_text, shares)],
        ["Years to a corruption", *map(mean_time_text, table.statistics.mean_time.values())],
    ]
    trial_totals = [
        ["Total", *map(trials, totals)],
        ["Protection traps", *(str(total.traps) for total in totals)],
        ["Infra errors", *(str(total.infra_errors) for total in totals)],
    ]
    found = [Grid("Corruptions", head, body(cell_text), corruptions)]
    found += [_outcome_grid(table.modes, OUTCOMES[name], rows) for name, rows in table.outcomes.items()]
    if any(loss.runs for loss in table.losses.values()):
        found.append(_loss_grid(table))
    if table.of_controls():
        found.append(_controls_grid(table))
    title = "Crashes + stuck + survived" if table.judges_all else "Crashes + discards"
    found.append(Grid(title, head, body(trials), trial_totals))
    if table.statistics.comparisons:
        found.append(comparison_grid(table.statistics.comparisons))
    if table.statistics.paper:
        found.append(paper_grid(table.statistics.paper))
    return found


def _loss_grid(table: CorruptionTable) -> Grid:
    """Return the block of what runs lost, also without a corruption."""
    losses = [table.losses[mode] for mode in table.modes]
    body = [
        ["Judged by", *(", ".join(loss.promises) or UNKNOWN for loss in losses)],
        ["Files: median, most", *(_two(loss.files_median, loss.files_most) for loss in losses)],
        ["Bytes: median, most", *(_two(loss.bytes_median, loss.bytes_most) for loss in losses)],
        ["Seconds: median, most", *(_two(loss.seconds_median, loss.seconds_most) for loss in losses)],
    ]
    return Grid("Lost by judged runs", ["", *map(printable, table.modes)], body, [])


def _two(median: float | None, most: float | None) -> str:
    return UNKNOWN if median is None or most is None else f"{round(median, 1):g}, {round(most, 1):.10g}"


def _outcome_grid(modes: list[str], title: str, rows: list[Row]) -> Grid:
    """Return the block of one outcome: corruptions of the trials that ended so."""
    totals = [sum((row.cells[mode] for row in rows), CellCounts()) for mode in modes]
    body = [[printable(row.fault_class), *(_of_text(row.cells[mode]) for mode in modes)] for row in rows]
    foot = [
        ["Total", *map(total_text, totals)],
        ["95 % interval", *(interval_text(corrupted_share(total)) for total in totals)],
    ]
    return Grid(title, ["Fault class", *map(printable, modes)], body, foot)


def _of_text(counts: CellCounts) -> str:
    return f"{counts.corrupted} of {counts.crashes}" if counts.crashes else UNKNOWN


def _controls_grid(table: CorruptionTable) -> Grid:
    """Return the grid of controls, which are in no total: corruptions of resets, and discards if any."""
    body = [
        [CONTROL_NAMES[row.fault_class], *(_control_text(row.cells[mode]) for mode in table.modes)]
        for row in table.of_controls()
    ]
    return Grid("Controls", ["Control", *map(printable, table.modes)], body, [])


def _control_text(counts: CellCounts) -> str:
    discards = f" + {counts.discards} discards" if counts.discards else ""
    return _of_text(counts) + discards


def ends_text(counts: CellCounts, judges_all: bool) -> str:
    """Return how many trials ended in which way, in the words that hold for the campaign."""
    others = (counts.stuck, counts.survived) if judges_all else (counts.discards,)
    return " + ".join(map(str, (counts.crashes, *others)))


def _csv(table: CorruptionTable) -> str:
    """Return one CSV table: the paper's form in the columns named after modes, then the counts."""
    behind = ("crashes", "stuck", "survived", "discards", "traps", "infra_errors")
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
