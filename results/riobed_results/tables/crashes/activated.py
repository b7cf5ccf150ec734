# SPDX-License-Identifier: Apache-2.0
"""The dose that runs got: activated faults by fault class and mode, and the ratio between modes."""

import statistics
from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel

from riobed_results.errors import StoreUsageError
from riobed_results.rules.endpoints import result
from riobed_results.stats.ratios import MeanRatio, ratio_of_means
from riobed_results.store import (
    Group,
    Provenance,
    Results,
    Row,
    how_many,
    in_order,
    judged,
    kernel_of_faults,
    numbers,
)
from riobed_results.tables.framework.render import Grid, Page, csv_text
from riobed_results.tables.framework.shares import UNKNOWN
from riobed_results.tables.framework.table import CampaignTable, Option, campaign_page
from riobed_results.text import printable

BASE = "write-through"
Over = Annotated[
    str | None, Option(f"The cache mode over which ratios are: by default {BASE}, or else the first.")
]
NOTE = (
    "Faults that took effect in judged runs, until the run ended. Where modes got different doses, their "
    "corruptions do not compare them. Stores before schema 3 judged crashes alone."
)
LEGEND = {
    "Requested": "faults of a run, mean.",
    "Mean, Median": "activated faults of a run, of those that can be watched.",
    "Ratio": "mean over that of the base, of the pairs of runs with one class and seed, so with the same "
    "faults planned.",
    "95 % interval": "of Fieller (Journal of the Royal Statistical Society B 16, 1954). -: it has no end.",
}
HEAD = ["Fault class", "Mode", "Runs", "Requested", "Mean", "Median", "Ratio", "95 % interval", "Pairs"]


class Activated(BaseModel):
    """One fault class in one mode: `runs` judged runs, and faults a run.

    `over` is the ratio to the base; None of the base itself, without pairs, and where the base has none.
    """

    fault_class: str
    mode: str
    runs: int
    requested: float
    mean: float
    median: float
    over: MeanRatio | None


class ActivatedTable(BaseModel):
    """The lines by fault class, then by mode; ratios are over the mode `base`."""

    campaign: str
    base: str
    lines: list[Activated]
    environment: Provenance


def dosed(row: Row) -> bool:
    """Whether this is a judged run that was to have faults."""
    return result(row) and judged(row) and row.asked


def activated_table(results: Results, over: Over = None) -> ActivatedTable:
    """Compute the table of a campaign; StoreUsageError if `over` is none of its modes.

    Raises StoreError if no run with faults was judged.
    """
    campaign = results.campaign
    rows = results.groups("seed", "faults_activated", "requested", wants=dosed)
    if not rows:
        raise results.without("judged runs with faults")
    seen = dict.fromkeys(row.mode for row in rows)
    modes = [mode for mode in in_order(campaign, "modes", seen) if mode in seen]
    if over is not None and over not in modes:
        raise StoreUsageError(f"mode {over!r}: want one of {', '.join(modes)}")
    base = over or next((mode for mode in modes if mode.startswith(BASE)), modes[0])
    build = kernel_of_faults(campaign)
    lines = []
    for name in in_order(campaign, "fault_classes", (row.fault_class for row in rows)):
        of_mode = {
            mode: found
            for mode in modes
            if (found := [row for row in rows if (row.fault_class, row.mode) == (name, mode)])
        }
        doses = {
            mode: {
                (seed, build(row)): number
                for row in found
                for seed, number in zip(
                    numbers([row], "seed"), numbers([row], "faults_activated"), strict=True
                )
            }
            for mode, found in of_mode.items()
        }
        for mode, found in of_mode.items():
            pairs = _pairs(doses[mode], doses.get(base, {})) if mode != base else []
            lines.append(_line(name, mode, found, ratio_of_means(pairs)))
    return ActivatedTable(campaign=campaign.name, base=base, lines=lines, environment=campaign.provenance)


# Activated faults of a run by its seed and the kernel that they depend on.
_Doses = dict[tuple[str, str], int]


def _pairs(mine: _Doses, theirs: _Doses) -> list[tuple[float, float]]:
    return [(number, theirs[faults]) for faults, number in mine.items() if faults in theirs]


def _line(name: str, mode: str, rows: Sequence[Group], over: MeanRatio | None) -> Activated:
    activated = numbers(rows, "faults_activated")
    return Activated(
        fault_class=name,
        mode=mode,
        runs=how_many(rows),
        requested=statistics.fmean(numbers(rows, "requested")),
        mean=statistics.fmean(activated),
        median=statistics.median(activated),
        over=over,
    )


def activated_page(table: ActivatedTable) -> Page:
    """Return the page of the table."""
    title = f"Activated faults of a run, and the ratio to {printable(table.base)}"
    grid = Grid(title, HEAD, list(map(_cells, table.lines)), [])
    return campaign_page(table, [grid], NOTE, _csv(table), LEGEND)


def _cells(line: Activated) -> list[str]:
    over = line.over
    ends = (over.low, over.high) if over else (None, None)
    return [
        printable(line.fault_class),
        printable(line.mode),
        str(line.runs),
        f"{line.requested:g}",
        f"{line.mean:.2f}",
        f"{line.median:g}",
        f"{over.ratio:.2f}" if over else UNKNOWN,
        UNKNOWN if None in ends else "{:.2f} to {:.2f}".format(*ends),
        str(over.pairs) if over else UNKNOWN,
    ]


def _csv(table: ActivatedTable) -> str:
    plain = [name for name in Activated.model_fields if name != "over"]
    nothing = [None] * len(MeanRatio.model_fields)
    lines = (
        [
            *(getattr(line, name) for name in plain),
            *(line.over.model_dump().values() if line.over else nothing),
        ]
        for line in table.lines
    )
    return csv_text([*plain, *MeanRatio.model_fields], lines)


ACTIVATED = CampaignTable(
    name="activated",
    title="Activated faults",
    help="Faults that took effect, by class and mode, and whether each mode got the same dose.",
    compute=activated_table,
    page=activated_page,
    present=lambda rows: any(map(dosed, rows)),
    section="faults",
)
