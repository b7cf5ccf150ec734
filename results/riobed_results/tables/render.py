# SPDX-License-Identifier: Apache-2.0
"""Tables as text: Markdown, LaTeX, CSV, HTML and JSON."""

import csv
import html
import io
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import jinja2

from riobed_results.store import Provenance


@dataclass(frozen=True)
class Grid:
    """One table of plain text cells: the first column names the row, `foot` are its summary rows."""

    title: str
    head: list[str]
    body: list[list[str]]
    foot: list[list[str]]


@dataclass(frozen=True)
class Page:
    """All that is printed of a table: for people `grids` with a line about the `source` and a `note`.

    `csv` and `json` are for programs, complete texts that end in a newline. `title` is for the window of a
    browser. `warnings` are what is to be known before any of it is believed.
    """

    source: str
    grids: list[Grid]
    note: str
    csv: str
    json: str
    title: str = ""
    warnings: Sequence[str] = ()


class Dumped(Protocol):
    """A model of pydantic's."""

    def model_dump_json(self, *, indent: int) -> str:
        """Return everything computed, as JSON."""


def render(page: Page, form: str) -> str:
    """Return `page` in the form `md`, `latex`, `csv`, `html` or `json`, ending in a newline."""
    return FORMS[form](page)


def printable(text: str) -> str:
    """Return `text` with control characters as escapes: names and titles may come from a crashed guest."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def csv_text(head: Iterable[object], lines: Iterable[Iterable[object]]) -> str:
    """Return a table as CSV whose lines end in a newline; None is an empty field."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(lines)
    return out.getvalue()


def json_text(model: Dumped) -> str:
    """Return a model as JSON that ends in a newline."""
    return model.model_dump_json(indent=2) + "\n"


def source_text(campaign: str, on: Provenance) -> str:
    """Return one line that says which campaign this is and on what it ran."""
    return printable(
        f"Campaign {campaign}, seed {on.seed}, {on.created}: Linux {on.kernel_release} (build id "
        f"{on.kernel_build_id}), series {on.series_commit}, {on.qemu_version}, "
        f"accelerator {on.accelerator}."
    )


# What may be markup to CommonMark, or to GitHub in its tables, formulas, struck-out text and bare addresses:
# _ unless letters or digits are on both sides. HTML is escaped as such: not every reader of Markdown takes a
# backslash before < or &.
_MARKUP = re.compile(r"[\\|`*\[\]~$]|(?<!\w)_++|(?<!_)_++(?![^\W_])|:(?=//)|(?<=www)\.", re.IGNORECASE)


def _markdown(page: Page) -> str:
    def text(plain: str) -> str:
        return _MARKUP.sub(lambda found: "".join(f"\\{c}" for c in found[0]), html.escape(plain, quote=False))

    def line(cells: list[str]) -> str:
        return "| " + " | ".join(map(text, cells)) + " |"

    parts = [text(page.source), *(f"**{text(warning)}**" for warning in page.warnings)]
    for grid in page.grids:
        rule = "|" + "|".join([":--", *["--:"] * (len(grid.head) - 1)]) + "|"
        lines = [line(grid.head), rule, *map(line, grid.body), *map(line, grid.foot)]
        parts += [f"**{text(grid.title)}**", "\n".join(lines)]
    return "\n\n".join([*parts, page.note]) + "\n"


# OT1, the encoding of fonts without fontenc, has other characters in the places of <, > and |, and one
# quotation mark but in typewriter. After \\, which ends a line, [ and * would be its arguments.
LATEX_ESCAPES = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "_": r"\_", "%": r"\%", "&": r"\&", "#": r"\#",
    "$": r"\$", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r'\texttt{"}',
    "[": "{[}", "*": "{*}",
}  # fmt: skip


def _latex(page: Page) -> str:
    def text(plain: str) -> str:
        return "".join(LATEX_ESCAPES.get(c, c) for c in plain)

    def line(cells: list[str]) -> str:
        return " & ".join(map(text, cells)) + r" \\"

    parts = [r"\begin{table}", r"\centering", rf"\caption{{{text(page.source)} {text(page.note)}}}"]
    parts += [rf"\par\textbf{{{text(warning)}}}\par" for warning in page.warnings]
    for grid in page.grids:
        columns = "l" + "r" * (len(grid.head) - 1)
        parts += [rf"\par\medskip\textbf{{{text(grid.title)}}}\par", rf"\begin{{tabular}}{{{columns}}}"]
        parts += [r"\hline", line(grid.head), r"\hline", *map(line, grid.body)]
        parts += [r"\hline", *map(line, grid.foot), r"\hline", r"\end{tabular}"]
    return "\n".join([*parts, r"\end{table}"]) + "\n"


TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("riobed_results"), autoescape=True, trim_blocks=True, lstrip_blocks=True
)
TEMPLATES.globals["printable"] = printable


def _html(page: Page) -> str:
    return TEMPLATES.get_template("page.html.j2").render(page=page) + "\n"


FORMS: dict[str, Callable[[Page], str]] = {
    "md": _markdown,
    "latex": _latex,
    "csv": lambda page: page.csv,
    "html": _html,
    "json": lambda page: page.json,
}
