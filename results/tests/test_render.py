# SPDX-License-Identifier: Apache-2.0
"""Every form of the table says the same, read back by a parser of that form."""

import csv
import io
import re

import pytest
from markdown_it import MarkdownIt
from results_builders import fill
from results_readers import READERS
from riobed_results.store import KernelProvenance, Provenance
from riobed_results.store.store import Store
from riobed_results.tables.corruption.corruption import CorruptionTable, corruption_page, corruption_table
from riobed_results.tables.framework.render import Grid, Page, render, source_text

PROVENANCE = Provenance(
    seed="1", kernel_release="6.12.9", kernel_build_id="aa", series_commit="bb", qemu_version="QEMU 8",
    accelerator="tcg", created="2026",
)  # fmt: skip
MODES = ["write-through", "rio_%", "late"]
ENDS = ["crashes", "stuck", "survived"]
HEAD = ["Fault class", *MODES]
CORRUPTIONS = [
    HEAD,
    ["kernel_text", "", "2", "-"],
    ["delete_branch", "-", "", "-"],
    ["Total (panic + hang)", "0 of 3 (0.0 %)", "2 of 5 (40.0 %)", "0 of 0"],
    ["95 % interval", "0.0 to 70.8 %", "5.3 to 85.3 %", "-"],
    ["Years to a corruption", "more than 0.2", "0.4 (0.2 to 3.2)", "-"],
]
STUCK = [
    HEAD,
    ["kernel_text", "-", "1 of 1", "-"],
    ["delete_branch", "-", "-", "-"],
    ["Total", "0 of 0", "1 of 1 (100.0 %)", "0 of 0"],
    ["95 % interval", "-", "2.5 to 100.0 %", "-"],
]
LOST = [
    ["", *MODES],
    ["Judged by", "each step", "each step", "-"],
    ["Files: median, most", "-", "-", "-"],
    ["Bytes: median, most", "-", "-", "-"],
    ["Seconds: median, most", "-", "-", "-"],
]
TRIALS = [
    HEAD,
    ["kernel_text", "3 + 0 + 0", "4 + 1 + 0", "0 + 0 + 0"],
    ["delete_branch", "0 + 0 + 2", "1 + 0 + 0", "0 + 0 + 0"],
    ["Total", "3 + 0 + 2", "5 + 1 + 0", "0 + 0 + 0"],
    ["Protection traps", "0", "1", "0"],
    ["Infra errors", "0", "2", "0"],
]
COMPARED = [
    ["Modes", "Fisher's p", "Pairs", "Only first", "Only second", "McNemar's p", "Crashes needed"],
    ["write-through, rio_%", "0.46", "0", "0", "0", "-", "20"],
    ["write-through, late", "-", "0", "0", "0", "-", "-"],
    ["rio_%, late", "-", "0", "0", "0", "-", "-"],
]
PAPER = [
    ["Fault class", "write-through", "paper"],
    ["kernel_text", "0 of 3", "2 of 50"],
    ["delete_branch", "0 of 0", "1 of 50"],
    ["Total", "0 of 3 (0.0 %)", "3 of 100 (3.0 %)"],
    ["95 % interval", "0.0 to 70.8 %", "0.6 to 8.5 %"],
    ["Fisher's p", "1.00", ""],
]
ALL = [CORRUPTIONS, STUCK, LOST, TRIALS, COMPARED, PAPER]


@pytest.fixture
def table(store: Store) -> CorruptionTable:
    """Made by hand; the expected tables above were counted from this list."""
    first, error = {"mode": "write-through"}, {"outcome": "infra_error", "position": 10}
    second, deleted = {"mode": "rio_%"}, {"mode": "rio_%", "fault_class": "delete_branch"}
    results = fill(
        store,
        first,
        first | {"outcome": "hang", "crash_kind": "hang"},
        first,
        second | {"corruption": "direct"},
        second | {"corruption": "unclassified", "corruption_where": "disk"},
        second,
        second | {"crash_kind": "trap"},
        second | {"outcome": "stuck", "corruption": "direct"},
        *[first | {"outcome": "survived", "fault_class": "delete_branch"}] * 2,
        deleted | error,
        deleted | error | {"attempt": 2},
        deleted | {"position": 10, "attempt": 3},
        modes=MODES,
        classes=["kernel_text", "delete_branch"],
    )
    return corruption_table(results)


def test_the_table_for_people(table: CorruptionTable) -> None:
    grids = corruption_page(table).grids
    blocks = ["Corruptions after a panic", "Corruptions after a hang", "Corruptions of stuck workloads"]
    assert [grid.title.partition(" (")[0] for grid in grids[1:4]] == blocks
    del grids[1:3], grids[2]
    assert [[grid.head, *grid.body, *grid.foot] for grid in grids] == ALL


def test_the_table_for_programs(table: CorruptionTable) -> None:
    lines = list(csv.DictReader(io.StringIO(render(corruption_page(table), "csv"))))
    assert [[line["fault_class"], *(line[mode] for mode in MODES)] for line in lines] == [
        *CORRUPTIONS[1:3],
        ["Total", *CORRUPTIONS[3][1:]],
    ]
    behind = [
        [line["fault_class"], *(" + ".join(line[f"{m} {end}"] for end in ENDS) for m in MODES)]
        for line in lines
    ]
    assert behind == TRIALS[1:4]
    assert [lines[-1][f"{mode} traps"] for mode in MODES] == TRIALS[4][1:]
    assert [lines[-1][f"{mode} infra_errors"] for mode in MODES] == TRIALS[5][1:]


def test_hostile_names_stay_text(store: Store) -> None:
    mode = 'a|b & <i>"x"</i> \\end{table}\x1b[2J\nc'
    page = corruption_page(corruption_table(fill(store, {"mode": mode}, modes=[mode])))
    shown = 'a|b & <i>"x"</i> \\end{table}\\x1b[2J\\nc'

    for form, read in READERS.items():
        assert read(render(page, form))[0][0] == ["Fault class", shown]
        assert "\x1b" not in render(page, form)
    assert "<" not in render(page, "md").split(page.note)[0]
    assert render(page, "latex").count(r"\end{table}") == 1
    assert next(csv.reader(io.StringIO(render(page, "csv"))))[1] == mode


# What a crashed guest may have printed: each would be markup, or a link.
MARKUP = [
    "[text](https://example.org)",
    "![image](x)",
    "[text][1]",
    "__list_del__ *a* **b**",
    "_a b_ (_c_) a__b_c",
    "~~gone~~ ~out~",
    "&lt;&#60;&amp; a & b",
    "`code` <b>bold</b> <https://example.org>",
    "a|b \\ \\| $x$",
]


def page_of(*cells: str) -> Page:
    return Page(cells[0], [Grid(cells[0], list(cells), [list(cells)], [])], "note", "", "", "", cells)


def test_markdown_has_no_markup_of_its_own_in_cells_titles_and_warnings() -> None:
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    found = parser.parse(render(page_of(*MARKUP), "md"))
    texts = [token.children or [] for token in found if token.type == "inline"]
    allowed = {"text", "text_special", "strong_open", "strong_close"}
    assert {child.type for text in texts for child in text} <= allowed
    read = ["".join(child.content for child in text) for text in texts]
    assert read == [MARKUP[0], *MARKUP, MARKUP[0], *MARKUP, *MARKUP, "note"]
    # Each stands in ** of ours, none else is strong.
    assert sum(child.type == "strong_open" for text in texts for child in text) == len(MARKUP) + 1


def test_markdown_has_no_addresses_that_github_makes_links_of() -> None:
    text = render(page_of("see https://a.example/x www.b.example WWW.c.example"), "md")
    assert "://" not in text.replace(r"\://", "") and not re.search(r"www\.", text, re.IGNORECASE)


def test_markdown_leaves_what_is_no_markup() -> None:
    harmless = "page_fault in ext4_map_blocks at fs/ext4/inode.c:12 (2.5 %), -1: x!"
    assert harmless in render(page_of(harmless), "md")


def test_latex_prints_what_it_is_given_also_in_the_oldest_fonts() -> None:
    text = render(page_of('[0pt] a<b>c|d "e"', "* f"), "latex")
    assert r'{[}0pt] a\textless{}b\textgreater{}c\textbar{}d \texttt{"}e\texttt{"} & {*} f \\' in text
    # At the start of a line of a table they would be arguments of the \\ before.
    assert not re.search(r"^\s*[\[*]", text, re.MULTILINE)


def test_the_kernels_that_only_some_modes_have_are_named() -> None:
    own = KernelProvenance(release="6.12.10", build_id="cc", series_commit="dd")
    text = source_text("c", PROVENANCE.model_copy(update={"kernels": {"dax": own, "nv-cache": own}}))
    assert text.startswith("Campaign c, seed 1, 2026: Linux 6.12.9 (build id aa), series bb; dax, nv-cache: ")
    assert text.endswith(": Linux 6.12.10 (build id cc), series dd, QEMU 8, accelerator tcg.")
