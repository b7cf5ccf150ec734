# SPDX-License-Identifier: Apache-2.0
"""The page of a study of traces: its sentences, the curves of risk against writes, and all tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup
from riobed_caches.rows import CacheRow, LifetimeRow

from riobed_results.files import write_whole
from riobed_results.report import plots
from riobed_results.tables.caches.grids import Study, UnsupportedError, read_study, size_text
from riobed_results.tables.caches.risk import headlines, risk_rows
from riobed_results.tables.framework.render import TEMPLATES, Page
from riobed_results.tables.registry import STUDY_TABLES


@dataclass(frozen=True)
class _Section:
    name: str
    page: Page


@dataclass(frozen=True)
class _Curve:
    trace: str
    plot: Markup


def caches_page(folder: Path, out: Path) -> None:
    """Write the page of a study; StoreError if the folder is none, OSError if it cannot be written."""
    study = read_study(folder)
    sections, unsupported = [], {}
    for table in STUDY_TABLES:
        try:
            sections.append(_Section(table.name, table.of(folder)))
        except UnsupportedError as error:
            unsupported[table.title] = error.why
    template = TEMPLATES.get_template("caches.html.j2")
    lines = risk_lines(study)
    html = template.render(
        headlines=headlines(study),
        curves=_curves(study, lines),
        together=plots.risk(lines) if len(lines) > 1 else None,
        sections=sections,
        unsupported=unsupported,
        light=plots.LIGHT,
    )
    write_whole(out, (html + "\n").encode())


def _curves(study: Study, lines: Sequence[plots.RiskLine]) -> list[_Curve]:
    """Plot bytes at risk against bytes sent for each trace, one line a size of the cache."""
    rows, curves = risk_rows(study), []
    for number, line in enumerate(lines):
        mine = [row for row in rows if row.trace == line.label and row.model in plots.RISK_MARKS]
        sizes = sorted({row.volatile for row in mine})
        of_size = [
            plots.SizeLine(
                size_text(size),
                [(row.sent / row.written, row.at_risk, row.model) for row in mine if row.volatile == size],
            )
            for size in sizes
        ]
        curves.append(_Curve(line.label, plots.sizes(f"sizes{number}", of_size, line.points)))
    return curves


def risk_lines(study: Study) -> list[plots.RiskLine]:
    """Return bytes at risk and bytes sent for each trace, over delays from none to never."""
    lifetimes, caches = study.rows(LifetimeRow), risk_rows(study)
    lines = [
        _line(trace.trace, [row for row in lifetimes if row.trace == trace.trace], caches)
        for trace in study.traces
    ]
    return [line for line in lines if line.points]


def _line(name: str, lifetimes: Sequence[LifetimeRow], caches: Sequence[CacheRow]) -> plots.RiskLine:
    mine = [row for row in caches if row.trace == name and row.written]
    largest = max((row.volatile + row.safe for row in mine), default=0)
    # Write-through has nothing at risk, which a logarithmic axis does not have.
    marks = {
        row.model: (row.sent / row.written, row.at_risk)
        for row in mine
        if row.model in plots.RISK_MARKS and row.model != "write-through" and row.volatile == largest
    }
    ordered = sorted(lifetimes, key=lambda row: row.delay if row.delay >= 0 else float("inf"))
    points = [(row.sent / row.written, row.at_risk) for row in ordered if row.written]
    return plots.RiskLine(name, points, marks)
