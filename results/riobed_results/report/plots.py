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

from riobed_results.tables.proportions import Share
from riobed_results.tables.render import printable

WIDTH = 4.6  # inches; still legible on a phone
_ROW = 0.24  # inches for a row with one line; each further line adds _LINE
_LINE = 0.11
_SPREAD = 0.68  # fraction of a row's height that its lines take
_LONGEST = 36  # characters; longer labels are cut
# Placeholders for the page's colours: the first is its text colour, the last means corruption.
_COLOURS = {f"#0000{number:02x}": f"var(--c{number})" for number in range(1, 10)}
INK, GRID, CRASH, DISCARD, BAD = ("#000001", "#000002", "#000003", "#000004", "#000005")
SERIES = ("#000006", "#000007", "#000008", "#000009", "#000003")
_STYLE: Any = {
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
class Line:
    """A proportion in the row `label`; `series` selects its colour."""

    label: str
    series: int
    share: Share


def intervals(name: str, lines: Sequence[Line], series: Sequence[str] = ()) -> Markup:
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
            axes.plot([], [], color=SERIES[number % len(SERIES)], label=_short(printable(text)))
        axes.set_xscale("function", functions=(lambda x: np.sqrt(np.maximum(x, 0)), np.square))
        axes.set_xlim(0, 100)
        axes.set_xticks([0, 1, 5, 10, 25, 50, 75, 100])
        axes.set_xlabel("% of crashes")
        _finish(figure, axes, list(rows), legend=bool(series))
        return _svg(figure, name, "Shares of crashes with corruption and their 95 % intervals")


def crash_times(seconds: dict[str, list[float]]) -> Markup:
    """Plot the times from injection to crash by fault class: a mark per crash, a line at the median."""
    with _figure(len(seconds)) as (figure, axes):
        for row, values in enumerate(seconds.values()):
            spread = np.random.default_rng(row).uniform(-0.28, 0.28, len(values))
            shown = np.maximum(values, _SHORTEST_S)
            axes.plot(shown, row + spread, "o", color=CRASH, alpha=0.55, markersize=3, markeredgewidth=0)
            axes.plot([np.median(shown)] * 2, [row - 0.36, row + 0.36], color=INK, linewidth=1.6)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda seconds, _: f"{seconds:g}")
        axes.minorticks_off()
        axes.set_xlabel("seconds")
        _finish(figure, axes, list(seconds))
        return _svg(figure, "times", "Times from injection to crash by fault class")


# Seconds. Shorter times are drawn here: the host polls for crashes, so they are not exact.
_SHORTEST_S = 0.01


@dataclass(frozen=True)
class Outcomes:
    """The outcomes of the trials of one bar in the row `label`."""

    label: str
    sound: int
    corrupted: int
    discards: int


def outcomes(bars: Sequence[Outcomes]) -> Markup:
    """Plot a bar of three parts for each entry."""
    rows = _by_label(bars)
    many = max(map(len, rows.values()), default=1)
    with _figure(len(rows), many) as (figure, axes):
        drawn = [bar for of_row in rows.values() for bar in of_row]
        places = [y for row, of_row in enumerate(rows.values()) for y in _places(row, len(of_row))]
        left = np.zeros(len(drawn))
        for label, colour, values in (
            ("corruption", BAD, [bar.corrupted for bar in drawn]),
            ("crash, all well", CRASH, [bar.sound for bar in drawn]),
            ("discard", DISCARD, [bar.discards for bar in drawn]),
        ):
            axes.barh(places, values, left=left, color=colour, label=label, height=0.9 * _SPREAD / many)
            left += np.array(values)
        axes.set_xlabel("trials")
        axes.xaxis.get_major_locator().set_params(integer=True)
        _finish(figure, axes, list(rows), legend=True)
        return _svg(figure, "outcomes", "Outcomes of trials")


def _by_label(things: Iterable[Labelled]) -> dict[str, list[Labelled]]:
    rows: dict[str, list[Labelled]] = {}
    for thing in things:
        rows.setdefault(thing.label, []).append(thing)
    return rows


def _places(row: int, count: int) -> list[float]:
    """Return the y positions of `count` items in a row, from the top."""
    return [row + _SPREAD * ((number + 0.5) / count - 0.5) for number in range(count)]


@contextmanager
def _figure(rows: int, lines: int = 1) -> Iterator[tuple[Any, Any]]:
    with matplotlib.rc_context(_STYLE):
        figure = Figure(
            figsize=(WIDTH, 0.8 + max(rows, 1) * (_ROW + _LINE * (lines - 1))), layout="constrained"
        )
        yield figure, figure.subplots()


def _finish(figure: Figure, axes: Any, labels: list[str], legend: bool = False) -> None:
    """Label the rows, with the first row at the top."""
    axes.set_yticks(range(len(labels)), [_short(printable(label)) for label in labels])
    axes.set_ylim(max(len(labels), 1) - 0.5, -0.5)
    if legend:
        figure.legend(loc="outside upper center", ncols=3, handlelength=1, columnspacing=1.2)


def _short(label: str) -> str:
    return label if len(label) <= _LONGEST else label[: _LONGEST - 1] + "…"


def _svg(figure: Any, name: str, says: str) -> Markup:
    """Return the figure as an SVG element with unique ids; `says` is its text for screen readers."""
    out = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with warnings.catch_warnings():
        # The browser has glyphs that matplotlib's own font lacks.
        warnings.filterwarnings("ignore", "Glyph")
        figure.savefig(out, format="svg", transparent=True, metadata=nothing)
    text = out.getvalue()
    text = text[text.index("<svg") :]
    head = rf'<svg viewBox="\1" role="img" aria-label="{says}">'
    text = re.sub(r'<svg[^>]*?viewBox="([^"]*)"[^>]*>', head, text, count=1)
    text = re.sub(r'(\bid="|url\(#|href="#)', rf"\1{name}-", text)
    for stands_for, colour in _COLOURS.items():
        text = text.replace(stands_for, colour)
    return Markup(text)
