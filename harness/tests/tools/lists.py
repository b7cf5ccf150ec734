# SPDX-License-Identifier: Apache-2.0
"""Write the lists in the pages that follow from the code: `make docs`.

A page has a list between `<!-- generated: NAME -->` and `<!-- /generated -->`. A test fails if a list is not
what the code says.
"""

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa
import typer
from riobed.cli import app
from riobed.guest import Throttle, all_modes, disk_models
from riobed_results.files import write_whole
from riobed_results.store.base import Base, columns
from riobed_results.store.campaign import CampaignRow
from riobed_results.store.run import RunRow
from riobed_results.store.summary import facts_used_as
from riobed_results.store.trial import FaultRow, TrialRow

sys.path.insert(0, str(Path(__file__).parents[1]))

from rooms import ALLOWED, CHECKOUT, FACES, modules, room

DOCS = CHECKOUT / "docs"
_BLOCK = re.compile(r"(<!-- generated: ([\w-]+) -->\n).*?(<!-- /generated -->)", re.DOTALL)
# Where a command or table is explained, as a link from docs/commands.md.
EXPLAINED = {
    "bench": "performance.md",
    "caches": "traces.md",
    "calibrate": "decisions/037-exposure-and-dose.md",
    "faults executed": "faults.md#site-filters",
    "faults list": "faults.md",
    "faults sites": "faults.md",
    "modes": "own-mode.md",
    "profile": "performance.md#where-the-instructions-are-executed",
    "replay": "replay.md",
    "report": "results.md#the-report",
    "run": "survival.md",
    "soak": "../workloads/stress/README.md",
    "sweep": "../workloads/sweep/README.md",
    "table activated": "faults.md#the-same-dose-in-each-mode",
    "table comparison": "results.md#statistics",
    "table complaints": "results.md#complaints",
    "table corruption": "results.md#statistics",
    "table cost": "cost.md",
    "table noninferiority": "results.md#statistics",
    "table nvram": "nvram.md#what-the-table-shows",
    "table nvram-speed": "nvram.md#what-an-nvdimm-is-worth",
    "table performance": "performance.md",
    "table protocol": "protocol.md",
    "table replays": "replay.md",
    "table sensitivity": "results.md#what-is-counted",
    "table titles": "results.md#crash-titles",
    "table risk": "traces.md",
    "trace record": "traces.md",
    "trace import": "traces.md",
    "trace generate": "traces.md",
    "trials": "results.md#the-rows",
    "worker": "cluster.md",
}
# What is told of a column, in this order.
_TOLD = ("unit", "meaning", "since")
# Of each limit of a disk, what it is divided by to be read, and the unit then.
_UNITS = {
    "iops": (1, "requests a second"),
    "read_iops": (1, "reads a second"),
    "write_iops": (1, "writes a second"),
    "bytes_per_s": (10**6, "MB/s"),
    "read_bytes_per_s": (10**6, "MB/s read"),
    "write_bytes_per_s": (10**6, "MB/s written"),
}


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown."""
    head = list(head)
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "".join(f"|{''.join(f' {cell} |' if cell else ' |' for cell in line)}\n" for line in lines)


def all_commands() -> dict[str, Any]:
    """Return the commands of `riobed` by their words, in alphabetical order; the values are click's."""
    return dict(sorted(_leaves(typer.main.get_command(app), "")))


def _leaves(command: Any, words: str) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "commands"):
        yield words, command
        return
    for name, below in command.commands.items():
        if not below.hidden:
            yield from _leaves(below, f"{words} {name}".strip())


def commands() -> str:
    """Every command but those of `table`."""
    rows = (
        (f"`riobed {_usage(words, command)}`", _says(command), _link(words))
        for words, command in all_commands().items()
        if not words.startswith("table ")
    )
    return table(("command", "what it does", "more"), rows)


def tables() -> str:
    """Every table of `riobed table`."""
    rows = (
        (f"`{_usage(words.removeprefix('table '), command)}`", _says(command), _link(words))
        for words, command in all_commands().items()
        if words.startswith("table ")
    )
    return table(("table", "what it shows", "more"), rows)


def _usage(words: str, command: Any) -> str:
    """Return a command with what it must be given, and what it may be given without an option."""
    for each in command.params:
        if each.param_type_name == "argument":
            name = (each.metavar or each.name).strip("[].").upper() + ("..." if each.nargs < 0 else "")
            words += f" {name}" if each.required else f" [{name}]"
        elif each.required:
            words += f" {each.opts[0]} {each.name.upper()}"
    return words


def _says(command: Any) -> str:
    return str(command.get_short_help_str(1000)).rstrip(".")


def _link(words: str) -> str:
    place = EXPLAINED.get(words)
    return f"[{Path(place.partition('#')[0]).name}]({place})" if place else ""


def modes() -> str:
    """Every shipped cache mode."""
    rows = ((f"`{name}`", mode.summary, mode.permanent or "") for name, mode in all_modes().items())
    return table(("mode", "what it is", "when a file is permanent"), rows)


def disks() -> str:
    """Every disk model."""

    def limits(of: Throttle) -> str:
        given = of.model_dump(exclude_none=True)
        return ", ".join(
            f"{given[key] / unit:,g} {what}" for key, (unit, what) in _UNITS.items() if key in given
        )

    rows = ((f"`{name}`", disk.summary, limits(disk.limits)) for name, disk in disk_models().items())
    return table(("model", "disk", "limits"), rows)


def rooms() -> str:
    """Every room, what its own docstring says it is, and what it may import."""
    known = modules()

    def purpose(name: str) -> str:
        module = name.partition("'")[0] if name in FACES.values() else name
        if room(module) != name:
            return ", ".join(f"`{each.rpartition('.')[2]}`" for each in sorted(known) if room(each) == name)
        text = (ast.get_docstring(ast.parse(known[module].read_text())) or "").split("\n\n")[0]
        sentence = re.sub(r"^[\w-]+:\s", "", re.split(r"\.(?:\s|$)", text)[0])
        return " ".join(sentence.split())

    rows = (
        (f"`{name}`", purpose(name), ", ".join(f"`{each.removeprefix('riobed.')}`" for each in below))
        for name, below in ALLOWED.items()
    )
    return table(("room", "what it is", "may import"), rows)


def _title(page: Path) -> tuple[str, str]:
    """Return what a page's title has before and behind its colon."""
    title = re.search(r"^# (.*?): (.*)$", page.read_text(), re.MULTILINE)
    if not title:
        raise ValueError(f"{page}: want a title of the form NAME: WHAT")
    return title[1], title[2]


def folders() -> str:
    """Every injector and workload, by the title of its README."""
    found = [
        path.parent
        for parent in ("injectors", "workloads")
        for path in CHECKOUT.glob(f"{parent}/*/README.md")
    ]
    rows = ((path.relative_to(CHECKOUT).as_posix(), _title(path / "README.md")[1]) for path in sorted(found))
    return table(("folder", "what"), ((f"[`{name}/`](../{name}/README.md)", what) for name, what in rows))


def decisions() -> str:
    """Every decision, by its title."""
    rows = ((path, *_title(path)) for path in sorted((DOCS / "decisions").glob("[0-9]*.md")))
    return table(("number", "decision"), ((f"[{number}]({path.name})", what) for path, number, what in rows))


def columns_of(model: type[Base]) -> str:
    """Every column of a table of stores."""

    def kind(of: Any) -> str:
        if isinstance(getattr(of, "impl_instance", of), sa.JSON):
            return "JSON"
        return {int: "integer", float: "number", bool: "boolean"}.get(of.python_type, "text")

    rows = (
        (f"`{each.name}`", kind(each.type), *(str(each.info[key]) for key in _TOLD))
        for each in columns(model)
    )
    return table(("column", "type", "unit", "what it is", "since schema"), rows)


def derived() -> str:
    """Every fact of a trial that follows from its columns and that tables use."""
    rows = (
        (f"`{name}`", (inspect.getdoc(vars(TrialRow)[name]) or "").split("\n\n")[0].replace("\n", " "))
        for use in ("group", "value")
        for name in facts_used_as(use)
        if isinstance(vars(TrialRow).get(name), property)
    )
    return table(("fact", "what it is"), rows)


LISTS: dict[str, Callable[[], str]] = {
    each.__name__: each for each in (commands, tables, modes, disks, rooms, folders, decisions, derived)
} | {
    f"columns-{model.__tablename__}": partial(columns_of, model)
    for model in (CampaignRow, TrialRow, FaultRow, RunRow)
}


def with_lists(text: str) -> str:
    """Return a page with its lists as the code has them; KeyError if there is no list of a name."""
    return _BLOCK.sub(lambda block: f"{block[1]}{LISTS[block[2]]()}{block[3]}", text)


def pages() -> list[Path]:
    """Return the pages that have lists."""
    return [path for path in sorted(DOCS.rglob("*.md")) if _BLOCK.search(path.read_text())]


if __name__ == "__main__":
    for page in pages():
        write_whole(page, with_lists(page.read_text()).encode())
