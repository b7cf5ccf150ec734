# SPDX-License-Identifier: Apache-2.0
"""The report: one page that is complete, loads nothing, and shows what strangers wrote as text."""

import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from results_builders import Invoke, campaign, faults, trial
from riobed_results.report.report import report
from riobed_results.store.logs import Links
from riobed_results.store.models import FaultRow, TrialRow, utc_now
from riobed_results.store.queries import read_results
from riobed_results.store.store import Store
from riobed_results.tables.corruption import corruption_page, corruption_table

VOID = {"meta", "br", "hr", "img", "input", "link"}
# What would make a browser run or fetch something.
ACTIVE = {"script", "iframe", "object", "embed", "link", "img", "base", "form", "video", "audio", "image"}
PAGE = {"ino": 7, "index": 2, "dirty": True, "metadata": False}
RECOVERY = {
    "entries": {"rejected": 0},
    "metadata": {"written": 1},
    "data": {"pages": 1},
    "mount_error": 0,
    "checksums": {"intact": 9, "corrupt": 1, "changing": 0, "mismatches": [PAGE]},
}
SOUND = RECOVERY | {"checksums": {"intact": 9, "corrupt": 0, "changing": 0, "mismatches": []}}
CHECK = {"equal": False, "difference_count": 1, "differences": [{"path": "tree/f1", "kind": "content"}]}
PHASES = {"restore": 0.2, "watch": 1.0}


class Page(HTMLParser):
    """Elements, attributes and text of a page; fails on an element closed out of order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str, str]] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.headings: list[str] = []
        self.text = ""
        self._rows: list[list[str]] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self._rows = []
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("th", "td"):
            self._rows[-1].append("")
        elif tag == "caption":
            self.tables[""] = self._rows
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
        if self.open and self.open[-1] == "caption":
            self.tables[data] = self.tables.pop("")
        elif self.open and self.open[-1] in ("th", "td") and self._rows:
            self._rows[-1][-1] += data
        elif self.open and self.open[-1] == "h2":
            self.headings[-1] += data

    def links(self) -> list[str]:
        return [
            v for tag, name, v in self.attributes if (tag, name) == ("a", "href") and not v.startswith("#")
        ]


def made(store: Store, path: Path, **options: Any) -> Page:
    return Page(report(store, None, Links(path.parent, path.parent), **options))


def filled(store: Store, folder: Path) -> Store:
    """All there can be: corruptions, discards, infra errors, controls, logs."""
    modes, classes = ["write-through", "delayed", "rio"], ["kernel_text", "copy_overrun", "none", "planted"]
    added = store.add_campaign(campaign("whole", modes, classes))
    (folder / "logs").mkdir()
    (folder / "logs/a b.log.gz").write_bytes(b"console")
    bad: dict[str, Any] = {"corruption": "direct", "check": CHECK, "recovery": RECOVERY}
    plant = FaultRow(index=0, fault_class="planted", injected=True, params={"kind": "stray"})
    written = FaultRow(index=0, fault_class="planted", injected=True, params={"kind": "written"})
    fields: list[dict[str, Any]] = [
        {
            "mode": "rio",
            "time_to_crash_s": 0.5,
            "faults": faults(2),
            "requested": 2,
            "log": "logs/a b.log.gz",
        },
        {"mode": "rio", "time_to_crash_s": 2.5, "faults": faults(2), "requested": 2, "injected": 2} | bad,
        {"mode": "delayed", "time_to_crash_s": 2.0, "crash_title": "odd title"} | bad,
        {"mode": "write-through", "fault_class": "copy_overrun", "crash_kind": "hang"},
        {"mode": "write-through", "outcome": "discard", "phases": {"watch": 15.0}},
        {"mode": "write-through", "outcome": "infra_error"},
        {"mode": "rio", "fault_class": "none", "recovery": SOUND},
        {"mode": "delayed", "fault_class": "none", "corruption": "direct"},
        {"mode": "write-through", "fault_class": "none"},
        {"mode": "write-through", "fault_class": "planted", "faults": [written]}
        | {"corruption": "unclassified"},
        {"mode": "rio", "fresh_boot": True, "outcome": "discard"},
        {"mode": "rio", "fault_class": "planted", "faults": [plant], "requested": 1} | bad,
    ]
    for position, more in enumerate(fields):
        store.add_trial(trial(added.id, position, **{"phases": PHASES} | more))
    return store


def test_everything_is_in_it(store: Store, path: Path) -> None:
    page = made(filled(store, path.parent), path)
    assert page.headings == [
        "Corruptions",
        "Fault classes",
        "Time to crash",
        "Crash titles",
        "Stories",
        "Phase times",
        "Controls",
        "Environment",
    ]
    text = " ".join(page.text.split())
    assert (
        "4 crashes (2 with corruption), 2 discards, beside them 5 trials of controls; 1 infra errors." in text
    )
    for grid in corruption_page(corruption_table(read_results(store))).grids:
        assert page.tables[grid.title] == [grid.head, *grid.body, *grid.foot]
    assert {"Modes compared", "Beside the paper", "Planted changes", "Resets without a fault"} <= set(
        page.tables
    )
    plots = [value for tag, name, value in page.attributes if (tag, name) == ("svg", "aria-label")]
    assert len(plots) == 4
    assert "vfs_read at fs/read_write.c:450" in page.text
    assert "All that ran held." in page.text and "Controls that have not run" not in page.text
    # What is about faults stands with the corruptions, what is about controls with these.
    places = [page.text.rindex(f"\n{title}\n") for title in ("Fault classes", "Controls")]
    assert page.text.index("Which oracle found what") < places[0] and page.text.index("Starts of") < places[0]
    assert places[1] < page.text.index("Planted changes") < page.text.rindex("\nEnvironment\n")
    assert "QEMU emulator version 7.2.0" in page.text and "fault_classes:" in page.text
    ids = [value for _, name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))


def test_a_failed_control_is_said_at_the_top(store: Store, path: Path) -> None:
    store.add_trial(trial(store.add_campaign(campaign()).id, 0, fault_class="none", corruption="direct"))
    page = made(store, path)
    sentence = "Control failed in mode rio: 1 of 1 resets without a fault lost or changed a file."
    assert page.text.count(sentence) == 2
    assert page.text.index(sentence) < page.text.index(
        "Phase times" if "Phase times" in page.text else "Controls"
    )


def test_a_control_that_is_missing_is_a_warning_and_no_verdict(store: Store, path: Path) -> None:
    store.add_trial(trial(store.add_campaign(campaign()).id, 0))
    page = made(store, path)
    assert page.text.count("Controls that have not run: class none in mode rio.") == 2
    assert page.text.index("Controls that have not run") < page.text.index("Corruptions")
    assert "not to be believed" not in page.text
    assert "None ran in this campaign" in page.text


@pytest.mark.parametrize(
    ("rows", "headings"),
    [
        ([], ["Controls", "Environment"]),
        ([{"outcome": "infra_error"}], ["Controls", "Environment"]),
        ([{"outcome": "discard"}], ["Corruptions", "Phase times", "Controls", "Environment"]),
        ([{"fault_class": "none"}], ["Phase times", "Controls", "Environment"]),
        ([{}], ["Corruptions", "Crash titles", "Phase times", "Controls", "Environment"]),
    ],
)
def test_a_campaign_that_has_not_much(
    store: Store, path: Path, rows: list[dict[str, Any]], headings: list[str]
) -> None:
    added = store.add_campaign(campaign("little", ["rio"], ["kernel_text"]))
    for position, fields in enumerate(rows):
        store.add_trial(trial(added.id, position, **fields))
    page = made(store, path)
    assert page.headings == headings
    assert ("No trial has given a result yet." in page.text) == (len(headings) == 2)
    assert "None ran in this campaign" in page.text or rows == [{"fault_class": "none"}]


HOSTILE = (
    "</title></style></pre><script>alert(1)</script><img src=x onerror=alert(1)>"
    "\"'`$\\frac{}$&\x1b[2J\0\n{{7*7}}"
)


def hostile(store: Store) -> None:
    """Strings of a stranger wherever the schema allows any."""
    row = campaign(HOSTILE, [HOSTILE], [HOSTILE])
    for name in (
        "seed",
        "kernel_release",
        "kernel_build_id",
        "series_commit",
        "qemu_version",
        "accelerator",
        "created",
    ):
        setattr(row, name, HOSTILE)
    row.host = {HOSTILE: HOSTILE, "basis": {HOSTILE: [HOSTILE]}}
    row.spec += HOSTILE
    added = store.add_campaign(row)
    fault = FaultRow(index=0, fault_class=HOSTILE, injected=True, activated=True, params={HOSTILE: HOSTILE})
    for name in ("function", "source", "old_asm", "new_asm"):
        setattr(fault, name, HOSTILE)
    texts = (
        "mode",
        "fault_class",
        "seed",
        "started",
        "finished",
        "crash_title",
        "workload_status",
        "detail",
        "log",
    )
    found = {"path": HOSTILE, "kind": HOSTILE, "detail": HOSTILE}
    store.add_trial(
        trial(
            added.id,
            0,
            **dict.fromkeys(texts, HOSTILE),
            faults=[fault],
            requested=1,
            corruption="direct",
            time_to_crash_s=1.0,
            check={"equal": False, "difference_count": 1, "differences": [found]},
            recovery=RECOVERY | {"interrupted": {"planned_s": 0.1, "at_s": 0.1, "phase": HOSTILE}},
            phases={HOSTILE: 1.0},
        )
    )


def test_hostile_strings_stay_text(store: Store, path: Path) -> None:
    hostile(store)
    text = report(store, None, Links(path.parent, path.parent))
    page = Page(text)
    assert not page.tags & ACTIVE
    assert not any(name.startswith("on") for _, name, _ in page.attributes)
    assert page.links() == []
    assert (
        "alert(1)" in page.text and "{{7*7}}" in page.text and "49" not in page.text.split("{{7*7}}")[0][:50]
    )
    assert not re.search("[\x00-\x09\x0b-\x1f]", text)
    assert page.headings[0] == "Corruptions" and page.headings[-1] == "Environment"


def test_what_a_campaign_began_on_is_a_line_each(store: Store, path: Path) -> None:
    row = campaign("grouped", ["rio"], ["kernel_text"])
    row.host = {"cpus": 2, "basis": {"harness": "bca1cad7", "workload": "498037f7"}}
    store.add_campaign(row)
    shown = made(store, path).text
    for line in ("Host cpus2", "Host basis: harnessbca1cad7", "Host basis: workload498037f7"):
        assert line in shown.replace("\n", "")


def test_the_page_reaches_for_nothing(store: Store, path: Path) -> None:
    text = report(filled(store, path.parent), None, Links(path.parent, path.parent))
    page = Page(text)
    assert not page.tags & ACTIVE
    assert not any(name in ("src", "srcset", "action", "data", "poster") for _, name, _ in page.attributes)
    # Within SVG a reference is to the page's own.
    assert all(v.startswith("#") for _, name, v in page.attributes if name == "xlink:href")
    assert not re.search(r"https?://|@import|url\((?!#)", text)
    policy = [
        v for tag, name, v in page.attributes if (tag, name) == ("meta", "content") and "default-src" in v
    ]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'"]


def test_it_reads_itself_again_only_while_it_is_kept_fresh(store: Store, path: Path) -> None:
    filled(store, path.parent)
    assert ("meta", "http-equiv", "refresh") not in made(store, path).attributes
    fresh = made(store, path, reload_s=45)
    assert ("meta", "http-equiv", "refresh") in fresh.attributes and (
        "meta",
        "content",
        "45",
    ) in fresh.attributes


def test_progress_counts_only_what_was_wanted(store: Store, path: Path) -> None:
    row = campaign("asked", ["rio", "delayed"], ["kernel_text"])
    row.spec += "crashes_per_cell: 3\n"
    added = store.add_campaign(row)
    for position in range(5):
        store.add_trial(trial(added.id, position))
    page = made(store, path)
    assert ("progress", "max", "6") in page.attributes and ("progress", "value", "3") in page.attributes
    assert "3 of 6 crashes wanted" in page.text


def test_links_lead_from_the_page_to_the_log(store: Store, path: Path, tmp_path: Path) -> None:
    filled(store, path.parent)
    assert set(made(store, path).links()) == {"logs/a%20b.log.gz"}
    elsewhere = tmp_path / "web" / "pages"
    elsewhere.mkdir(parents=True)
    page = Page(report(store, None, Links(path.parent, elsewhere)))
    assert set(page.links()) == {"../../logs/a%20b.log.gz"}


@pytest.mark.parametrize(
    "log", ["javascript:alert(1)", "../secret", "/etc/passwd", "logs/none", "logs", "", "x" * 5000, "logs/\0"]
)
def test_only_a_log_where_logs_are_is_linked_to(tmp_path: Path, log: str) -> None:
    (tmp_path / "logs" / "logs").mkdir(parents=True)
    (tmp_path / "secret").touch()
    assert Links(tmp_path / "logs", tmp_path)(log) is None


def test_the_command_writes_it_beside_the_store(invoke: Invoke, store: Store, path: Path) -> None:
    filled(store, path.parent)
    result = invoke("report", "--store", path)
    assert (result.exit_code, result.stdout) == (0, "")
    page = Page((path.parent / "report.html").read_text())
    assert page.links() and "whole" in page.text
    result = invoke("report", "--store", path, "--campaign", "no")
    assert "no campaign 'no'" in str(result.exception)


def test_it_shows_one_moment_though_rows_are_added(
    store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half-way through, a trial ends: none of the tables may have it, or they would not agree."""
    from riobed_results.report import report as module

    campaign_id = filled(store, path.parent).campaign().id
    pages: Callable[..., Any] = module.campaign_pages

    def later(*arguments: Any) -> Any:
        store.add_trial(trial(campaign_id, 50, mode="rio", crash_title="came late", finished=utc_now()))
        return pages(*arguments)

    monkeypatch.setattr(module, "campaign_pages", later)
    page = made(store, path)
    assert "came late" not in page.text
    with store.session() as session:
        assert session.query(TrialRow).filter_by(crash_title="came late").count() == 1
