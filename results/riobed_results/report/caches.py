# SPDX-License-Identifier: Apache-2.0
"""The page of a study of traces: its sentences, the curve of risk against writes, and all tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup
from riobed_caches.rows import CacheRow, LifetimeRow

from riobed_results.errors import StoreError
from riobed_results.files import write_whole
from riobed_results.report import plots
from riobed_results.tables.caches.grids import Study, read_study
from riobed_results.tables.caches.risk import headlines, risk_rows
from riobed_results.tables.framework.render import TEMPLATES, Page
from riobed_results.tables.registry import STUDY_TABLES

# Models whose marks lie beside the line of delays.
_MARKS = ("on-close", "delayed", "when-full", "never")


@dataclass(frozen=True)
class _Section:
    name: str
    page: Page


def caches_page(folder: Path, out: Path) -> None:
    """Write the page of a study; StoreError if the folder is none, OSError if it cannot be written."""
    study = read_study(folder)
    sections = []
    for table in STUDY_TABLES:
        try:
            sections.append(_Section(table.name, table.of(folder)))
        except StoreError:
            # The traces cannot support this table; the command for it says why.
            continue
    template = TEMPLATES.get_template("caches.html.j2")
    html = template.render(
        study=study, headlines=headlines(study), curve=risk_curve(study), sections=sections
    )
    write_whole(out, (html + "\n").encode())


def risk_curve(study: Study) -> Markup:
    """Plot bytes at risk against bytes sent, one line a trace, over delays from none to never."""
    lifetimes, caches = study.rows(LifetimeRow), risk_rows(study)
    lines = [
        _line(trace.trace, [row for row in lifetimes if row.trace == trace.trace], caches)
        for trace in study.traces
    ]
    return plots.risk([line for line in lines if line.points])


def _line(name: str, lifetimes: Sequence[LifetimeRow], caches: Sequence[CacheRow]) -> plots.RiskLine:
    mine = [row for row in caches if row.trace == name and row.written]
    largest = max((row.volatile + row.safe for row in mine), default=0)
    marks = {
        row.model: (row.sent / row.written, row.at_risk)
        for row in mine
        if row.model in _MARKS and row.volatile == largest
    }
    ordered = sorted(lifetimes, key=lambda row: row.delay if row.delay >= 0 else float("inf"))
    points = [(row.sent / row.written, row.at_risk) for row in ordered if row.written]
    return plots.RiskLine(name, points, marks)
