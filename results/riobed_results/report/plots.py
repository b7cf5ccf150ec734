# SPDX-License-Identifier: Apache-2.0
"""Plots as inline SVG: text stays text, colours come from the page, and nothing is loaded."""

import io
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import matplotlib
import numpy as np
from markupsafe import Markup
from matplotlib.figure import Figure

from riobed_results.stats.proportions import Share
from riobed_results.tables.caches.grids import size_text
from riobed_results.tables.corruption.survival import Curve
from riobed_results.text import printable

WIDTH = 4.6  # inches; still legible on a phone
_ROW = 0.24  # inches for a row with one line; each further line adds _LINE
_LINE = 0.11
_SPREAD = 0.68  # fraction of a row's height that its lines take
_LONGEST = 36  # characters; longer labels are cut
# The colours of a light page by number: 1 is that of its text, 5 means corruption. From 10 on they are those
# of Okabe and Ito (Color Universal Design, 2008), which colour-blind readers can tell apart. 14 is the paper.
LIGHT = dict(enumerate(
    ("#1d2329", "#d5dae0", "#6f8fb5", "#d5dae0", "#c8321f", "#1f6fb4", "#b3660a", "#25855a", "#8146b0",
     "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#ffffff"), 1,
))  # fmt: skip
# What a plot is drawn with, in whose place a page's colours are put.
_COLOURS = {f"#0000{number:02x}": f"var(--c{number})" for number in LIGHT}
INK, GRID, CRASH, DISCARD, BAD = ("#000001", "#000002", "#000003", "#000004", "#000005")
SERIES = ("#000006", "#000007", "#000008", "#000009", "#000003")
ARMS = ("#00000a", "#00000b", "#00000c", "#00000d", INK)
PAPER = "#00000e"
STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "riobed",
    # A name from a store must not be parsed as a formula.
    "text.parse_math": False,
    "font.size": 9,
    # One name only, because every text element repeats it.
    "font.sans-serif": ["DejaVu Sans"],
    "axes.edgecolor": GRID,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": GRID,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.grid": True,
    "axes.grid.axis": "x",
    "axes.axisbelow": True,
    "ytick.major.size": 0,
    "legend.frameon": False,
}


class _HasLabel(Protocol):
    @property
    def label(self) -> str: ...


Labelled = TypeVar("Labelled", bound=_HasLabel)


@dataclass(frozen=True)
class PlotLine:
    """A proportion in the row `label`; `series` selects its colour."""

    label: str
    series: int
    share: Share


def intervals(name: str, lines: Sequence[PlotLine], series: Sequence[str] = ()) -> Markup:
    """Plot proportions with their intervals, in per cent on a square-root axis that spreads small values.

    `name` must be unique on the page. `series` labels the colours in a legend; empty means no legend.
    """
    rows = _by_label(lines)
    with _figure(len(rows), max(map(len, rows.values()), default=1)) as (figure, axes):
        for row, of_row in enumerate(rows.values()):
            for line, y in zip(of_row, _places(row, len(of_row)), strict=True):
                if line.share.share is None:
                    continue
                share, low, high = ((value or 0) * 100 for value in line.share.model_dump().values())
                colour = SERIES[line.series % len(SERIES)]
                axes.plot([low, high], [y, y], color=colour, linewidth=1.5)
                axes.plot([share], [y], "o", color=colour, markersize=4, clip_on=False)
        for number, text in enumerate(series):
            axes.plot([], [], color=SERIES[number % len(SERIES)], label=short(printable(text)))
        axes.set_xscale("function", functions=(lambda x: np.sqrt(np.maximum(x, 0)), np.square))
        axes.set_xlim(0, 100)
        axes.set_xticks([0, 1, 5, 10, 25, 50, 75, 100])
        axes.set_xlabel("% of crashes")
        _finish(figure, axes, list(rows), legend=bool(series))
        return svg(figure, name, "Shares of crashes with corruption and their 95 % intervals")


@dataclass(frozen=True)
class PlotRatio:
    """How many times a cost is in the row `label`, and in the paper; `series` selects the colour."""

    label: str
    series: int
    median: float
    low: float
    high: float
    paper: float | None = None


def ratios(name: str, lines: Sequence[PlotRatio], series: Sequence[str]) -> Markup:
    """Plot ratios with their intervals on a logarithmic axis, the paper's as hollow marks.

    `name` must be unique on the page. `series` labels the colours in a legend.
    """
    rows = _by_label(lines)
    with _figure(len(rows), max(map(len, rows.values()), default=1)) as (figure, axes):
        for row, of_row in enumerate(rows.values()):
            for line, y in zip(of_row, _places(row, len(of_row)), strict=True):
                colour = SERIES[line.series % len(SERIES)]
                axes.plot([line.low, line.high], [y, y], color=colour, linewidth=1.5)
                axes.plot([line.median], [y], "o", color=colour, markersize=4)
                if line.paper:
                    axes.plot([line.paper], [y], "o", color=colour, markersize=5, markerfacecolor="none")
        for number, text in enumerate(series):
            axes.plot([], [], color=SERIES[number % len(SERIES)], label=short(printable(text)))
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda times, _: f"{times:g}")
        axes.set_xlabel("times")
        _finish(figure, axes, list(rows), legend=bool(series))
        return svg(figure, name, "Ratios of seconds with their intervals, and those of the paper")


@dataclass(frozen=True)
class Point:
    """A share of runs at a share of RAM; `series` selects the colour, `hollow` the mark."""

    ram: float
    series: int
    share: Share
    hollow: bool = False


def exposure(points: Sequence[Point], series: Sequence[str]) -> Markup:
    """Plot shares of runs with their intervals against the file cache's share of RAM, both in per cent.

    The points of a series are joined, full marks and hollow ones apart. RAM is on a logarithmic axis,
    runs on a square-root one. A dashed line shows where the full marks of a series were if the hazard of the
    first one grew with the share.
    """
    with _figure(_EXPOSURE_ROWS) as (figure, axes):
        for number, text in enumerate(series):
            for hollow in (False, True):
                line = [point for point in points if (point.series, point.hollow) == (number, hollow)]
                _draw_points(axes, ordered := sorted(line, key=lambda point: point.ram), number)
                if not hollow:
                    _draw_proportional(axes, ordered, number)
            axes.plot([], [], "o", color=SERIES[number % len(SERIES)], label=short(printable(text)))
        for text, style in _MARKS_MEAN.items():
            axes.plot([], [], color=INK, markersize=4, linewidth=0.8, label=text, **style)
        axes.set_xscale("log")
        axes.set_xticks(_RAM_TICKS, [f"{tick}" for tick in _RAM_TICKS])
        axes.minorticks_off()
        axes.set_xlabel("file cache, % of RAM")
        axes.set_ylabel("% of runs")
        axes.set_yscale("function", functions=(lambda y: np.sqrt(np.maximum(y, 0)), np.square))
        axes.set_ylim(0, 100)
        axes.set_yticks([0, 1, 5, 10, 25, 50, 75, 100])
        figure.legend(loc="outside upper center", ncols=2, handlelength=1, columnspacing=1.2)
        return svg(figure, "exposure", "Corruption against the share of RAM that the file cache had")


_EXPOSURE_ROWS = 8  # the figure's height, in rows
_RAM_TICKS = (1, 3, 10, 30, 60, 100)
_MARKS_MEAN: dict[str, dict[str, str]] = {
    "wrong checksum or canary": {"marker": "o", "linestyle": "none"},
    "any corruption": {"marker": "o", "linestyle": "none", "markerfacecolor": "none"},
    "proportional to RAM": {"linestyle": "dashed"},
}


def _draw_proportional(axes: Any, line: Sequence[Point], number: int) -> None:
    """Draw what the share of runs were if each part of RAM were as likely to be hit as in the first arm."""
    if len(line) < 2 or not (start := line[0].share.share) or start == 1:
        return
    times = np.geomspace(1, line[-1].ram / line[0].ram, 50)
    colour = SERIES[number % len(SERIES)]
    ys = 100 * (1 - (1 - start) ** times)
    axes.plot(100 * line[0].ram * times, ys, color=colour, linewidth=0.8, linestyle="dashed")


def _draw_points(axes: Any, line: Sequence[Point], number: int) -> None:
    known = [(point, *point.share.model_dump().values()) for point in line if point.share.share is not None]
    colour = SERIES[number % len(SERIES)]
    for point, _share, low, high in known:
        # Hollow marks a little to the right, so that intervals do not cover each other.
        at = 100 * point.ram * (_ASIDE if point.hollow else 1)
        axes.plot([at, at], [100 * low, 100 * high], color=colour, linewidth=1, linestyle=_dash(point.hollow))
    xs = [100 * point.ram * (_ASIDE if point.hollow else 1) for point, *_ in known]
    ys = [100 * share for _, share, *_ in known]
    hollow = bool(line) and line[0].hollow
    axes.plot(
        xs, ys, "o", linestyle=_dash(hollow), linewidth=1, color=colour, markersize=4,
        markerfacecolor="none" if hollow else colour,
    )  # fmt: skip


_ASIDE = 1.04


def _dash(hollow: bool) -> str:
    return "dotted" if hollow else "solid"


def survival(curves: Sequence[Curve]) -> Markup:
    """Plot the share of runs that had an event by a time, a colour for each mode, crash and corruption.

    Corruption is dotted. Time is on a logarithmic axis, the share in per cent on a square-root axis.
    """
    modes = list(dict.fromkeys(curve.mode for curve in curves))
    with _figure(_SURVIVAL_ROWS) as (figure, axes):
        for curve in curves:
            _draw_curve(axes, curve, modes.index(curve.mode))
        for number, mode in enumerate(modes):
            axes.plot([], [], color=SERIES[number % len(SERIES)], label=short(printable(mode)))
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda seconds, _: f"{seconds:g}")
        axes.minorticks_off()
        axes.set_xlabel("guest seconds after injection")
        axes.set_yscale("function", functions=(lambda y: np.sqrt(np.maximum(y, 0)), np.square))
        axes.set_ylim(0, 100)
        axes.set_yticks([0, 1, 5, 10, 25, 50, 75, 100])
        axes.set_ylabel("% of runs")
        figure.legend(loc="outside upper center", ncols=3, handlelength=1, columnspacing=1.2)
        return svg(figure, "survival", "Crash and corruption by the guest's time after injection")


_SURVIVAL_ROWS = 9  # the figure's height, in rows


def _draw_curve(axes: Any, curve: Curve, number: int) -> None:
    end = max(curve.longest_s, SHORTEST_S)
    xs = [max(point.seconds, SHORTEST_S) for point in curve.points]
    ys = [100 * point.share for point in curve.points]
    colour, dash = SERIES[number % len(SERIES)], _dash(curve.event == "corruption")
    axes.step([*xs, end], [*ys, ys[-1]], where="post", color=colour, linewidth=1.2, linestyle=dash)
    last = curve.points[-1]
    # Intervals of several modes beside each other, not on top of each other.
    at = end * (1 + 0.06 * number)
    axes.plot([at, at], [100 * last.low, 100 * last.high], color=colour, linewidth=1, linestyle=dash)


def crash_times(seconds: dict[str, list[float]]) -> Markup:
    """Plot the times from injection to crash by fault class: a mark per crash, a line at the median.

    Of more than _MARKS crashes only that many have one, at equal steps through the crashes in order of time.
    """
    with _figure(len(seconds)) as (figure, axes):
        for row, values in enumerate(seconds.values()):
            shown = np.maximum(values, SHORTEST_S)
            marks = shown if len(shown) <= _MARKS else np.sort(shown)[:: -(-len(shown) // _MARKS)]
            spread = np.random.default_rng(row).uniform(-0.28, 0.28, len(marks))
            axes.plot(marks, row + spread, "o", color=CRASH, alpha=0.55, markersize=3, markeredgewidth=0)
            axes.plot([np.median(shown)] * 2, [row - 0.36, row + 0.36], color=INK, linewidth=1.6)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda seconds, _: f"{seconds:g}")
        axes.minorticks_off()
        axes.set_xlabel("seconds")
        _finish(figure, axes, list(seconds))
        return svg(figure, "times", "Times from injection to crash by fault class")


# Seconds. Shorter times are drawn here: the host polls for crashes, so they are not exact.
SHORTEST_S = 0.01
# Marks in a row. More would hide each other and make a page of megabytes.
_MARKS = 1000


@dataclass(frozen=True)
class Outcomes:
    """The outcomes of the trials of one bar in the row `label`."""

    label: str
    sound: int
    corrupted: int
    others: int
    others_corrupted: int = 0


def outcomes(bars: Sequence[Outcomes]) -> Markup:
    """Plot a bar for each entry, with the crashes first."""
    rows = _by_label(bars)
    many = max(map(len, rows.values()), default=1)
    with _figure(len(rows), many) as (figure, axes):
        drawn = [bar for of_row in rows.values() for bar in of_row]
        places = [y for row, of_row in enumerate(rows.values()) for y in _places(row, len(of_row))]
        left = np.zeros(len(drawn))
        for label, colour, values in (
            ("corruption", BAD, [bar.corrupted for bar in drawn]),
            ("crash, all well", CRASH, [bar.sound for bar in drawn]),
            ("no crash, corruption", SERIES[1], [bar.others_corrupted for bar in drawn]),
            ("no crash", DISCARD, [bar.others - bar.others_corrupted for bar in drawn]),
        ):
            if not any(values):
                continue
            axes.barh(places, values, left=left, color=colour, label=label, height=0.9 * _SPREAD / many)
            left += np.array(values)
        axes.set_xlabel("trials")
        axes.xaxis.get_major_locator().set_params(integer=True)
        _finish(figure, axes, list(rows), legend=True)
        return svg(figure, "outcomes", "Outcomes of trials")


def _by_label(things: Iterable[Labelled]) -> dict[str, list[Labelled]]:
    rows: dict[str, list[Labelled]] = {}
    for thing in things:
        rows.setdefault(thing.label, []).append(thing)
    return rows


def _places(row: int, count: int) -> list[float]:
    """Return the y positions of `count` items in a row, from the top."""
    return [row + _SPREAD * ((number + 0.5) / count - 0.5) for number in range(count)]


@dataclass(frozen=True)
class RiskLine:
    """A trace: `points` and `marks` (by model) are shares of written bytes sent, and mean bytes at risk."""

    label: str
    points: Sequence[tuple[float, float]]
    marks: dict[str, tuple[float, float]]


def risk(lines: Sequence[RiskLine]) -> Markup:
    """Plot bytes at risk, on a logarithmic axis, against bytes sent in per cent of those written."""
    with _figure(_RISK_ROWS) as (figure, axes):
        for number, line in enumerate(lines):
            colour = SERIES[number % len(SERIES)]
            xs, ys = zip(*((100 * sent, max(risk, 1)) for sent, risk in line.points), strict=True)
            dash = _RISK_DASHES[number // len(SERIES) % len(_RISK_DASHES)]
            label = short(printable(line.label))
            axes.plot(xs, ys, color=colour, linewidth=1.2, linestyle=dash, label=label)
            for model, (sent, cost) in line.marks.items():
                mark = RISK_MARKS[model]
                axes.plot(100 * sent, max(cost, 1), mark, color=colour, markersize=5)
        for model in dict.fromkeys(model for line in lines for model in line.marks):
            axes.plot([], [], RISK_MARKS[model], color=INK, markersize=5, linestyle="none", label=model)
        axes.set_yscale("log", base=2)
        axes.yaxis.set_major_formatter(lambda value, _: size_text(value))
        axes.set_xlim(left=0)
        axes.set_xlabel("bytes sent, % of bytes written")
        axes.set_ylabel("mean bytes at risk")
        figure.legend(loc="outside upper center", ncols=3, handlelength=1, columnspacing=1.2)
        return svg(figure, "risk", "Bytes that a crash costs against bytes written to the disk")


@dataclass(frozen=True)
class SizeLine:
    """Caches of one size: `points` are the share of written bytes sent, mean bytes at risk, and the model."""

    label: str
    points: Sequence[tuple[float, float, str]]


def sizes(name: str, lines: Sequence[SizeLine], unbounded: Sequence[tuple[float, float]]) -> Markup:
    """Plot a line for each size, through its models from the one that sends most to that which sends least.

    `name` must be unique on the page. `unbounded` are points of a cache without a bound, by delay. Bytes at
    risk are on a logarithmic axis, at whose lower end is nothing at risk.
    """
    risks = [risk for line in lines for _, risk, _ in line.points] + [risk for _, risk in unbounded]
    lowest, highest = min((risk for risk in risks if risk > 0), default=1.0), max(risks, default=1.0)
    floor = 2.0 ** (np.floor(np.log2(lowest)) - 1)
    with _figure(_RISK_ROWS) as (figure, axes):
        ends = []
        for number, line in enumerate(lines):
            shade = 1 - (1 - _PALEST) * (len(lines) - 1 - number) / len(lines)
            ordered = sorted(line.points, key=lambda point: (-point[0], point[1]))
            xs, ys = [100 * sent for sent, *_ in ordered], [max(risk, floor) for _, risk, _ in ordered]
            axes.plot(xs, ys, color=SERIES[0], linewidth=1.2, alpha=shade)
            for x, y, (*_, model) in zip(xs, ys, ordered, strict=True):
                mark = RISK_MARKS[model]
                axes.plot(x, y, mark, color=SERIES[0], markersize=4, alpha=shade, clip_on=False)
            ends.append((xs[-1], ys[-1]))
        _label_ends(axes, [line.label for line in lines], ends, np.log2(max(highest, 2 * floor) / floor))
        xs, ys = [100 * sent for sent, _ in unbounded], [max(risk, floor) for _, risk in unbounded]
        axes.plot(xs, ys, color=SERIES[1], linewidth=1.2, linestyle="dashed", label="no bound")
        for model in dict.fromkeys(model for line in lines for *_, model in line.points):
            mark = RISK_MARKS[model]
            axes.plot([], [], mark, color=INK, markersize=4, linestyle="none", label=model)
        axes.set_yscale("log", base=2)
        axes.set_ylim(bottom=floor)
        step = 4.0 ** np.ceil(np.log2(max(highest, 2 * floor) / floor) / 14)
        axes.set_yticks(floor * step ** np.arange(8)[floor * step ** np.arange(8) <= 2 * highest])
        axes.minorticks_off()
        axes.yaxis.set_major_formatter(lambda value, _: size_text(value if value > floor else 0))
        axes.set_xlim(0, 100)
        axes.set_xlabel("bytes sent, % of bytes written")
        axes.set_ylabel("mean bytes that a crash costs")
        figure.legend(loc="outside upper center", ncols=3, handlelength=1.5, columnspacing=1.2)
        return svg(
            figure, name, "Bytes that a crash costs against bytes sent, by size of the cache and model"
        )


def _label_ends(axes: Any, labels: Sequence[str], ends: Sequence[tuple[float, float]], height: float) -> None:
    """Write the labels at the ends of lines; lines that end beside each other get one, from first to last.

    `height` is that of the axis, in powers of two.
    """
    groups: list[list[int]] = []
    for number, (x, y) in enumerate(ends):
        first = ends[groups[-1][0]] if groups else (np.inf, y)
        if abs(x - first[0]) < _LABEL[0] and abs(np.log2(y / first[1])) < height * _LABEL[1]:
            groups[-1].append(number)
        else:
            groups.append([number])
    for group in groups:
        x, y = ends[group[0]]
        text = labels[group[0]] if len(group) == 1 else f"{labels[group[0]]} to {labels[group[-1]]}"
        axes.annotate(text, (x, y), (4, 3), textcoords="offset points", fontsize=7)


# The size of a label: percent of bytes, and a share of the height.
_LABEL = (14, 0.04)
_PALEST = 0.2  # of full colour, for the smallest size
_RISK_ROWS = 10
# Marks of models, the one that sends most first.
RISK_MARKS = {"write-through": "o", "on-close": "s", "delayed": "D", "when-full": "^", "never": "v"}
# Lines with the same colour differ in these.
_RISK_DASHES = ("solid", "dashed", "dotted")


@contextmanager
def _figure(rows: int, lines: int = 1) -> Iterator[tuple[Any, Any]]:
    with matplotlib.rc_context(STYLE):
        figure = Figure(
            figsize=(WIDTH, 0.8 + max(rows, 1) * (_ROW + _LINE * (lines - 1))), layout="constrained"
        )
        yield figure, figure.subplots()


def _finish(figure: Figure, axes: Any, labels: list[str], legend: bool = False) -> None:
    """Label the rows, with the first row at the top."""
    axes.set_yticks(range(len(labels)), [short(printable(label)) for label in labels])
    axes.set_ylim(max(len(labels), 1) - 0.5, -0.5)
    if legend:
        figure.legend(loc="outside upper center", ncols=3, handlelength=1, columnspacing=1.2)


def short(label: str) -> str:
    """Return a label, cut if it is too long."""
    return label if len(label) <= _LONGEST else label[: _LONGEST - 1] + "…"


def svg(figure: Any, name: str, says: str) -> Markup:
    """Return the figure as an SVG element with unique ids; `says` is its text for screen readers."""
    text = _saved(figure, transparent=True)
    text = text[text.index("<svg") :]
    head = rf'<svg viewBox="\1" role="img" aria-label="{says}">'
    text = re.sub(r'<svg[^>]*?viewBox="([^"]*)"[^>]*>', head, text, count=1)
    text = re.sub(r'(\bid="|url\(#|href="#)', rf"\1{name}-", text)
    return Markup(_coloured(text, _COLOURS))


def svg_file(figure: Any) -> str:
    """Return the figure as an SVG file for a white page, which looks the same with any fonts."""
    with matplotlib.rc_context({"svg.fonttype": "path"}):
        text = _saved(figure, facecolor="white")
    return _coloured(text, {stands_for: LIGHT[n] for n, stands_for in enumerate(_COLOURS, 1)})


def _saved(figure: Any, **how: Any) -> str:
    out = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with warnings.catch_warnings():
        # The browser has glyphs that matplotlib's own font lacks.
        warnings.filterwarnings("ignore", "Glyph")
        figure.savefig(out, format="svg", metadata=nothing, **how)
    return out.getvalue()


def _coloured(text: str, colours: dict[str, str]) -> str:
    for stands_for, colour in colours.items():
        text = text.replace(stands_for, colour)
    return text
