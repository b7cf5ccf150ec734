# SPDX-License-Identifier: Apache-2.0
"""The figure of a campaign whose claims are tested once: claims, fault classes, crashes and what was lost."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from markupsafe import Markup
from matplotlib.figure import Figure

from riobed_results.report.plots import ARMS, GRID, INK, PAPER, SHORTEST_S, STYLE, svg, svg_file
from riobed_results.rules.endpoints import ENDPOINTS, result
from riobed_results.rules.protocol import Claim
from riobed_results.stats.strata import Difference
from riobed_results.store import Results, Row, numbers
from riobed_results.tables.caches.grids import size_text
from riobed_results.tables.corruption.contrasts import Contrast
from riobed_results.tables.corruption.protocol import Ended, ProtocolTable, protocol_table
from riobed_results.tables.corruption.severity import severity_lines, weighed
from riobed_results.tables.corruption.survival import SURVIVAL, Curve, survival_table
from riobed_results.tables.framework.by_mode import Value
from riobed_results.tables.framework.shares import points_text
from riobed_results.text import printable


@dataclass(frozen=True)
class Losses:
    """What the hits of a mode lost: the bytes of each that is known, and the lines of `table severity`."""

    sizes: list[int]
    lines: dict[str, Value]


@dataclass(frozen=True)
class Answer:
    """What the figure shows; `curves` are those of crashes, `losses` are by mode."""

    table: ProtocolTable
    curves: list[Curve]
    losses: dict[str, Losses]


def has_answer(table: ProtocolTable) -> bool:
    """Whether a protocol has claims that are tested once."""
    return bool(table.runs and table.claims)


def answer(results: Results, table: ProtocolTable, curves: Sequence[Curve]) -> Answer:
    """Return what the figure of a protocol shows; `curves` are those of `table survival`."""
    endpoint = ENDPOINTS[table.claims[0].claim.endpoint]

    def lost(row: Row) -> bool:
        return result(row) and endpoint.runs(row) and endpoint.hit(row) and weighed(row)

    rows = results.groups("files_lost", "bytes_lost", wants=lost)
    losses = {}
    for arm in table.arms:
        mine = [row for row in rows if row.mode == arm.mode]
        losses[arm.mode] = Losses(numbers(mine, "bytes_lost"), severity_lines(mine))
    return Answer(table, [curve for curve in curves if curve.event == "crash"], losses)


def inline(shown: Answer) -> Markup:
    """Return the figure as an element of the report."""
    with drawn(shown) as figure:
        return svg(figure, "claims", "Claims, differences by fault class, times to crash, and what was lost")


def figure_file(results: Results) -> str:
    """Return the figure of a campaign as an SVG file; StoreError if it has no claims that are tested once."""
    table = protocol_table(results)
    if not has_answer(table):
        raise results.without("claims that are tested once (`runs` of its protocol)")
    curves = survival_table(results).curves if SURVIVAL.has(results) else []
    with drawn(answer(results, table, curves)) as figure:
        return svg_file(figure)


# Inches, at which 1000 pixels of width make a font of 9.5 points 13 pixels high.
_WIDTH = 10.0
_EDGE = 0.15
_TITLE = 0.42  # of a panel
_AXIS = 0.55  # below a panel: ticks and label
_CLAIM = 0.46  # a row of the first panel
_CLASS = 0.25  # a row of the second
_HEADS = 0.62  # above the columns of the second
_BELOW = 2.7  # height of the third and fourth panel
_CHARACTER = 0.0073  # mean width of one, for each point of its size
_BOLD = 1.13  # times as wide
_SMALLEST = 7.5  # points, to which a text is made smaller before it is cut
_FONT = {"font.size": 9.5, "axes.grid": False, "axes.spines.left": False}
_MARKS = ("o", "s", "^", "D", "v")
_DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.5, 1.2, 1.5)), (0, (9, 2)))


@contextmanager
def drawn(shown: Answer) -> Iterator[Figure]:
    """Draw the four panels below each other, the last two side by side."""
    table = shown.table
    classes = _classes(table)
    claims = _CLAIM * len(table.claims)
    forest = _HEADS + _CLASS * (len(classes) + 1) if table.contrasts else 0.5
    height = 3 * _TITLE + (3 if table.contrasts else 2) * _AXIS + claims + forest + _BELOW
    arms = {arm.mode: number % len(ARMS) for number, arm in enumerate(table.arms)}
    with matplotlib.rc_context(STYLE | _FONT):
        page = _Sheet(Figure(figsize=(_WIDTH, height)), height, arms)
        _claims(page, table, claims)
        top = _TITLE + claims + _AXIS
        _forest(page, table, classes, top)
        top += _TITLE + forest + (_AXIS if table.contrasts else 0)
        _crashes(page, shown.curves, top)
        _lost(page, shown.losses, top)
        yield page.figure


@dataclass(frozen=True)
class _Sheet:
    """A figure of `height` inches, on which places are inches from the left and the top."""

    figure: Figure
    height: float
    arms: dict[str, int]

    def axes(self, left: float, top: float, width: float, height: float) -> Any:
        """Return axes with this place and size."""
        bottom = self.height - top - height
        return self.figure.add_axes(
            (left / _WIDTH, bottom / self.height, width / _WIDTH, height / self.height)
        )

    def text(self, left: float, top: float, text: str, room: float = _WIDTH, **how: Any) -> None:
        """Write a line of text, smaller or cut if it is longer than `room`; `top` is its upper end."""
        text, width = printable(text), _CHARACTER * (_BOLD if how.get("weight") == "bold" else 1)
        fits = room / width / max(1, len(text))
        how["fontsize"] = min(how.get("fontsize", _FONT["font.size"]), max(_SMALLEST, fits))
        most = max(2, int(room / width / how["fontsize"]))
        text = text if len(text) <= most else text[: most - 1] + "…"
        self.figure.text(left / _WIDTH, 1 - top / self.height, text, va=how.pop("va", "top"), **how)

    def title(self, left: float, top: float, letter: str, text: str, more: str = "") -> None:
        """Write the title of a panel, and behind it how to read it."""
        self.text(left, top + 0.08, letter, weight="bold", fontsize=11)
        self.text(left + 0.2, top + 0.09, text, weight="bold")
        self.text(left + 0.2 + 0.088 * len(text) + 0.1, top + 0.1, more, fontsize=8.5)

    def style(self, mode: str) -> dict[str, Any]:
        """Return colour and mark of a mode."""
        number = self.arms.get(mode, len(ARMS) - 1)
        return {"color": ARMS[number], "marker": _MARKS[number]}


def _classes(table: ProtocolTable) -> list[str]:
    return list(dict.fromkeys(name for each in table.contrasts for name in each.classes))


def _instead(table: ProtocolTable) -> str:
    """Say why there is no verdict; empty if there is one."""
    if table.stopped:
        return f"Stopped {table.stopped}"
    return f"Not complete: {table.incomplete}" if table.incomplete else ""


def _interval(axes: Any, found: Difference, y: float, style: dict[str, Any], **how: Any) -> None:
    """Draw a difference in percentage points with its interval."""
    axes.plot([100 * found.low, 100 * found.high], [y, y], color=style["color"], linewidth=1.8)
    axes.plot([100 * found.estimate], [y], **style | {"markersize": 6} | how)


def _claims(page: _Sheet, table: ProtocolTable, height: float) -> None:
    """Draw each claim: its interval, its margin as a bar, its state in words."""
    why, left, width, words = _instead(table), 4.15, 3.5, 7.8
    page.title(_EDGE, 0, "a", "Claims", "fixed before the first trial, in their order")
    axes = page.axes(left, _TITLE, width, height)
    axes.set_ylim(len(table.claims) - 0.5, -0.5)
    axes.axvline(0, color=GRID, linewidth=1)
    for row, each in enumerate(table.claims):
        top = _TITLE + row * _CLAIM
        page.text(_EDGE + 0.2, top + 0.04, each.claim.mode, left - 0.4, weight="bold")
        page.text(_EDGE + 0.2, top + 0.21, _says(each.claim), left - 0.3, fontsize=9)
        page.text(words, top + (0.04 if not why else 0.13), each.state, 2, weight="bold")
        axes.plot([each.claim.margin] * 2, [row - 0.36, row + 0.36], color=INK, linewidth=3)
        if isinstance(each, Ended) and each.tested:
            decided = each.state in ("shown", "refuted")
            fill = {} if decided else {"markerfacecolor": PAPER}
            _interval(axes, each.tested.difference, row, page.style(each.claim.mode), **fill)
            difference, interval = points_text(each.tested.difference)
            page.text(words, top + 0.21, f"{difference} ({interval})", 2.1, fontsize=9)
    low, high = axes.get_xlim()
    axes.set_xlim(min(low, -1), max(high, 1))
    axes.set_yticks([])
    axes.set_xlabel("difference in percentage points (bar: the claim's margin)")
    if why:
        _across(axes, why, width)
    else:
        level = f"{100 * (1 - 2 * table.level):.3g} % intervals"
        page.text(words, 0.1, level, 2, fontsize=8.5)


def _says(claim: Claim) -> str:
    how = (
        f"worse than {claim.than} by less than {claim.margin:g} points"
        if claim.margin
        else f"better than {claim.than}"
    )
    return how + (f" after {', '.join(claim.fault_classes)}" if claim.fault_classes else "")


def _across(axes: Any, text: str, width: float) -> None:
    """Write a text over axes, in lines as long as they are wide."""
    most, lines = int(width / 0.085), [""]
    for word in printable(text)[:400].split():
        if len(lines[-1]) + len(word) >= most:
            lines.append("")
        lines[-1] += f"{word} "
    axes.text(
        0.5, 0.5, "\n".join(lines), transform=axes.transAxes, ha="center", va="center", weight="bold",
        bbox={"facecolor": PAPER, "edgecolor": GRID, "boxstyle": "square,pad=0.5"},
    )  # fmt: skip


def _forest(page: _Sheet, table: ProtocolTable, classes: list[str], top: float) -> None:
    """Draw the differences by fault class, a column for each pair of modes."""
    page.title(_EDGE, top, "b", "By fault class", "difference of the shares, in percentage points")
    top += _TITLE
    if not table.contrasts:
        page.text(_EDGE + 0.2, top, "There is none before the campaign is complete." if not table.stopped
                  else "There is none, because the campaign was stopped.")  # fmt: skip
        return
    names = 1.75
    room = (_WIDTH - names - _EDGE) / len(table.contrasts)
    ends = [100 * end for each in table.contrasts for found in (*each.classes.values(), each.together)
            for end in (found.difference.low, found.difference.high)]  # fmt: skip
    pad = 0.03 * (max(ends) - min(ends)) + 0.1
    for row, name in enumerate([*classes, "all classes"]):
        place = top + _HEADS + (row + 0.5) * _CLASS
        weight = "bold" if row == len(classes) else "normal"
        page.text(_EDGE + 0.2, place, name, names - 0.3, va="center", weight=weight)
    for number, each in enumerate(table.contrasts):
        left = names + number * room
        heads = (each.mode, f"minus {each.than}", "" if each.claimed else "(in no claim)")
        for line, head in enumerate(heads):
            weight = "normal" if line else "bold"
            page.text(left + 0.08, top + 0.04 + 0.17 * line, head, room - 0.1, fontsize=8.5, weight=weight)
        axes = page.axes(left + 0.08, top + _HEADS, room - 0.16, _CLASS * (len(classes) + 1))
        axes.set_xlim(min(ends) - pad, max(ends) + pad)
        axes.set_ylim(len(classes) + 0.5, -0.5)
        _column(axes, each, classes, page.style(each.mode))


def _column(axes: Any, each: Contrast, classes: list[str], style: dict[str, Any]) -> None:
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.axhline(len(classes) - 0.5, color=GRID, linewidth=1)
    for row, name in enumerate(classes):
        if found := each.classes.get(name):
            _interval(axes, found.difference, row, style, markersize=4.5)
    _interval(axes, each.together.difference, len(classes), style, markersize=7)
    axes.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(4, integer=True))
    axes.set_yticks([])


def _crashes(page: _Sheet, curves: Sequence[Curve], top: float) -> None:
    """Draw the share of runs that has crashed by a time, each curve with its name at its end."""
    page.title(_EDGE, top, "c", "Time to crash", "% of runs")
    if not curves:
        page.text(_EDGE + 0.2, top + _TITLE, "No run's guest time is known.")
        return
    axes = page.axes(0.6, top + _TITLE, 2.5, _BELOW)
    longest = max(curve.longest_s for curve in curves)
    places = _apart([100 * curve.points[-1].share for curve in curves], 100 * 0.36 / _BELOW)
    for curve, place in zip(curves, places, strict=True):
        number = page.arms.get(curve.mode, len(ARMS) - 1)
        xs = [*(max(point.seconds, SHORTEST_S) for point in curve.points), max(curve.longest_s, SHORTEST_S)]
        ys = [100 * point.share for point in curve.points]
        ys.append(ys[-1])
        axes.step(xs, ys, where="post", color=ARMS[number], linewidth=1.6, linestyle=_DASHES[number])
        axes.plot([1, 1.07], [ys[-1], place], color=ARMS[number], linewidth=0.8, clip_on=False,
                  transform=axes.get_yaxis_transform())  # fmt: skip
        axes.plot([xs[-1], longest], [ys[-1]] * 2, color=ARMS[number], linewidth=0.6)
        y = top + _TITLE + _BELOW * (1 - place / 100)
        page.text(3.32, y - 0.15, curve.mode, 1.95, fontsize=8.5, weight="bold", color=ARMS[number])
        page.text(3.32, y + 0.01, f"{curve.events} of {curve.runs} crashed", 1.95, fontsize=8.5)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda seconds, _: f"{seconds:g}")
    axes.minorticks_off()
    axes.set_xlim(right=longest)
    axes.set_ylim(0, 100)
    axes.grid(axis="y", linewidth=0.6)
    axes.set_xlabel("guest seconds after injection")


def _apart(wanted: Sequence[float], gap: float) -> list[float]:
    """Return places from 0 to 100 in the order of those wanted, near them and at least `gap` apart."""
    order = sorted(range(len(wanted)), key=lambda number: wanted[number])
    places = [wanted[number] for number in order]
    for at in range(1, len(places)):
        places[at] = max(places[at], places[at - 1] + gap)
    over = max(0.0, places[-1] - (100 - gap / 2))
    for at in reversed(range(len(places))):
        highest = places[at + 1] - gap if at + 1 < len(places) else places[at] - over
        places[at] = min(places[at], highest)
    found = dict(zip(order, places, strict=True))
    return [found[number] for number in range(len(wanted))]


def _lost(page: _Sheet, losses: dict[str, Losses], top: float) -> None:
    """Draw the bytes that each hit lost, a row for each mode, above which the counts stand in words."""
    left, width = 5.55, _WIDTH - 5.55 - 0.3
    page.title(left - 0.2, top, "d", "What was lost", "in each run with a hit")
    axes = page.axes(left, top + _TITLE, width, _BELOW)
    axes.set_xscale("function", functions=(np.log1p, np.expm1))
    largest = max((size for each in losses.values() for size in each.sizes), default=0)
    axes.set_xlim(0, 2 * max(largest, 1024))
    axes.set_ylim(len(losses), 0)
    row_height = _BELOW / max(1, len(losses))
    for row, (mode, each) in enumerate(losses.items()):
        style = page.style(mode)
        spread = 0.82 + 0.1 * np.random.default_rng(row).uniform(-1, 1, len(each.sizes))
        axes.plot(each.sizes, row + spread, linestyle="none", markersize=5, alpha=0.6, clip_on=False,
                  markeredgewidth=0, **style)  # fmt: skip
        if each.sizes:
            axes.plot([np.median(each.sizes)] * 2, [row + 0.68, row + 0.96], color=INK, linewidth=2)
        y = top + _TITLE + row * row_height
        page.text(left, y + 0.02, mode, width, fontsize=8.5, weight="bold", color=style["color"])
        page.text(left, y + 0.19, _lost_text(each.lines), width, fontsize=8.5)
    ticks = [0, *(size for size in (32, 1024, 32 << 10, 1 << 20, 32 << 20) if size <= max(largest, 1024))]
    axes.set_xticks(ticks, [size_text(tick) for tick in ticks])
    axes.minorticks_off()
    axes.set_yticks([])
    axes.set_xlabel("bytes lost or wrong (line: median)")


def _lost_text(lines: dict[str, Value]) -> str:
    hits, whole = lines["Corruptions"], lines["Total losses"]
    known = [f"{lines[line]} {name}" for name in ("files", "bytes")
             if lines[line := f"{name.capitalize()} lost, median"] is not None]  # fmt: skip
    median = [f"median {' and '.join(known)}"] if known else []
    return "; ".join([f"{hits} hits", *median, f"{whole} total losses"])
