# SPDX-License-Identifier: Apache-2.0
"""The table of generated Sprite traces beside the points that the papers printed."""

from collections.abc import Callable, Iterator
from typing import Literal

from pydantic import BaseModel
from riobed_caches.rows import METADATA, SUMMARY, CacheRow, FateRow, LifetimeRow, SegmentRow, TraceRow

from riobed_results.tables.caches.clients import MIB, STARTS, by_extra, net, total
from riobed_results.tables.caches.grids import Column, Definition, Study, Value, Values, study_table
from riobed_results.tables.caches.servers import overhead

# Figure 2 and Table 2 of 000 are what the generator was fitted to; the others are held out.
FITTED = ("Figure 2", "Table 2")
# A title, whether it was fitted, and the unit.
GROUPS: tuple[tuple[str, bool, str], ...] = (
    ("Fitted", True, "%"),
    ("Held out", False, "%"),
    ("Held out", False, "KB"),
)
GENERATOR = "riobed generator"


class Point(BaseModel):
    """A point of a figure or table, as the paper printed it and as it was found; `unit` is % or KB."""

    figure: str
    trace: str
    curve: str
    at: str
    paper: float
    found: float
    unit: Literal["%", "KB"] = "%"

    @property
    def difference(self) -> float:
        """Return the difference in the unit; of percents these are points."""
        return self.found - self.paper


def sprite_number(trace: TraceRow) -> int | None:
    """Return which of the eight traces of 000 a trace was generated to be like, or None."""
    kind, _, number = trace.source.rpartition(" ")
    generated = trace.recorder == GENERATOR and kind and number in set("12345678")
    return int(number) if generated else None


def points(study: Study) -> list[Point]:
    """Return all points of 000 that the traces of a study have a value for."""
    like = {trace.trace: number for trace in study.traces if (number := sprite_number(trace))}
    if not like:
        return []
    return [*_lifetimes(study, like), *_fates(study, like), *_caches(study, like), *_segments(study, like)]


def grouped(found: list[Point], fitted: bool, unit: str) -> list[Point]:
    """Return the points that were fitted, or not, and have a unit."""
    return [point for point in found if (point.figure in FITTED) == fitted and point.unit == unit]


def _lifetimes(study: Study, like: dict[str, int]) -> Iterator[Point]:
    from riobed_caches.papers.points import figure

    of = {(row.trace, round(row.delay / 60, 1)): row for row in study.rows(LifetimeRow)}
    for trace, number in like.items():
        curve = figure(2)[str(number)]
        for minutes, percent in zip(curve.x, curve.y, strict=True):
            # The figure's points are read from a drawn curve, so 0.498 is half a minute.
            mine = [delay for name, delay in of if name == trace and delay > 0]
            near = min(mine, key=lambda delay: abs(delay - minutes), default=0.0)
            if abs(near / minutes - 1) < 0.05:
                row, at = of[trace, near], f"{near:g} min"
                found = 100 * row.sent / max(row.written, 1)
                yield Point(figure="Figure 2", trace=trace, curve="sent", at=at, paper=percent, found=found)


def _fates(study: Study, like: dict[str, int]) -> Iterator[Point]:
    from riobed_caches.papers.points import tables

    rows = study.rows(FateRow)
    for column, left_out in (("all", ()), ("typical", (3, 4))):
        mine = [row for row in rows if row.trace in like and like[row.trace] not in left_out]
        if len({row.trace for row in mine}) != 8 - len(left_out):
            continue
        printed = tables().fates[column]
        written = sum(row.bytes for row in mine)
        for fate in sorted({row.fate for row in mine}):
            found = 100 * sum(row.bytes for row in mine if row.fate == fate) / written
            paper = 100 * float(getattr(printed, fate.lower())) / printed.total
            yield Point(figure="Table 2", trace=column, curve=fate.lower(), at="", paper=paper, found=found)


def _caches(study: Study, like: dict[str, int]) -> Iterator[Point]:
    rows = study.rows(CacheRow)
    for trace, number in like.items():
        mine = [row for row in rows if row.trace == trace]
        yield from _curve("Figure 3", trace, 3, str(number), by_extra(mine, "omniscient", 0), net)
        if number != 7:
            continue
        for name, model in (("LRU", "unified"), ("random", "unified-random"), ("omniscient", "omniscient")):
            start = 0 if model == "omniscient" else STARTS[0]
            yield from _curve("Figure 4", trace, 4, name, by_extra(mine, model, start), net)
        for model in ("volatile", "write-aside", "unified"):
            yield from _curve("Figure 5", trace, 5, model, by_extra(mine, model, STARTS[0]), total)
        for start in STARTS:
            for model in ("volatile", "unified"):
                name = f"{model}-{start // MIB}MB"
                yield from _curve("Figure 6", trace, 6, name, by_extra(mine, model, start), total)


def _curve(
    label: str,
    trace: str,
    number: int,
    name: str,
    found: dict[int, CacheRow],
    value: Callable[[CacheRow], float],
) -> Iterator[Point]:
    from riobed_caches.papers.points import figure

    curve = figure(number)[name]
    for megabytes, percent in zip(curve.x, curve.y, strict=True):
        near = min(found, key=lambda size: abs(size / MIB - megabytes), default=None)
        # A point of no added memory is compared with none.
        if near is not None and abs(near / MIB - megabytes) <= 0.06 * max(megabytes, 0.1):
            yield Point(
                figure=label,
                trace=trace,
                curve=name,
                at=f"{near / MIB:g} MB",
                paper=percent,
                found=100 * value(found[near]),
            )


def _segments(study: Study, like: dict[str, int]) -> Iterator[Point]:
    from riobed_caches.papers.points import tables

    # The paper has file systems, and the generator's traces have one: it is compared with the busiest.
    printed = tables().segments["/user6"]
    for row in study.rows(SegmentRow):
        partial, by_fsync = row.by_timer + row.by_fsync, row.by_fsync
        every = row.full + partial
        if row.trace not in like or row.buffer or not every:
            continue
        place = {"trace": row.trace, "at": "/user6"}
        for name, percent, number in (
            ("partial", printed.partial, partial),
            ("by fsync", printed.by_fsync, by_fsync),
        ):
            yield Point(figure="Table 3", curve=name, paper=percent, found=100 * number / every, **place)
        data, more = row.data_by_timer + row.data_by_fsync, row.overhead_by_timer + row.overhead_by_fsync
        yield from _partials("partial", printed.kb_partial, partial, data, more, place)
        yield from _partials(
            "by fsync", printed.kb_fsync, by_fsync, row.data_by_fsync, row.overhead_by_fsync, place
        )


def _partials(
    name: str, printed: float | None, number: int, data: int, more: int, place: dict[str, str]
) -> Iterator[Point]:
    """Yield the points of Table 4: kilobytes of data in a segment of a kind, and its overhead.

    `more` are the bytes of metadata and summaries. The paper's overhead is that of the kilobytes that it
    printed, with a block of metadata and a summary: 36 % for 7.9 KB, "about one third" (000, 3).
    """
    share = overhead(data, more)
    if printed is None or share is None:
        return
    yield Point(figure="Table 4", curve=name, paper=printed, found=data / number / 1024, unit="KB", **place)
    paper = (METADATA + SUMMARY) / (METADATA + SUMMARY + 1024 * printed)
    yield Point(figure="Table 4", curve=f"{name}, overhead", paper=100 * paper, found=100 * share, **place)


def _papers(study: Study) -> tuple[list[Values], list[str]]:
    found = points(study)
    grids = []
    for title, fitted, unit in GROUPS:
        mine = grouped(found, fitted, unit)
        columns = [Column(name=name) for name in ("Figure", "Trace", "Curve", "At")]
        columns += [
            Column(name=name, form="ratio") for name in (f"Paper, {unit}", f"Found, {unit}", "Difference")
        ]
        lines: list[list[Value]] = [
            [p.figure, p.trace, p.curve, p.at, round(p.paper, 1), round(p.found, 1), round(p.difference, 1)]
            for p in mine
        ]
        most = max((abs(point.difference) for point in mine), default=0.0)
        said = "points" if unit == "%" else unit
        grids.append(
            Values(title=f"{title}: largest difference {most:.1f} {said}", columns=columns, lines=lines)
        )
    return grids, [] if found else ["No trace is like one of the paper's."]


PAPERS = study_table(
    Definition(
        name="papers",
        title="Papers' points",
        help="Generated Sprite traces beside the points of the paper's figures and tables.",
        build=_papers,
        note="The paper is 000. The generator was fitted to Figure 2 and Table 2, and to nothing that is "
        "held out.",
    )
)
