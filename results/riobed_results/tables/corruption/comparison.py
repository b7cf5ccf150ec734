# SPDX-License-Identifier: Apache-2.0
"""Compare cache modes: do they differ in the proportion of crashes with corruption?"""

from itertools import combinations
from typing import Annotated

from pydantic import BaseModel, Field

from riobed_results.errors import StoreUsageError
from riobed_results.stats.two_shares import ALPHA, POWER, crashes_needed, fisher_p, mcnemar_p
from riobed_results.store import (
    CONTROLS,
    CellCounts,
    CrashesBySeed,
    Provenance,
    Results,
    cell_counts,
    crashes_by_seed,
    in_order,
    kernels,
)
from riobed_results.tables.framework.render import Grid, Page, csv_text
from riobed_results.tables.framework.shares import UNKNOWN, p_text, side_by_side
from riobed_results.tables.framework.table import CampaignTable, Option, campaign_page
from riobed_results.text import printable

Power = Annotated[float, Option("Power of Fisher's test, for the crashes needed.")]
NOTE = "Crashes by faults in two modes."
HEAD = ["Modes", "Fisher's p", "Pairs", "Only first", "Only second", "McNemar's p", "Crashes needed"]


class Comparison(BaseModel):
    """Two modes. p-values are two-sided; None if there is nothing to compare.

    `pairs` counts pairs of trials with the same planned faults that crashed in both modes. `both`,
    `only_first` and `only_second` count the pairs with corruption in both modes or in one only.
    `crashes_needed` is a number per mode.
    """

    first: str
    second: str
    fisher_p: float | None
    pairs: int
    both: int
    only_first: int
    only_second: int
    mcnemar_p: float | None
    crashes_needed: int | None


class ComparisonTable(BaseModel):
    """All pairs of modes; `crashes_needed` holds for this `power` and `alpha`."""

    campaign: str
    alpha: float = ALPHA
    power: float
    comparisons: list[Comparison]
    environment: Provenance
    # Build ids by mode for the note, if the campaign has them.
    kernels: dict[str, str] = Field(default_factory=dict, exclude=True)


def comparison_table(results: Results, power: Power = POWER) -> ComparisonTable:
    """Compare the modes of a campaign; `crashes_needed` is computed for `power`.

    Raises StoreError if there are fewer than two modes, StoreUsageError if `power` is out of range.
    """
    totals = fault_totals(results)
    if len(totals) < 2:
        raise results.without("two modes to compare")
    return ComparisonTable(
        campaign=results.campaign.name,
        power=power,
        comparisons=compare(totals, crashes_by_seed(results), power),
        environment=results.campaign.provenance,
        kernels=kernels(results.campaign),
    )


def fault_totals(results: Results) -> dict[str, CellCounts]:
    """Return the counts of each mode over its fault classes, without the controls."""
    cells = cell_counts(results.trials)
    totals = {mode: CellCounts() for mode in in_order(results.campaign, "modes", (mode for mode, _ in cells))}
    for (mode, fault_class), cell in cells.items():
        if fault_class not in CONTROLS:
            totals[mode] += cell
    return totals


def compare(totals: dict[str, CellCounts], crashes: CrashesBySeed, power: float = POWER) -> list[Comparison]:
    """Compare all pairs of modes in `totals`; StoreUsageError if `power` is not between ALPHA and 1."""
    if not ALPHA < power < 1:
        raise StoreUsageError(f"power {power:g}: want a number between {ALPHA} and 1, as 0.8")
    return [
        _compare(totals, crashes, first, second, power) for first, second in combinations(list(totals), 2)
    ]


def _compare(
    totals: dict[str, CellCounts], crashes: CrashesBySeed, first: str, second: str, power: float
) -> Comparison:
    mine, theirs = crashes.get(first, {}), crashes.get(second, {})
    pairs = [(mine[key], theirs[key]) for key in mine.keys() & theirs.keys()]
    only_first, only_second = pairs.count((True, False)), pairs.count((False, True))
    both = side_by_side(totals[first], totals[second])
    return Comparison(
        first=first,
        second=second,
        fisher_p=fisher_p(both),
        pairs=len(pairs),
        both=pairs.count((True, True)),
        only_first=only_first,
        only_second=only_second,
        mcnemar_p=mcnemar_p(only_first, only_second) if pairs else None,
        crashes_needed=crashes_needed(both, power),
    )


def comparison_page(table: ComparisonTable) -> Page:
    """Return the page of the comparisons."""
    grid = comparison_grid(table.comparisons)
    legend = comparison_legend(table.power)
    return campaign_page(table, [grid], f"{NOTE} {kernel_note(table.kernels)}".rstrip(), _csv(table), legend)


def comparison_grid(comparisons: list[Comparison]) -> Grid:
    """Return a grid with a line per pair of modes."""
    return Grid("Modes compared", HEAD, [_cells(comparison) for comparison in comparisons], [])


def comparison_legend(power: float) -> dict[str, str]:
    """Return what the columns of such a grid are."""
    return {
        "Fisher's p": "of Fisher's exact test on the totals. p-values are two-sided and not corrected for "
        "their number.",
        "Pairs": "trials of one fault class and seed, so with the same faults planned, that gave a crash in "
        "both modes. Heap, stack, allocation, copy_overrun and synchronization take what they hit at run "
        "time, which may differ.",
        "Only first, only second": "pairs with a corruption in that mode alone.",
        "McNemar's p": "of McNemar's exact test on the pairs.",
        "Crashes needed": f"about so many in each mode for Fisher's test to find p < {ALPHA} with "
        f"probability {power:g} if the shares are as they seem. -: nothing to compare, or equal shares.",
    }


def kernel_note(kernels: dict[str, str]) -> str:
    """Say which modes run on which kernel and what that means for pairs; "" if all share one kernel."""
    groups: dict[str, list[str]] = {}
    for mode, build in kernels.items():
        groups.setdefault(build, []).append(mode)
    if len(groups) < 2:
        return ""
    told = "; ".join(f"{', '.join(modes)}: build {build[:12]}" for build, modes in groups.items())
    return printable(
        f"Modes run on different kernels ({told}). Text faults are drawn from each kernel's own text, so "
        "they differ. Modes of different kernels are paired only in classes that act at run time: "
        "heap, stack, allocation, copy_overrun and synchronization."
    )


def _cells(comparison: Comparison) -> list[str]:
    counts = (comparison.pairs, comparison.only_first, comparison.only_second)
    needed = comparison.crashes_needed
    return [
        printable(f"{comparison.first}, {comparison.second}"),
        p_text(comparison.fisher_p),
        *map(str, counts),
        p_text(comparison.mcnemar_p),
        UNKNOWN if needed is None else str(needed),
    ]


def _csv(table: ComparisonTable) -> str:
    return csv_text(
        Comparison.model_fields, (comparison.model_dump().values() for comparison in table.comparisons)
    )


COMPARISON = CampaignTable(
    name="comparison",
    title="Cache modes",
    help="Whether cache modes differ, and how many crashes it takes to say so.",
    compute=comparison_table,
    page=comparison_page,
    present=lambda rows: (
        len({row.mode for row in rows}) > 1 and any(row.fault_class not in CONTROLS for row in rows)
    ),
)
