# SPDX-License-Identifier: Apache-2.0
"""The pages say what is so: lists, links, commands and files that they name."""

import re
import shlex
from collections.abc import Iterable, Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import typer
from riobed.cli import app
from riobed.faults import CLASSES
from riobed.guest.settings.filesystems import FILE_SYSTEMS
from riobed.guest.settings.modes import CacheMode, all_modes
from riobed.guest.workload.description import Workload
from riobed.vm import Machine
from riobed_results.rules.endpoints import ENDPOINTS
from riobed_results.store import CONTROLS
from rooms import CHECKOUT
from tools.lists import EXPLAINED, all_commands, pages, with_lists

DOCS = CHECKOUT / "docs"
FRAGMENTS = CHECKOUT / "guest-kernel-patches" / "configs" / "fragments"
FOLDERS = ("docs", "harness", "results", "workloads", "injectors", "guest-kernel-patches", "playbooks")
PAGES = sorted(page for folder in FOLDERS for page in (CHECKOUT / folder).rglob("*.md")) + [
    CHECKOUT / "README.md",
    CHECKOUT / "CONTRIBUTING.md",
]
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


def test_the_first_page_links_to_every_page() -> None:
    linked = re.findall(r"\]\(([\w-]+\.md)", (DOCS / "README.md").read_text())
    assert {page.name for page in DOCS.glob("*.md")} - set(linked) == {"README.md"}


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


BLOCK = re.compile(r"^```\w*\n(.*?)^```", re.DOTALL | re.MULTILINE)
COMMAND_LINE = re.compile(r"\s*(?:\$ )?(?:RIOBED/)?(?:\.venv/bin/)?riobed (.*)")


def code(page: Path) -> list[str]:
    """The lines of a page's blocks of code, then what stands between backquotes in its text."""
    text = page.read_text()
    lines = [line for block in BLOCK.findall(text) for line in block.replace("\\\n", " ").split("\n")]
    return lines + [" ".join(part.split()) for part in re.findall(r"`([^`]+)`", BLOCK.sub("", text))]


def shown(page: Path) -> Iterator[str]:
    """The command lines of riobed in a page, with the first of several choices and what may be left out."""
    for line in code(page):
        if found := COMMAND_LINE.match(line):
            yield re.sub(r"\\?\|\S+|[][]", "", found[1]) if "[" in line else found[1]


# What ends a command line.
SHELL = {"|", ">", ">>", "&", "&&", ";"}
# Pages of published campaigns show the commands of the commit that they ran on.
NOW = [page for page in PAGES if "published" not in page.parts]


# A path in the checkout, alone or among the words of a command.
PLACE = re.compile(
    r"(?<![\w./-])(?:harness|results|docs|workloads|injectors|guest-kernel-patches|playbooks)/[\w./-]*[\w/]"
    r"(?![\w*{<-])"
)
# What a page tells the reader to make.
TO_BE_MADE = {"harness/riobed/faults/classes/wrong_constant.py"}


@pytest.mark.parametrize("page", NOW, ids=lambda page: page.name)
def test_files_are_there(page: Path) -> None:
    named = {place for line in code(page) for place in PLACE.findall(line)}
    assert [place for place in named - TO_BE_MADE if not (CHECKOUT / place).exists()] == []


def test_targets_of_make_are_there() -> None:
    targets = re.findall(r"^([a-z-]+):", (CHECKOUT / "Makefile").read_text(), re.MULTILINE)
    pages = [CHECKOUT / "README.md", CHECKOUT / "CONTRIBUTING.md", *DOCS.glob("*.md")]
    said = [
        name
        for page in pages
        for name in re.findall(r"(?:`|^)make ([a-z-]+)", page.read_text(), re.MULTILINE)
    ]
    assert said and set(said) - set(targets) == set()


@pytest.mark.parametrize("page", NOW, ids=lambda page: page.name)
def test_command_lines_are_valid(page: Path) -> None:
    wrong = []
    for line in shown(page):
        words = list(takewhile(lambda word: word not in SHELL, shlex.split(line, comments=True)))
        if complaint := complaint_about(words):
            wrong.append(f"{line}: {complaint}")
    assert wrong == []


def complaint_about(words: list[str]) -> str:
    """What is wrong with a command's name or options; "" if nothing is."""
    command: Any = COMMAND
    while hasattr(command, "commands") and words:
        name, *words = words
        if name.isupper():
            return ""
        if name not in command.commands:
            return f"no command {name}"
        command = command.commands[name]
    known = {option for each in command.params for option in (*each.opts, *each.secondary_opts)} | {"--help"}
    # What follows -- is for the guest.
    ours = words[: words.index("--")] if "--" in words else words
    return ", ".join(word for word in ours if word.startswith("--") and word.partition("=")[0] not in known)


def test_what_is_explained_is_a_command() -> None:
    assert EXPLAINED.keys() - all_commands().keys() == set()


def test_modes_that_lose_data_are_those_that_write_it_later_or_never() -> None:
    said = {name: mode.permanent or "" for name, mode in all_modes().items()}
    assert {name for name, when in said.items() if "asynchronous" in when or when == "never"} == {
        name for name, mode in all_modes().items() if mode.loses(power=False)
    }


TEXT = {name for name, each in CLASSES.items() if each.sites}
# Of a page and a heading, the names that the table there must have in a column.
NAMED: dict[tuple[str, str, int], Iterable[str]] = {
    ("add-backend.md", "What a machine must do", 1): {*vars(Machine), *Machine.__annotations__},
    ("faults.md", "Classes that change kernel text", 0): TEXT,
    ("faults.md", "Sites", 0): TEXT,
    ("faults.md", "Classes that act at run time", 0): CLASSES.keys() - TEXT - CONTROLS,
    ("nvram.md", "The modes", 0): {
        "journal-data",
        *(name for name, mode in all_modes().items() if mode.nvdimm),
    },
    ("own-kernel.md", "Options: a fragment", 0): {file.stem for file in FRAGMENTS.glob("*.config")},
    ("own-mode.md", "File systems", 0): FILE_SYSTEMS,
    ("own-mode.md", "Keys", 0): {"like", *CacheMode.model_fields},
    ("own-workload.md", "Keys", 0): Workload.model_fields,
    ("results.md", "What is counted", 0): {name for name in ENDPOINTS if not name.endswith("-judged")},
}


@pytest.mark.parametrize(("page", "heading", "column"), NAMED)
def test_tables_name_what_there_is(page: str, heading: str, column: int) -> None:
    section = (DOCS / page).read_text().partition(f"# {heading}\n")[2].partition("\n#")[0]
    cells = [row.split(" | ")[column] for row in re.findall(r"^\| (.*) \|$", section, re.MULTILINE)]
    listed = [name for cell in cells for name in re.findall(r"`([\w-]+)`", cell)]
    public = {name for name in NAMED[page, heading, column] if not name.startswith("_")}
    assert sorted(listed) == sorted(public)
