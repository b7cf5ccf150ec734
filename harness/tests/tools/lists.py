# SPDX-License-Identifier: Apache-2.0
"""Write the lists in docs/ that follow from the code: `make docs`.

A page has a list between `<!-- generated: NAME -->` and `<!-- /generated -->`. A test fails if a list is not
what the code says.
"""

import ast
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from riobed.guest.modes import all_modes
from riobed_results.tables.registry import CAMPAIGN_TABLES, FOLDER_TABLES, RUN_TABLES
from rooms import ALLOWED, CHECKOUT, modules

DOCS = CHECKOUT / "docs"
_BLOCK = re.compile(r"(<!-- generated: ([\w-]+) -->\n).*?(<!-- /generated -->)", re.DOTALL)


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown."""
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def tables() -> str:
    """Every table of `riobed table`, in the order of the command line."""

    def command(each: object) -> str:
        options = " ".join(f"[--{option.name.replace('_', '-')}]" for option in each.options)  # type: ignore[attr-defined]
        folder = "FOLDER" if each in FOLDER_TABLES else ""
        return f"`{' '.join(filter(None, (each.name, folder, options)))}`"  # type: ignore[attr-defined]

    every = (*CAMPAIGN_TABLES, *RUN_TABLES, *FOLDER_TABLES)
    return table(("table", "what it shows"), ((command(each), each.help) for each in every))


def modes() -> str:
    """Every shipped cache mode."""
    rows = ((f"`{name}`", mode.summary, mode.permanent) for name, mode in all_modes().items())
    return table(("mode", "what it is", "when a file is permanent"), rows)


def rooms() -> str:
    """Every room, what its own docstring says it is, and what it may import."""
    known = modules()

    def purpose(name: str) -> str:
        text = ast.get_docstring(ast.parse(known[name].read_text())) or ""
        first = " ".join(text.split("\n\n")[0].split()).rstrip(".")
        return first.partition(": ")[2] or first

    rows = (
        (f"`{name}`", purpose(name), ", ".join(f"`{each}`" for each in below))
        for name, below in ALLOWED.items()
        if name in known and below
    )
    return table(("room", "what it is", "may import"), rows)


def decisions() -> str:
    """Every decision, by its heading."""

    def entry(path: Path) -> tuple[str, str]:
        number, _, title = re.search(r"^# (\d+)(: )(.*)$", path.read_text(), re.MULTILINE).groups()  # type: ignore[union-attr]
        return f"[{number}]({path.name})", title

    return table(("number", "decision"), map(entry, sorted((DOCS / "decisions").glob("[0-9]*.md"))))


LISTS: dict[str, Callable[[], str]] = {each.__name__: each for each in (tables, modes, rooms, decisions)}


def with_lists(text: str) -> str:
    """Return a page with its lists as the code has them; KeyError if there is no list of a name."""
    return _BLOCK.sub(lambda block: f"{block[1]}{LISTS[block[2]]()}{block[3]}", text)


def pages() -> list[Path]:
    """Return the pages that have lists."""
    return [path for path in sorted(DOCS.rglob("*.md")) if _BLOCK.search(path.read_text())]


if __name__ == "__main__":
    for page in pages():
        page.write_text(with_lists(page.read_text()))
