# SPDX-License-Identifier: Apache-2.0
"""The corruption table: how often a crash left a file or directory wrong, by fault class and cache mode.

Its form is that of table 1 of Chen et al., "The Rio File Cache", ASPLOS 1996.
"""

from pydantic import BaseModel

from riobed_results.environment import Environment
from riobed_results.errors import StoreError
from riobed_results.queries import Counts, cell_counts, in_order
from riobed_results.store import Store

CONFIDENCE = 0.95
# Classes that inject nothing: rows of the table, but no part of its totals.
CONTROLS = frozenset({"none", "planted"})


class Row(BaseModel):
    """One fault class; `cells` has every mode of the table, also those without a trial."""

    fault_class: str
    cells: dict[str, Counts]


class Share(BaseModel):
    """The share of crashes that corrupted something, with its interval; None where no crash was counted."""

    share: float | None = None
    low: float | None = None
    high: float | None = None


class Statistics(BaseModel):
    """What is computed from the totals, and where they were measured."""

    interval: str = "Clopper-Pearson"
    confidence: float = CONFIDENCE
    totals: dict[str, Share]
    environment: Environment


class CorruptionTable(BaseModel):
    """The table as a program reads it; its keys are a contract."""

    campaign: str
    modes: list[str]
    rows: list[Row]
    totals: dict[str, Counts]
    statistics: Statistics


def corruption_table(store: Store, campaign_name: str | None = None) -> CorruptionTable:
    """Compute the table of a campaign (None: the latest) from stored rows alone.

    Raises StoreError if the campaign has no trial yet, StoreUsageError if there is no such campaign.
    """
    campaign = store.campaign(campaign_name)
    counts = cell_counts(store, campaign.id)
    if not counts:
        raise StoreError(f"store {store.location.name}: campaign {campaign.name!r} has no trials yet")
    modes = in_order(campaign, "modes", (mode for mode, _ in counts))
    classes = in_order(campaign, "fault_classes", (fault_class for _, fault_class in counts))
    rows = [
        Row(fault_class=name, cells={mode: counts.get((mode, name), Counts()) for mode in modes})
        for name in classes
    ]
    faulty = [row for row in rows if row.fault_class not in CONTROLS]
    totals = {mode: sum((row.cells[mode] for row in faulty), Counts()) for mode in modes}
    statistics = Statistics(
        totals={mode: corrupted_share(total) for mode, total in totals.items()},
        environment=Environment.model_validate(campaign, from_attributes=True),
    )
    return CorruptionTable(
        campaign=campaign.name, modes=modes, rows=rows, totals=totals, statistics=statistics
    )


def corrupted_share(counts: Counts) -> Share:
    """Return corrupted / crashes with its exact interval (Clopper and Pearson, Biometrika 26, 1934)."""
    if not counts.crashes:
        return Share()
    from scipy.stats import binomtest  # a second to import, and `riobed --help` should not pay it

    test = binomtest(counts.corrupted, counts.crashes)
    interval = test.proportion_ci(confidence_level=CONFIDENCE, method="exact")
    return Share(share=counts.corrupted / counts.crashes, low=float(interval.low), high=float(interval.high))
