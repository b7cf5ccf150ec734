# SPDX-License-Identifier: Apache-2.0
"""Tables as text: Markdown, LaTeX, CSV, HTML and JSON."""

import re
from collections.abc import Callable
from dataclasses import dataclass

import jinja2

from riobed_results.environment import Environment


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

    `csv` and `json` are for programs, complete texts that end in a newline.
    """

    title: str
    source: str
    grids: list[Grid]
    note: str
    csv: str
    json: str


def render(page: Page, form: str) -> str:
    """Return `page` in the form `md`, `latex`, `csv`, `html` or `json`, ending in a newline."""
    return FORMS[form](page)


def printable(text: str) -> str:
    """Return `text` with control characters as escapes: names and titles may come from a crashed guest."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def source_text(campaign: str, on: Environment) -> str:
    """Return one line that says which campaign this is and on what it ran."""
    return printable(
        f"Campaign {campaign}, seed {on.seed}, {on.created}: Linux {on.kernel_release} (build id "
        f"{on.kernel_build_id}), series {on.series_commit}, {on.qemu_version}, "
        f"accelerator {on.accelerator}."
    )


def _markdown(page: Page) -> str:
    def text(plain: str) -> str:
        return re.sub(r"([\\|`*<])", r"\\\1", plain)

    def line(cells: list[str]) -> str:
        return "| " + " | ".join(map(text, cells)) + " |"

    parts = [text(page.source)]
    for grid in page.grids:
        rule = "|" + "|".join([":--", *["--:"] * (len(grid.head) - 1)]) + "|"
        lines = [line(grid.head), rule, *map(line, grid.body), *map(line, grid.foot)]
        parts += [f"**{grid.title}**", "\n".join(lines)]
    return "\n\n".join([*parts, page.note]) + "\n"


LATEX_ESCAPES = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "_": r"\_", "%": r"\%", "&": r"\&", "#": r"\#",
    "$": r"\$", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
}  # fmt: skip


def _latex(page: Page) -> str:
    def text(plain: str) -> str:
        return "".join(LATEX_ESCAPES.get(c, c) for c in plain)

    def line(cells: list[str]) -> str:
        return " & ".join(map(text, cells)) + r" \\"

    parts = [r"\begin{table}", r"\centering", rf"\caption{{{text(page.source)} {text(page.note)}}}"]
    for grid in page.grids:
        columns = "l" + "r" * (len(grid.head) - 1)
        parts += [rf"\par\medskip\textbf{{{text(grid.title)}}}\par", rf"\begin{{tabular}}{{{columns}}}"]
        parts += [r"\hline", line(grid.head), r"\hline", *map(line, grid.body)]
        parts += [r"\hline", *map(line, grid.foot), r"\hline", r"\end{tabular}"]
    return "\n".join([*parts, r"\end{table}"]) + "\n"


HTML = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string("""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ page.title }}</title>
<style>
:root { color-scheme: light dark; font-family: sans-serif; }
body { max-width: 60rem; margin: 1rem auto; padding: 0 1rem; }
div { overflow-x: auto; }
table { border-collapse: collapse; margin: 1rem 0; }
caption, th:first-child { text-align: left; }
caption { font-weight: bold; }
th, td { padding: 0.2rem 0.8rem; text-align: right; white-space: nowrap; }
thead, tfoot { border-top: 1px solid; border-bottom: 1px solid; }
</style>
</head>
<body>
<p>{{ page.source }}</p>
{% macro line(cells) %}
<tr><th scope="row">{{ cells[0] }}</th>{% for cell in cells[1:] %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endmacro %}
{% for grid in page.grids %}
<div><table>
<caption>{{ grid.title }}</caption>
<thead><tr>{% for cell in grid.head %}<th scope="col">{{ cell }}</th>{% endfor %}</tr></thead>
<tbody>
{% for cells in grid.body %}{{ line(cells) }}{% endfor %}
</tbody>
<tfoot>
{% for cells in grid.foot %}{{ line(cells) }}{% endfor %}
</tfoot>
</table></div>
{% endfor %}
<p>{{ page.note }}</p>
</body>
</html>
""")


def _html(page: Page) -> str:
    return HTML.render(page=page) + "\n"


FORMS: dict[str, Callable[[Page], str]] = {
    "md": _markdown,
    "latex": _latex,
    "csv": lambda page: page.csv,
    "html": _html,
    "json": lambda page: page.json,
}
