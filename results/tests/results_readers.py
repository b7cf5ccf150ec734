# SPDX-License-Identifier: Apache-2.0
"""What is printed for people, read back. Tables are a list of grids, each a list of lines of cells."""

import re
from collections.abc import Callable
from html.parser import HTMLParser

from markdown_it import MarkdownIt
from riobed_results.tables.framework.render import LATEX_ESCAPES

Grids = list[list[list[str]]]


VOID = {"meta", "br", "hr", "img", "input", "link"}


class Html(HTMLParser):
    """Elements, attributes, text and tables of a page; fails on an element closed out of order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str, str]] = []
        self.tables: Grids = []
        self.captions: list[str] = []
        self.headings: list[str] = []
        self.text = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("th", "td"):
            self.tables[-1][-1].append("")
        elif tag == "h2":
            self.headings.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" in self.open:
            return
        self.text += data
        inside = self.open[-1] if self.open else ""
        if inside == "caption":
            self.captions.append(data)
        elif inside in ("th", "td"):
            self.tables[-1][-1][-1] += data
        elif inside == "h2":
            self.headings[-1] += data

    def values(self, tag: str, name: str) -> list[str]:
        return [value for *of, value in self.attributes if of == [tag, name]]

    def links(self) -> list[str]:
        return [value for value in self.values("a", "href") if not value.startswith("#")]


def from_markdown(text: str) -> Grids:
    return Html(MarkdownIt("commonmark").enable("table").render(text)).tables


def from_latex(text: str) -> Grids:
    plain = {escaped: char for char, escaped in LATEX_ESCAPES.items()}
    escapes = re.compile("|".join(map(re.escape, sorted(plain, key=len, reverse=True))))

    def cells(line: str) -> list[str]:
        parts = line.removesuffix(r" \\").split(" & ")
        return [escapes.sub(lambda found: plain[found[0]], part) for part in parts]

    tabulars = re.findall(r"\\begin\{tabular\}\{lr+\}\n(.*?)\\end\{tabular\}", text, re.DOTALL)
    return [[cells(line) for line in tabular.splitlines() if line != r"\hline"] for tabular in tabulars]


READERS: dict[str, Callable[[str], Grids]] = {
    "md": from_markdown,
    "html": lambda text: Html(text).tables,
    "latex": from_latex,
}
