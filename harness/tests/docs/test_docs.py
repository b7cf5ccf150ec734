# SPDX-License-Identifier: Apache-2.0
"""The pages say what is so: lists, links, commands and files that they name."""

import re
import shlex
import subprocess
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import typer
from riobed.cli import app
from riobed.guest.modes import all_modes
from rooms import CHECKOUT
from tools.lists import pages, with_lists

DOCS = CHECKOUT / "docs"
KNOWN = subprocess.check_output(["git", "ls-files", "*.md"], cwd=CHECKOUT, text=True).split("\n")[:-1]
PAGES = [CHECKOUT / name for name in KNOWN]
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(CHECKOUT).as_posix())
COMMAND = typer.main.get_command(app)


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_lists_are_what_the_code_says(page: Path) -> None:
    assert page.read_text() == with_lists(page.read_text()), "run make docs"


@every_page
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    gone = []
    for target, _, anchor in (link.partition("#") for link in re.findall(r"\]\(([^)\s]+)\)", text)):
        if "://" in target:
            continue
        other = page.parent / target if target else page
        if not other.exists() or (anchor and anchor not in anchors(other)):
            gone.append(f"{target}#{anchor}")
    assert gone == []


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def shown(page: Path) -> Iterator[str]:
    """The command lines of riobed in a page's blocks of code."""
    for block in re.findall(r"^```\w*\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE):
        for line in block.replace("\\\n", " ").split("\n"):
            if found := re.match(r"\s*(?:\$ )?(?:\.venv/bin/)?riobed (.*)", line):
                yield found[1]


# What ends a command line.
SHELL = {"|", ">", ">>", "&", "&&", ";"}
# Pages of published campaigns show the commands of the commit that they ran on.
CURRENT = [page for page in PAGES if "published" not in page.parts and any(shown(page))]


@pytest.mark.parametrize("page", CURRENT, ids=lambda page: page.name)
def test_command_lines_are_valid(page: Path) -> None:
    wrong = []
    for line in shown(page):
        words = list(takewhile(lambda word: word not in SHELL, shlex.split(line, comments=True)))
        if complaint := complaint_about(words):
            wrong.append(f"{line}: {complaint}")
        files = [word for word in words if word.startswith("harness/")]
        wrong += [f"no file {file}" for file in files if not (CHECKOUT / file).exists()]
    assert wrong == []


def complaint_about(words: list[str]) -> str:
    """What is wrong with a command's name or options; "" if nothing is."""
    command: Any = COMMAND
    while hasattr(command, "commands") and words:
        name, *words = words
        if name not in command.commands:
            return f"no command {name}"
        command = command.commands[name]
    known = {option for each in command.params for option in (*each.opts, *each.secondary_opts)} | {"--help"}
    # What follows -- is for the guest.
    ours = words[: words.index("--")] if "--" in words else words
    return ", ".join(word for word in ours if word.startswith("--") and word.partition("=")[0] not in known)


def leaves(command: Any, name: str = "riobed") -> Iterator[str]:
    """The commands below one, but for the tables."""
    if not hasattr(command, "commands"):
        yield name
        return
    for word, below in command.commands.items():
        if not below.hidden and word != "table":
            yield from leaves(below, f"{name} {word}")


def test_each_command_is_on_the_page_of_commands() -> None:
    text = (DOCS / "commands.md").read_text()
    assert [name for name in leaves(COMMAND) if f"`{name}" not in text] == []


def test_the_page_of_non_volatile_memory_has_each_mode_that_uses_it() -> None:
    modes = (DOCS / "nvram.md").read_text().partition("## The modes")[2].partition("## Recovery")[0]
    listed = set(re.findall(r"^\| `([\w-]+)` \|", modes, re.MULTILINE))
    assert listed == {name for name, mode in all_modes().items() if mode.nvdimm} | {"journal-data"}
