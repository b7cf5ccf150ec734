# SPDX-License-Identifier: Apache-2.0
"""The corruption table: how often a crash left a file or directory wrong, by fault class and cache mode.

Its form is that of table 1 of Chen et al., "The Rio File Cache", ASPLOS 1996.
"""

from pydantic import BaseModel

from riobed_results.store.environment import Environment
from riobed_results.store.queries import (
    Counts,
    CrashesBySeed,
    Results,
    cell_counts,
    crashes_by_seed,
    in_order,
)
from riobed_results.tables.comparison import ALPHA, POWER, Comparison, ComparisonTable, compare
from riobed_results.tables.controls import CONTROLS, failed_controls, missing_controls
from riobed_results.tables.paper import Beside, beside_paper
from riobed_results.tables.proportions import CONFIDENCE, MeanTime, Share, corrupted_share, mean_time


class Row(BaseModel):
    """One fault class; `cells` has every mode of the table, also those without a trial."""

    fault_class: str
    cells: dict[str, Counts]


class Statistics(BaseModel):
    """What is computed from the totals, and where they were measured.

    `failed_controls` has a sentence for each; the campaign's numbers are not to be believed then.
    `missing_controls` has one if a control has not run in a mode that has crashes by faults.
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
    environment: Environment


class CorruptionTable(BaseModel):
    """The table as a program reads it; its keys are a contract."""

    campaign: str
    modes: list[str]
    rows: list[Row]
    totals: dict[str, Counts]
    statistics: Statistics


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
    totals = {mode: sum((row.cells[mode] for row in faulty), Counts()) for mode in modes}
    shares = {mode: corrupted_share(total) for mode, total in totals.items()}
    statistics = Statistics(
        totals=shares,
        mean_time={mode: mean_time(share) for mode, share in shares.items()},
        comparisons=compare(totals, _judged(results)),
        paper=beside_paper({row.fault_class: row.cells for row in faulty}, modes),
        failed_controls=failed_controls(results.rows),
        missing_controls=missing_controls(results),
        environment=Environment.model_validate(campaign, from_attributes=True),
    )
    return CorruptionTable(
        campaign=campaign.name, modes=modes, rows=rows, totals=totals, statistics=statistics
    )


def comparison_table(results: Results, power: float = POWER) -> ComparisonTable:
    """Compare the modes of a campaign; `power` is that of `crashes_needed`.

    Raises StoreError if there are no two modes, StoreUsageError if `power` is no probability.
    """
    table = corruption_table(results)
    if len(table.modes) < 2:
        raise results.without("two modes to compare")
    return ComparisonTable(
        campaign=table.campaign,
        power=power,
        comparisons=compare(table.totals, _judged(results), power),
        environment=table.statistics.environment,
    )


def _judged(results: Results) -> CrashesBySeed:
    return crashes_by_seed(row for row in results.rows if row.fault_class not in CONTROLS)
