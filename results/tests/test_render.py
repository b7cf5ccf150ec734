# SPDX-License-Identifier: Apache-2.0
"""Every form of the table says the same, read back by a parser of that form."""

import csv
import io
import json
import re
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt
from results_builders import campaign, trial
from riobed_results.store.queries import read_results
from riobed_results.store.store import Store
from riobed_results.tables.corruption import CorruptionTable, corruption_table
from riobed_results.tables.corruption_page import corruption_page
from riobed_results.tables.render import Grid, Page, render

MODES = ["write-through", "rio_%", "late"]
HEAD = ["Fault class", *MODES]
CORRUPTIONS = [
    HEAD,
    ["kernel_text", "", "2", "-"],
    ["delete_branch", "-", "", "-"],
    ["Total", "0 of 3 (0.0 %)", "2 of 5 (40.0 %)", "0 of 0"],
    ["95 % interval", "0.0 to 70.8 %", "5.3 to 85.3 %", "-"],
    ["Years to a corruption", "more than 0.2", "0.4 (0.2 to 3.2)", "-"],
]
TRIALS = [
    HEAD,
    ["kernel_text", "3 + 0", "4 + 1", "0 + 0"],
    ["delete_branch", "0 + 2", "1 + 0", "0 + 0"],
    ["Total", "3 + 2", "5 + 1", "0 + 0"],
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
ALL = [CORRUPTIONS, TRIALS, COMPARED, PAPER]


@pytest.fixture
def table(store: Store) -> CorruptionTable:
    """Made by hand; the expected tables above were counted from this list."""
    added = store.add_campaign(campaign("hand <made>", MODES, ["kernel_text", "delete_branch"]))
    rows = [
        trial(added.id, 0, mode="write-through"),
        trial(added.id, 1, mode="write-through", crash_kind="hang"),
        trial(added.id, 2, mode="write-through"),
        trial(added.id, 3, mode="rio_%", corruption="direct"),
        trial(added.id, 4, mode="rio_%", corruption="unclassified", corruption_where="disk"),
        trial(added.id, 5, mode="rio_%"),
        trial(added.id, 6, mode="rio_%", crash_kind="trap"),
        trial(added.id, 7, "discard", mode="rio_%"),
        trial(added.id, 8, "discard", mode="write-through", fault_class="delete_branch"),
        trial(added.id, 9, "discard", mode="write-through", fault_class="delete_branch"),
        trial(added.id, 10, "infra_error", mode="rio_%", fault_class="delete_branch"),
        trial(added.id, 10, "infra_error", mode="rio_%", fault_class="delete_branch", attempt=2),
        trial(added.id, 10, mode="rio_%", fault_class="delete_branch", attempt=3),
    ]
    for row in rows:
        store.add_trial(row)
    return corruption_table(read_results(store))


def plain(cell: str) -> str:
    return re.sub(r"\\(.)", r"\1", cell.strip())


def test_markdown(table: CorruptionTable) -> None:
    text = render(corruption_page(table), "md")
    blocks = [block.splitlines() for block in text.split("\n\n") if block.startswith("|")]
    read = [[[plain(cell) for cell in line[1:-1].split("|")] for line in block] for block in blocks]
    assert [lines.pop(1) for lines in read] == [[":--", *["--:"] * (len(lines[0]) - 1)] for lines in ALL]
    assert read == ALL
    assert "accelerator tcg" in text
    assert r"hand \<made>" in text


def test_latex(table: CorruptionTable) -> None:
    text = render(corruption_page(table), "latex")
    for name in ("table", "tabular"):
        assert text.count(rf"\begin{{{name}}}") == text.count(rf"\end{{{name}}}") > 0
    assert re.findall(r"(?<!\\)[%#$^~]|(?<!\\)_", text) == []
    tabulars = re.findall(r"\\begin\{tabular\}\{lr+\}\n(.*?)\\end\{tabular\}", text, re.DOTALL)
    read = []
    for tabular in tabulars:
        lines = [line.removesuffix(r"\\") for line in tabular.splitlines() if line != r"\hline"]
        read.append([[re.sub(r"\\([_%])", r"\1", c).strip() for c in line.split("&")] for line in lines])
    assert read == ALL


def test_csv(table: CorruptionTable) -> None:
    lines = list(csv.DictReader(io.StringIO(render(corruption_page(table), "csv"))))
    paper = [[line["fault_class"], *(line[mode] for mode in MODES)] for line in lines]
    assert paper == CORRUPTIONS[1:4]
    behind = [
        [line["fault_class"], *(f"{line[f'{m} crashes']} + {line[f'{m} discards']}" for m in MODES)]
        for line in lines
    ]
    assert behind == TRIALS[1:4]
    assert [lines[-1][f"{mode} traps"] for mode in MODES] == TRIALS[4][1:]
    assert [lines[-1][f"{mode} infra_errors"] for mode in MODES] == TRIALS[5][1:]


class Cells(HTMLParser):
    """The text of each cell by table and row; fails on an element closed out of order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tables: list[list[list[str]]] = []
        self.text = ""

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
        self.text += data
        if self.open and self.open[-1] in ("th", "td"):
            self.tables[-1][-1][-1] += data


def test_html(table: CorruptionTable) -> None:
    page = Cells()
    page.feed(render(corruption_page(table), "html"))
    assert page.open == []
    assert page.tables == ALL
    assert "Campaign hand <made>, seed 7" in page.text


def test_json(table: CorruptionTable) -> None:
    read = json.loads(render(corruption_page(table), "json"))
    assert read == table.model_dump()
    assert read["rows"][0]["cells"]["rio_%"] == {
        "trials": 5,
        "crashes": 4,
        "corrupted": 2,
        "discards": 1,
        "infra_errors": 0,
        "traps": 1,
    }
    assert read["totals"]["rio_%"]["infra_errors"] == 2
    assert read["statistics"]["totals"]["rio_%"]["share"] == 0.4


def test_hostile_names_stay_text(store: Store) -> None:
    mode = 'a|b & <i>"x"</i> \\end{table}\x1b[2J\nc'
    added = store.add_campaign(campaign("odd", [mode], ["kernel_text"]))
    store.add_trial(trial(added.id, 0, mode=mode))
    table = corruption_table(read_results(store))
    shown = 'a|b & <i>"x"</i> \\end{table}\\x1b[2J\\nc'

    page = Cells()
    page.feed(render(corruption_page(table), "html"))
    assert page.tables[0][0] == ["Fault class", shown]
    header = next(line for line in render(corruption_page(table), "md").splitlines() if "Fault class" in line)
    assert re.sub(r"\\(.)", r"\1", header) == f"| Fault class | {shown} |"
    assert len(re.findall(r"(?<!\\)\|", header)) == 3
    latex = render(corruption_page(table), "latex")
    assert latex.count(r"\end{table}") == 1
    assert r'a\textbar{}b \& \textless{}i\textgreater{}\texttt{"}x' in latex
    assert "\x1b" not in latex + render(corruption_page(table), "md") + render(table, "html")
    assert next(csv.reader(io.StringIO(render(corruption_page(table), "csv"))))[1] == mode


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
    return Page(cells[0], cells[0], [Grid(cells[0], list(cells), [list(cells)], [])], "note", "", "", cells)


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
    harmless = "page_fault in ext4_map_blocks at fs/ext4/inode.c:12 (2.5 %), a & b, -1 > 0: x!"
    assert harmless in render(page_of(harmless), "md")


def test_latex_prints_what_it_is_given_also_in_the_oldest_fonts() -> None:
    text = render(page_of('[0pt] a<b>c|d "e"', "* f"), "latex")
    assert r'{[}0pt] a\textless{}b\textgreater{}c\textbar{}d \texttt{"}e\texttt{"} & {*} f \\' in text
    # At the start of a line of a table they would be arguments of the \\ before.
    assert not re.search(r"^\s*[\[*]", text, re.MULTILINE)
