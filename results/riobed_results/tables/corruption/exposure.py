# SPDX-License-Identifier: Apache-2.0
"""Exposure: corruption against the share of RAM that the file cache had."""

import statistics
from collections.abc import Sequence

from pydantic import BaseModel

from riobed_results.stats.proportions import Share, share_of
from riobed_results.store import (
    CONTROLS,
    CampaignRow,
    Provenance,
    Results,
    Row,
    crashed,
    how_many,
    in_order,
    judged,
    numbers,
    stored_spec,
)
from riobed_results.tables.framework.render import Grid, Page, csv_text
from riobed_results.tables.framework.shares import UNKNOWN, CountedShare, count_text, interval_text
from riobed_results.tables.framework.table import CampaignTable, campaign_page
from riobed_results.text import printable

ALL = "all fault classes"


class Exposure(BaseModel):
    """One fault class in one mode: `runs` judged runs, of which `crashes` crashed, and what they corrupted.

    `arm` is the mode without the percentage that an arm has in its name, and `target` the share of RAM that
    the arm aimed at. `cache` has the smallest, median and largest share of RAM that the cache had, `dirty`
    the median of its dirty pages. `wrong_checksum` counts only runs of which checksums tell whether it was.
    """

    fault_class: str
    mode: str
    arm: str
    target: float | None
    runs: int
    crashes: int
    cache: tuple[float, float, float]
    dirty: float | None
    wrong_checksum: CountedShare
    corrupted: CountedShare


class ExposureTable(BaseModel):
    """The computed table: first the lines of all fault classes together, then those of each class."""

    campaign: str
    lines: list[Exposure]
    environment: Provenance


def exposed(row: Row) -> bool:
    """Whether this is a judged run with faults of which the cache's share of RAM is known."""
    return judged(row) and row.fault_class not in CONTROLS and not row.late and row.share_known


def exposure_table(results: Results) -> ExposureTable:
    """Compute the table of a campaign; StoreError if no run's share of RAM is known."""
    campaign, rows = results.campaign, results.groups("cache_share", "dirty_share", wants=exposed)
    if not rows:
        raise results.without("runs of which the file cache's share of RAM is known")
    targets = _targets(campaign)
    modes = in_order(campaign, "modes", (row.mode for row in rows))
    classes = in_order(campaign, "fault_classes", (row.fault_class for row in rows))
    lines = [
        _line(name, mode, targets.get(mode), found)
        for name in (ALL, *classes)
        for mode in modes
        if (found := [row for row in rows if row.mode == mode and name in (ALL, row.fault_class)])
    ]
    return ExposureTable(campaign=campaign.name, lines=lines, environment=campaign.provenance)


def _targets(campaign: CampaignRow) -> dict[str, float]:
    """Return the shares of RAM that modes of the spec aim at."""
    own = stored_spec(campaign).get("own_modes")
    found = {name: mode.get("cache_share") for name, mode in own.items()} if isinstance(own, dict) else {}
    return {name: share for name, share in found.items() if isinstance(share, float)}


def _line(fault_class: str, mode: str, target: float | None, rows: Sequence[Row]) -> Exposure:
    shares, dirty = numbers(rows, "cache_share"), numbers(rows, "dirty_share")
    checked = [row for row in rows if row.direct is not None]
    return Exposure(
        fault_class=fault_class,
        mode=mode,
        arm=mode if target is None else mode.removesuffix(f"-{round(100 * target)}pct"),
        target=target,
        runs=how_many(rows),
        crashes=how_many(filter(crashed, rows)),
        cache=(min(shares), statistics.median(shares), max(shares)),
        dirty=statistics.median(dirty) if dirty else None,
        wrong_checksum=_endpoint([row for row in checked if row.corruption == "direct"], checked),
        corrupted=_endpoint([row for row in rows if row.corruption != "none"], rows),
    )


def _endpoint(ended: Sequence[Row], rows: Sequence[Row]) -> CountedShare:
    count, total = how_many(ended), how_many(rows)
    return CountedShare(count=count, total=total, share=share_of(count, total))


NOTE = "Judged runs with faults, however they ended. Intervals: exact (Clopper and Pearson), 95 %."
LEGEND = {
    "Cache": "the file cache's share of RAM, median (smallest to largest). With a registry it is what that "
    "listed at the crash; in other modes what the kernel counted when the snapshot was taken, with the "
    "files of programs.",
    "Dirty": "the median of its dirty pages, which only memory has.",
    "Wrong checksum": "a file differs, and a checksum is wrong or the canary was hit; "
    "-: no checksums are kept.",
    "Corrupted": "a file differs, whatever the way.",
}


def exposure_page(table: ExposureTable) -> Page:
    """Return the page of the table; one fault class alone is not shown twice."""
    names = list(dict.fromkeys(line.fault_class for line in table.lines))
    shown = names[:1] if len(names) == 2 else names
    head = [
        "Mode",
        "Runs",
        "Crashes",
        "Cache, % of RAM",
        "Dirty",
        "Wrong checksum",
        "Interval",
        "Corrupted",
        "Interval",
    ]
    grids = [
        Grid(
            f"Exposure: {printable(name)}",
            head,
            [_cells(line) for line in table.lines if line.fault_class == name],
            [],
        )
        for name in shown
    ]
    return campaign_page(table, grids, NOTE, _csv(table), LEGEND)


def _cells(line: Exposure) -> list[str]:
    low, median, high = (f"{100 * share:.1f}" for share in line.cache)
    ends = (line.wrong_checksum, line.corrupted)
    cells = [count_text(end.count, end.total) if end.total else UNKNOWN for end in ends]
    return [
        printable(line.mode),
        str(line.runs),
        str(line.crashes),
        f"{median} ({low} to {high})",
        UNKNOWN if line.dirty is None else f"{100 * line.dirty:.1f}",
        *(cell for end, text in zip(ends, cells, strict=True) for cell in (text, interval_text(end.share))),
    ]


def _csv(table: ExposureTable) -> str:
    plain = ["fault_class", "mode", "arm", "target", "runs", "crashes"]
    shares = [
        f"{end}_{part}"
        for end in ("wrong_checksum", "corrupted")
        for part in ("count", "total", *Share.model_fields)
    ]
    lines = (
        [
            *(getattr(line, name) for name in plain),
            *line.cache,
            line.dirty,
            *(
                value
                for end in (line.wrong_checksum, line.corrupted)
                for value in (end.count, end.total, *end.share.model_dump().values())
            ),
        ]
        for line in table.lines
    )
    return csv_text([*plain, "cache_smallest", "cache_median", "cache_largest", "dirty", *shares], lines)


EXPOSURE = CampaignTable(
    name="exposure",
    title="Exposure",
    help="All corruption, and that with a wrong checksum, against the file cache's share of RAM.",
    compute=exposure_table,
    page=exposure_page,
    present=lambda rows: any(map(exposed, rows)),
    section="corruptions",
)
