# SPDX-License-Identifier: Apache-2.0
"""Render tables as Markdown, LaTeX, CSV, HTML and JSON."""

import csv
import html
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import jinja2

from riobed_results.store import KernelProvenance, Provenance
from riobed_results.text import printable


@dataclass(frozen=True)
class Grid:
    """One table of plain text cells; the first column names the row, `foot` has the summary rows."""

    title: str
    head: list[str]
    body: list[list[str]]
    foot: list[list[str]]


@dataclass(frozen=True)
class Page:
    """A table ready to print: `grids` for people, with a line about their `source` and a `note`.

    `legend` has one line for each column, or line, whose name does not say what it is.
    `says` are sentences that follow from the numbers, and stand below the grids.
    `csv` and `json` are complete texts for programs and end in a newline. `title` is the title of a browser's
    window. `warnings` qualify the numbers and come first.
    """

    source: str
    grids: list[Grid]
    note: str
    csv: str
    json: str
    title: str = ""
    warnings: Sequence[str] = ()
    legend: Mapping[str, str] = field(default_factory=dict)
    says: Sequence[str] = ()


class Dumped(Protocol):
    """A pydantic model."""

    def model_dump_json(self, *, indent: int) -> str:
        """Return everything computed, as JSON."""


def render(page: Page, form: str) -> str:
    """Render `page` as `md`, `latex`, `csv`, `html` or `json`; the text ends in a newline."""
    return FORMS[form](page)


def csv_text(head: Iterable[object], lines: Iterable[Iterable[object]]) -> str:
    """Return a table as CSV with newlines as line ends; None is an empty field."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(lines)
    return out.getvalue()


def json_text(model: Dumped) -> str:
    """Return a model as JSON that ends in a newline."""
    return model.model_dump_json(indent=2) + "\n"


def source_text(campaign: str, on: Provenance) -> str:
    """Return one line that names a campaign and its provenance, also of modes with kernels of their own."""
    modes: dict[KernelProvenance, list[str]] = {}
    for mode, kernel in on.kernels.items():
        modes.setdefault(kernel, []).append(mode)
    own = "".join(f"; {', '.join(names)}: {_kernel_text(kernel)}" for kernel, names in modes.items())
    return printable(
        f"Campaign {campaign}, seed {on.seed}, {on.created}: {_kernel_text(on.kernel)}{own}, "
        f"{on.qemu_version}, accelerator {on.accelerator}."
    )


def _kernel_text(kernel: KernelProvenance) -> str:
    return f"Linux {kernel.release} (build id {kernel.build_id}), series {kernel.series_commit}"


# Characters that may be markup in CommonMark, or on GitHub in tables, formulas, struck-out text and bare
# addresses. _ is markup unless letters or digits are on both sides. HTML is escaped as entities, because not
# every Markdown reader accepts a backslash before < or &.
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
    if page.says:
        parts.append("\n".join(f"- {text(each)}" for each in page.says))
    legend = "\n".join(f"- **{text(name)}**: {text(meaning)}" for name, meaning in page.legend.items())
    return "\n\n".join([*parts, page.note, *([legend] if legend else [])]) + "\n"


# OT1, the font encoding without the package fontenc, has other characters in place of <, > and |, and only
# one quotation mark except in typewriter. After \\, which ends a line, [ and * would be its arguments.
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
    parts += [rf"\par {text(each)}\par" for each in page.says]
    parts += [rf"\par\textbf{{{text(name)}}}: {text(meaning)}\par" for name, meaning in page.legend.items()]
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
