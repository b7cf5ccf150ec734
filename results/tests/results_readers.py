# SPDX-License-Identifier: Apache-2.0
"""Tables read back from each form for people: a list of grids, each a list of lines of cells."""

import re
from collections.abc import Callable
from html.parser import HTMLParser

from markdown_it import MarkdownIt
from riobed_results.tables.render import LATEX_ESCAPES

Grids = list[list[list[str]]]


class Cells(HTMLParser):
    """The text of each cell by table and row; fails on an element closed out of order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tables: Grids = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "meta":
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("th", "td"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("th", "td"):
            self.tables[-1][-1][-1] += data


def from_markdown(text: str) -> Grids:
    return Cells(MarkdownIt("commonmark").enable("table").render(text)).tables


def from_latex(text: str) -> Grids:
    plain = {escaped: char for char, escaped in LATEX_ESCAPES.items()}
    escapes = re.compile("|".join(map(re.escape, sorted(plain, key=len, reverse=True))))
    tabulars = re.findall(r"\\begin\{tabular\}\{lr+\}\n(.*?)\\end\{tabular\}", text, re.DOTALL)
    lines = [[line for line in tabular.splitlines() if line != r"\hline"] for tabular in tabulars]
    return [
        [
            [
                escapes.sub(lambda found: plain[found[0]], cell)
                for cell in line.removesuffix(r" \\").split(" & ")
            ]
            for line in of_grid
        ]
        for of_grid in lines
    ]


READERS: dict[str, Callable[[str], Grids]] = {
    "md": from_markdown,
    "html": lambda text: Cells(text).tables,
    "latex": from_latex,
}
