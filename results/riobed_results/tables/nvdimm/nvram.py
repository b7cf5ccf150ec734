# SPDX-License-Identifier: Apache-2.0
"""Machines with an NVDIMM: what each kind of crash did to files and to the canary, by mode."""

import statistics
from collections.abc import Sequence
from itertools import product
from typing import Literal

from pydantic import BaseModel

from riobed_results.rules.controls import planted
from riobed_results.stats.proportions import Share, share_of
from riobed_results.store import (
    CONTROLS,
    CampaignRow,
    Provenance,
    Results,
    Row,
    how_many,
    in_order,
    judged,
    numbers,
    stored_spec,
)
from riobed_results.tables.framework.render import Grid, Page, csv_text
from riobed_results.tables.framework.shares import UNKNOWN, count_text, interval_text
from riobed_results.tables.framework.table import CampaignTable, campaign_page
from riobed_results.text import printable

Crash = Literal["reset", "power", "power-lines"]
CRASHES: tuple[Crash, ...] = ("reset", "power", "power-lines")


class NvdimmRow(BaseModel):
    """The judged runs of a mode that ended in one kind of crash, with `faults` or without.

    `corrupted` are those after which a file differed. In `canary` of the runs there was a canary; it was hit
    in `canary_hit` of them, and in `hit_alone` no file differed then. In `trapped` the kernel died of a
    store that protection stopped. `steps_lost` and `seconds_lost`: median and most, of the runs whose files
    are as after some step; `lines_*`: of those whose emulator knew which lines of the NVDIMM were durable,
    and `unknown_flushes` in all of them. None if there is none.
    """

    mode: str
    crash: Crash
    faults: bool
    runs: int
    corrupted: int
    share: Share
    wrong_checksum: int
    wrong_checksum_share: Share
    right_checksums: int
    unclassified: int
    canary: int
    canary_hit: int
    hit_share: Share
    hit_alone: int
    trapped: int
    lost_steps: int
    steps_lost_median: float | None
    steps_lost_most: int | None
    seconds_lost_median: float | None
    seconds_lost_most: float | None
    lines_open_median: float | None
    lines_lost_median: float | None
    unknown_flushes: int | None


class Cell(BaseModel):
    """The judged runs of a mode and fault class that ended in one kind of crash.

    A file differed after `corrupted` of them.
    """

    mode: str
    crash: Crash
    fault_class: str
    runs: int
    corrupted: int


class NvramTable(BaseModel):
    """Lines and cells in the order of the modes and fault classes; those without a run are left out."""

    campaign: str
    lines: list[NvdimmRow]
    cells: list[Cell]
    environment: Provenance


def has_nvdimm(campaign: CampaignRow) -> bool:
    """Whether the campaign's machines have an NVDIMM."""
    machine = stored_spec(campaign).get("machine")
    return isinstance(machine, dict) and bool(machine.get("nvdimm_mib"))


def wanted(row: Row) -> bool:
    """Whether this is a judged run without a planted change."""
    return judged(row) and not planted(row) and not row.late


_SHARES = ("share", "wrong_checksum_share", "hit_share")
_NUMBERS = ("steps_lost", "seconds_lost", "lines_open", "lines_lost", "unknown_flushes")


def nvram_table(results: Results) -> NvramTable:
    """Compute the table; StoreError if the campaign's machines have no NVDIMM, or nothing was judged."""
    campaign = results.campaign
    rows = results.groups(*_NUMBERS, wants=wanted) if has_nvdimm(campaign) else []
    if not rows:
        raise results.without("judged runs of machines with an NVDIMM")
    modes = in_order(campaign, "modes", (row.mode for row in rows))
    lines = []
    for mode, crash, faults in product(modes, CRASHES, (False, True)):
        found = [row for row in rows if (row.mode, _crash(row), _faulty(row)) == (mode, crash, faults)]
        if found:
            lines.append(_line(found, mode, crash, faults))
    faulty = list(filter(_faulty, rows))
    classes = in_order(campaign, "fault_classes", (row.fault_class for row in faulty))
    cells = [_cell(faulty, *place) for place in product(modes, CRASHES, classes)]
    return NvramTable(
        campaign=campaign.name,
        lines=lines,
        cells=[cell for cell in cells if cell.runs],
        environment=campaign.provenance,
    )


def _crash(row: Row) -> Crash:
    match row.restart:
        case "power" | "power-lines":
            return row.restart
        case _:
            return "reset"


def _faulty(row: Row) -> bool:
    return row.fault_class not in CONTROLS


def _cell(rows: Sequence[Row], mode: str, crash: Crash, fault_class: str) -> Cell:
    found = [row for row in rows if (row.mode, _crash(row), row.fault_class) == (mode, crash, fault_class)]
    corrupted = how_many(row for row in found if row.corruption != "none")
    return Cell(mode=mode, crash=crash, fault_class=fault_class, runs=how_many(found), corrupted=corrupted)


def _line(rows: Sequence[Row], mode: str, crash: Crash, faults: bool) -> NvdimmRow:
    runs = how_many(rows)
    steps, seconds, opened, lost, unknown = (numbers(rows, name) for name in _NUMBERS)
    bad = [row for row in rows if row.corruption != "none"]
    wrong = how_many(row for row in bad if row.corruption == "direct")
    canary = how_many(row for row in rows if row.canary is not None)
    hit = [row for row in rows if row.canary]
    return NvdimmRow(
        mode=mode,
        crash=crash,
        faults=faults,
        runs=runs,
        corrupted=how_many(bad),
        share=share_of(how_many(bad), runs),
        wrong_checksum=wrong,
        wrong_checksum_share=share_of(wrong, runs),
        right_checksums=how_many(row for row in bad if row.corruption == "indirect"),
        unclassified=how_many(row for row in bad if row.corruption == "unclassified"),
        canary=canary,
        canary_hit=how_many(hit),
        hit_share=share_of(how_many(hit), canary),
        hit_alone=how_many(row for row in hit if row.corruption == "none"),
        trapped=how_many(row for row in rows if row.crash_kind == "trap"),
        lost_steps=how_many(row for row in rows if row.lost_steps),
        steps_lost_median=_median(steps),
        steps_lost_most=max(steps, default=None),
        seconds_lost_median=_median(seconds),
        seconds_lost_most=max(seconds, default=None),
        lines_open_median=_median(opened),
        lines_lost_median=_median(lost),
        unknown_flushes=sum(unknown) if unknown else None,
    )


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


_HEAD = [
    "Mode",
    "Crash",
    "Faults",
    "Corrupted",
    "95 % interval",
    "Wrong checksum or canary",
    "95 % interval",
    "Right checksums",
    "Unclassified",
    "Canary hit",
    "95 % interval",
    "hit alone",
    "Protection traps",
    "Lost newest steps",
    "Steps lost, median",
    "most",
    "Seconds lost, median",
    "most",
    "Lines open, median",
    "lost, median",
    "Unknown flushes",
]
NOTE = "Judged runs, however they ended; planted changes are left out. Intervals: exact (Clopper-Pearson), "
"95 %."
LEGEND = {
    "Crash": "reset: the machine was reset; power: all RAM but the NVDIMM was lost; power-lines: so were "
    "lines of the NVDIMM that were not written back and fenced.",
    "Faults": "no: nothing was injected (classes none and panic).",
    "Corrupted": "runs after which a file differs, of all runs. A mode that may lose the newest steps is "
    "corrupted by a loss of power only if no step left such files.",
    "Wrong checksum or canary": "a checksum is wrong or the canary was hit.",
    "Right checksums": "checksums were kept and are right.",
    "Unclassified": "neither is known.",
    "Canary hit": "runs after which it differs, of those with one. It is a part of the NVDIMM that nothing "
    "uses.",
    "hit alone": "the canary was hit, and no file differs.",
    "Protection traps": "the kernel died of a store that protection stopped: a stray one, or one whose "
    "window a fault had taken out.",
    "Lost newest steps": "the files are as after one earlier step of the workload.",
    "Steps lost": "of runs whose files are as after some step.",
    "Seconds lost": "in which the workload reported these steps.",
    "Lines open": "cache lines of the NVDIMM that were not durable when power was lost; lost: those that it "
    "took.",
    "Unknown flushes": "of lines that the emulator could not tell, in all runs; a line that one of them "
    "named counts as open.",
    "Fault class": "of the last tables: runs after which a file differs, of all runs with faults of that "
    "class.",
}


def nvram_page(table: NvramTable) -> Page:
    """Return the table's page."""
    grid = Grid("Crashes of machines with an NVDIMM", _HEAD, list(map(_cells, table.lines)), [])
    classes = [found for crash in CRASHES if (found := _classes(table, crash))]
    fields = [name for name in NvdimmRow.model_fields if name not in _SHARES]
    csv = csv_text(
        [*fields, *(f"{name}_{end}" for name in _SHARES for end in ("low", "high"))],
        (
            [
                *(getattr(line, name) for name in fields),
                *(end for name in _SHARES for end in (getattr(line, name).low, getattr(line, name).high)),
            ]
            for line in table.lines
        ),
    )
    return campaign_page(table, [grid, *classes], NOTE, csv, LEGEND)


def _classes(table: NvramTable, crash: Crash) -> Grid | None:
    """Return the corruptions by fault class and mode; None if no fault was followed by such a crash."""
    found = {
        (cell.fault_class, cell.mode): f"{cell.corrupted} of {cell.runs}"
        for cell in table.cells
        if cell.crash == crash
    }
    modes = list(dict.fromkeys(mode for _, mode in found))
    body = [
        [printable(name), *(found.get((name, mode), UNKNOWN) for mode in modes)]
        for name in dict.fromkeys(name for name, _ in found)
    ]
    head = ["Fault class", *map(printable, modes)]
    return Grid(f"Corrupted by fault class, {crash}", head, body, []) if found else None


def _cells(line: NvdimmRow) -> list[str]:
    canary = [UNKNOWN] * 3
    if line.canary:
        hit = f"{line.canary_hit} of {line.canary}"
        canary = [hit, interval_text(line.hit_share), str(line.hit_alone)]
    return [
        printable(line.mode),
        line.crash,
        "yes" if line.faults else "no",
        count_text(line.corrupted, line.runs),
        interval_text(line.share),
        str(line.wrong_checksum),
        interval_text(line.wrong_checksum_share),
        *map(str, (line.right_checksums, line.unclassified)),
        *canary,
        *map(str, (line.trapped, line.lost_steps)),
        *map(_number, (line.steps_lost_median, line.steps_lost_most)),
        *(_number(value and round(value, 2)) for value in (line.seconds_lost_median, line.seconds_lost_most)),
        *map(_number, (line.lines_open_median, line.lines_lost_median, line.unknown_flushes)),
    ]


def _number(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:g}"


NVRAM = CampaignTable(
    name="nvram",
    title="Crashes of machines with an NVDIMM",
    help="Corruptions, hits of the canary and steps lost, by mode and kind of crash.",
    compute=nvram_table,
    page=nvram_page,
    present=lambda rows: any(map(wanted, rows)),
    asked=has_nvdimm,
    section="corruptions",
)
