# SPDX-License-Identifier: Apache-2.0
"""The corruption table as text: Markdown, LaTeX, CSV, HTML and JSON."""

import csv
import io
import re
from collections.abc import Callable
from dataclasses import dataclass

import jinja2

from riobed_results.corruption import CorruptionTable, Share
from riobed_results.queries import Counts

NO_CRASH = "-"  # in the place of a count that rests on no crash at all; a blank means none of some
NOTE = (
    "Corruptions: crashes after which a file or directory differed from what it must be; blank: none, "
    "-: no crash counted. Totals: corruptions of crashes, with the exact (Clopper-Pearson) 95 % interval. "
    "A discard (no crash within the limit) and an infra error (our own failure, tried again) are in no "
    "denominator."
)


@dataclass(frozen=True)
class Grid:
    """One table of plain text cells: the first column names the row, `foot` are its summary rows."""

    title: str
    head: list[str]
    body: list[list[str]]
    foot: list[list[str]]


def render(table: CorruptionTable, form: str) -> str:
    """Return `table` in the form `md`, `latex`, `csv`, `html` or `json`, ending in a newline."""
    return FORMS[form](table)


def printable(text: str) -> str:
    """Return `text` with control characters as escapes: names and titles may come from a crashed guest."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def cell_text(counts: Counts) -> str:
    """Return a cell of the paper's form: the number of corruptions, blank for none."""
    return NO_CRASH if not counts.crashes else str(counts.corrupted or "")


def total_text(counts: Counts) -> str:
    """Return `n of N (p %)` over crashes, without the percentage if there was no crash."""
    share = f" ({counts.corrupted / counts.crashes:.1%})".replace("%", " %") if counts.crashes else ""
    return f"{counts.corrupted} of {counts.crashes}{share}"


def interval_text(share: Share) -> str:
    """Return an interval in per cent, e.g. `0.5 to 2.2 %`."""
    if share.low is None or share.high is None:
        return NO_CRASH
    return f"{share.low * 100:.1f} to {share.high * 100:.1f} %"


def grids(table: CorruptionTable) -> list[Grid]:
    """Return the two tables for people: corruptions, and the numbers of trials behind them."""
    totals = [table.totals[mode] for mode in table.modes]
    shares = [table.statistics.totals[mode] for mode in table.modes]
    head = ["Fault class", *map(printable, table.modes)]

    def body(cell: Callable[[Counts], str]) -> list[list[str]]:
        return [
            [printable(row.fault_class), *(cell(row.cells[mode]) for mode in table.modes)]
            for row in table.rows
        ]

    corruptions = [
        ["Total", *map(total_text, totals)],
        ["95 % interval", *map(interval_text, shares)],
    ]
    trials = [
        ["Total", *map(_trials_text, totals)],
        ["Protection traps", *(str(total.traps) for total in totals)],
        ["Infra errors", *(str(total.infra_errors) for total in totals)],
    ]
    return [
        Grid("Corruptions", head, body(cell_text), corruptions),
        Grid("Crashes + discards", head, body(_trials_text), trials),
    ]


def source_text(table: CorruptionTable) -> str:
    """Return one line that says which campaign this is and on what it ran."""
    on = table.statistics.environment
    return printable(
        f"Campaign {table.campaign}, seed {on.seed}, {on.created}: Linux {on.kernel_release} (build id "
        f"{on.kernel_build_id}), series {on.series_commit}, QEMU {on.qemu_version}, "
        f"accelerator {on.accelerator}."
    )


def _trials_text(counts: Counts) -> str:
    return f"{counts.crashes} + {counts.discards}"


def _markdown(table: CorruptionTable) -> str:
    def text(plain: str) -> str:
        return re.sub(r"([\\|`*<])", r"\\\1", plain)

    def line(cells: list[str]) -> str:
        return "| " + " | ".join(map(text, cells)) + " |"

    parts = [text(source_text(table))]
    for grid in grids(table):
        rule = "|" + "|".join([":--", *["--:"] * (len(grid.head) - 1)]) + "|"
        lines = [line(grid.head), rule, *map(line, grid.body), *map(line, grid.foot)]
        parts += [f"**{grid.title}**", "\n".join(lines)]
    return "\n\n".join([*parts, NOTE]) + "\n"


LATEX_ESCAPES = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "_": r"\_", "%": r"\%", "&": r"\&", "#": r"\#",
    "$": r"\$", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
}  # fmt: skip


def _latex(table: CorruptionTable) -> str:
    def text(plain: str) -> str:
        return "".join(LATEX_ESCAPES.get(c, c) for c in plain)

    def line(cells: list[str]) -> str:
        return " & ".join(map(text, cells)) + r" \\"

    parts = [r"\begin{table}", r"\centering", rf"\caption{{{text(source_text(table))} {text(NOTE)}}}"]
    for grid in grids(table):
        columns = "l" + "r" * (len(grid.head) - 1)
        parts += [rf"\par\medskip\textbf{{{text(grid.title)}}}\par", rf"\begin{{tabular}}{{{columns}}}"]
        parts += [r"\hline", line(grid.head), r"\hline", *map(line, grid.body)]
        parts += [r"\hline", *map(line, grid.foot), r"\hline", r"\end{tabular}"]
    return "\n".join([*parts, r"\end{table}"]) + "\n"


def _csv(table: CorruptionTable) -> str:
    """One table: the paper's form in the columns named like the modes, then the counts behind it."""
    behind = ("crashes", "discards", "traps", "infra_errors")
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["fault_class", *table.modes, *(f"{m} {name}" for m in table.modes for name in behind)])
    lines = [(row.fault_class, row.cells, cell_text) for row in table.rows]
    for label, cells, form in [*lines, ("Total", table.totals, total_text)]:
        of = [cells[mode] for mode in table.modes]
        writer.writerow([label, *map(form, of), *(getattr(c, name) for c in of for name in behind)])
    return out.getvalue()


HTML = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string("""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Corruption table of {{ table.campaign }}</title>
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
<p>{{ source }}</p>
{% macro line(cells) %}
<tr><th scope="row">{{ cells[0] }}</th>{% for cell in cells[1:] %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endmacro %}
{% for grid in grids %}
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
<p>{{ note }}</p>
</body>
</html>
""")


def _html(table: CorruptionTable) -> str:
    return HTML.render(table=table, source=source_text(table), grids=grids(table), note=NOTE) + "\n"


def _json(table: CorruptionTable) -> str:
    return table.model_dump_json(indent=2) + "\n"


FORMS: dict[str, Callable[[CorruptionTable], str]] = {
    "md": _markdown,
    "latex": _latex,
    "csv": _csv,
    "html": _html,
    "json": _json,
}
