# SPDX-License-Identifier: Apache-2.0
"""The report: one page that is complete, loads nothing, and shows what strangers wrote as text."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from results_builders import Invoke, faults, fill, planted, recovered, trial
from results_readers import Html
from riobed_results.report.answer import Answer, answer, drawn, inline
from riobed_results.report.report import report
from riobed_results.store.base import utc_now
from riobed_results.store.logs import Links
from riobed_results.store.queries import read_results
from riobed_results.store.store import Store
from riobed_results.store.trial import FaultRow, TrialRow
from riobed_results.tables.corruption.corruption import corruption_page, corruption_table
from riobed_results.tables.corruption.protocol import protocol_table
from riobed_results.tables.corruption.protocol_page import PROTOCOL
from riobed_results.tables.corruption.survival import survival_table

# What would make a browser run or fetch something.
ACTIVE = {"script", "iframe", "object", "embed", "link", "img", "base", "form", "video", "audio", "image"}
PAGE = {"ino": 7, "index": 2, "dirty": True, "metadata": False}
RECOVERY = recovered(checksums={"intact": 9, "corrupt": 1, "changing": 0, "mismatches": [PAGE]})
CHECK = {"equal": False, "difference_count": 1, "differences": [{"path": "tree/f1", "kind": "content"}]}
PHASES = {"restore": 0.2, "watch": 1.0}


def made(store: Store, path: Path, **options: Any) -> Html:
    return Html(report(store, None, Links(path.parent, path.parent), **options))


def filled(store: Store, folder: Path) -> Store:
    """All there can be: corruptions, survivors, infra errors, controls, logs."""
    (folder / "logs").mkdir()
    (folder / "logs/a b.log.gz").write_bytes(b"console")
    bad: dict[str, Any] = {"corruption": "direct", "check": CHECK, "recovery": RECOVERY}
    faulty: dict[str, Any] = {"mode": "rio", "requested": 2}
    disk, none = {"mode": "write-through"}, {"fault_class": "none"}
    rows: list[dict[str, Any]] = [
        faulty | {"faults": faults(2), "time_to_crash_s": 0.5, "log": "logs/a b.log.gz"},
        faulty | {"faults": faults(2), "time_to_crash_s": 2.5, "injected": 2, "cache_share": 0.5} | bad,
        {"mode": "delayed", "time_to_crash_s": 2.0, "crash_title": "odd title"} | bad,
        disk | {"fault_class": "copy_overrun", "crash_kind": "hang"},
        disk | {"outcome": "survived", "phases": {"watch": 15.0}},
        disk | {"outcome": "infra_error"},
        none | {"mode": "rio", "recovery": recovered()},
        none | {"mode": "delayed", "corruption": "direct"},
        none | disk,
        disk | planted("written", "unclassified"),
        {"mode": "rio", "fresh_boot": True, "outcome": "survived"},
        {"mode": "rio", "requested": 1} | planted("stray", **bad),
    ]
    modes, classes = ["write-through", "delayed", "rio"], ["kernel_text", "copy_overrun", "none", "planted"]
    fill(store, *({"phases": PHASES} | row for row in rows), name="whole", modes=modes, classes=classes)
    return store


SECTIONS = ["Corruptions", "Fault classes", "Time to crash", "Crash titles", "Stories", "Phase times"]


def test_everything_is_in_it(store: Store, path: Path) -> None:
    page = made(filled(store, path.parent), path)
    assert page.headings == [*SECTIONS, "Controls", "Environment"]
    text = " ".join(page.text.split())
    assert "4 crashes (2 with corruption), 0 stuck, 2 survived, beside them 5 trials of controls" in text
    for grid in corruption_page(corruption_table(read_results(store))).grids:
        assert page.tables[page.captions.index(grid.title)] == [grid.head, *grid.body, *grid.foot]
    beside = {"Modes compared", "Beside the paper", "Planted changes", "Resets without a fault"}
    assert beside <= set(page.captions)
    assert len(page.values("svg", "aria-label")) == 5
    assert "vfs_read at fs/read_write.c:450" in page.text
    assert "All that ran held." in page.text and "Controls that have not run" not in page.text
    # What is about faults stands with the corruptions, what is about controls with these.
    places = [page.text.rindex(f"\n{title}\n") for title in ("Fault classes", "Controls")]
    assert page.text.index("Which oracle found what") < places[0] and page.text.index("Starts of") < places[0]
    assert places[1] < page.text.index("Planted changes") < page.text.rindex("\nEnvironment\n")
    assert "QEMU emulator version 7.2.0" in page.text and "fault_classes:" in page.text
    ids = [value for _, name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([{"fault_class": "none", "corruption": "direct"}], "Control failed in mode rio: 1 of 1 resets"),
        ([{}], "Controls that have not run: class none in mode rio."),
    ],
)
def test_what_controls_say_is_said_at_the_top(
    store: Store, path: Path, rows: list[dict[str, Any]], sentence: str
) -> None:
    fill(store, *rows)
    page = made(store, path)
    assert page.text.count(sentence) == 2
    assert page.text.index(sentence) < page.text.index(page.headings[0])
    failed = sentence.startswith("Control failed")
    assert ("not to be believed" in page.text) == failed
    assert ("None ran in this campaign" in page.text) != failed


@pytest.mark.parametrize(
    ("rows", "headings"),
    [
        ([], ["Controls", "Environment"]),
        ([{"outcome": "infra_error"}], ["Controls", "Environment"]),
        ([{"outcome": "survived"}], ["Corruptions", "Phase times", "Controls", "Environment"]),
        ([{"fault_class": "none"}], ["Phase times", "Controls", "Environment"]),
        ([{}], ["Corruptions", "Crash titles", "Phase times", "Controls", "Environment"]),
    ],
)
def test_a_campaign_that_has_not_much(
    store: Store, path: Path, rows: list[dict[str, Any]], headings: list[str]
) -> None:
    fill(store, *rows, modes=["rio"], classes=["kernel_text"])
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
    fault = FaultRow(index=0, fault_class=HOSTILE, injected=True, activated=True, params={HOSTILE: HOSTILE})
    for name in ("function", "source", "old_asm", "new_asm"):
        setattr(fault, name, HOSTILE)
    texts = ["mode", "fault_class", "seed", "started", "finished", "crash_title", "workload_status"]
    row = dict.fromkeys([*texts, "detail", "log"], HOSTILE) | {
        **{"faults": [fault], "requested": 1, "corruption": "direct", "time_to_crash_s": 1.0},
        "check": CHECK | {"differences": [{"path": HOSTILE, "kind": HOSTILE, "detail": HOSTILE}]},
        "recovery": recovered(phase=HOSTILE),
        "phases": {HOSTILE: 1.0},
    }
    names = ["seed", "kernel_release", "kernel_build_id", "series_commit", "qemu_version", "accelerator"]
    columns: dict[str, Any] = dict.fromkeys([*names, "created"], HOSTILE)
    columns["host"] = {HOSTILE: HOSTILE, "basis": {HOSTILE: [HOSTILE]}}
    fill(store, row, name=HOSTILE, modes=[HOSTILE], classes=[HOSTILE], spec=HOSTILE, **columns)


def test_hostile_strings_stay_text(store: Store, path: Path) -> None:
    hostile(store)
    text = report(store, None, Links(path.parent, path.parent))
    page = Html(text)
    assert not page.tags & ACTIVE
    assert not any(name.startswith("on") for _, name, _ in page.attributes)
    assert page.links() == []
    assert "alert(1)" in page.text and "{{7*7}}" in page.text
    assert "49" not in page.text.split("{{7*7}}")[0][:50]
    assert not re.search("[\x00-\x09\x0b-\x1f]", text)
    assert page.headings[0] == "Corruptions" and page.headings[-1] == "Environment"


def test_what_a_campaign_began_on_is_a_line_each(store: Store, path: Path) -> None:
    fill(store, host={"cpus": 2, "basis": {"harness": "bca1cad7", "workload": "498037f7"}})
    shown = made(store, path).text.replace("\n", "")
    for line in ("Host cpus2", "Host basis: harnessbca1cad7", "Host basis: workload498037f7"):
        assert line in shown


def test_the_page_reaches_for_nothing(store: Store, path: Path) -> None:
    text = report(filled(store, path.parent), None, Links(path.parent, path.parent))
    page = Html(text)
    assert not page.tags & ACTIVE
    assert not any(name in ("src", "srcset", "action", "data", "poster") for _, name, _ in page.attributes)
    # Within SVG a reference is to the page's own.
    assert all(v.startswith("#") for _, name, v in page.attributes if name == "xlink:href")
    assert not re.search(r"https?://|@import|url\((?!#)", text)
    policy = [value for value in page.values("meta", "content") if "default-src" in value]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'"]


def test_it_reads_itself_again_only_while_it_is_kept_fresh(store: Store, path: Path) -> None:
    filled(store, path.parent)
    assert made(store, path).values("meta", "http-equiv").count("refresh") == 0
    fresh = made(store, path, reload_s=45)
    assert "refresh" in fresh.values("meta", "http-equiv") and "45" in fresh.values("meta", "content")


def test_progress_counts_only_what_was_wanted(store: Store, path: Path) -> None:
    wanted = {"modes": ["rio", "delayed"], "classes": ["kernel_text"], "spec": "crashes_per_cell: 3\n"}
    fill(store, *[{}] * 5, **wanted)  # type: ignore[arg-type]
    page = made(store, path)
    assert (page.values("progress", "max"), page.values("progress", "value")) == (["6"], ["3"])
    assert "3 of 6 crashes wanted" in page.text


def test_links_lead_from_the_page_to_the_log(store: Store, path: Path, tmp_path: Path) -> None:
    filled(store, path.parent)
    assert set(made(store, path).links()) == {"logs/a%20b.log.gz"}
    elsewhere = tmp_path / "web" / "pages"
    elsewhere.mkdir(parents=True)
    page = Html(report(store, None, Links(path.parent, elsewhere)))
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
    page = Html((path.parent / "report.html").read_text())
    assert page.links() and "whole" in page.text
    result = invoke("report", "--store", path, "--campaign", "no")
    assert "no campaign 'no'" in str(result.exception)


def test_it_shows_one_moment_though_rows_are_added(
    store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half-way through, a trial ends: none of the tables may have it, or they would not agree."""
    from riobed_results.report import report as module

    campaign_id = filled(store, path.parent).campaign().id
    tables: Callable[..., Any] = module.present_tables

    def later(*arguments: Any) -> Any:
        store.add_trial(trial(campaign_id, 50, mode="rio", crash_title="came late", finished=utc_now()))
        return tables(*arguments)

    monkeypatch.setattr(module, "present_tables", later)
    page = made(store, path)
    assert "came late" not in page.text
    with store.session() as session:
        assert session.query(TrialRow).filter_by(crash_title="came late").count() == 1


def claims_of(store: Store, runs: int, *more: dict[str, Any]) -> Answer:
    """30 runs of two modes in two classes, every third of rio is corrupted."""
    rows: list[dict[str, Any]] = [
        {
            "mode": mode,
            "fault_class": name,
            "seed": f"{name}/{n}",
            "injection_guest_s": 1.0,
            "crash_guest_s": 2.0,
        }
        | ({"corruption": "indirect", "files_lost": 2, "bytes_lost": n, "total_loss": False} if bad else {})
        for n in range(30)
        for name in ("copy_overrun", "kernel_text")
        for mode in ("rio", "dax")
        for bad in [mode == "rio" and n % 3 == 0]
    ]
    spec = f"protocol: {{runs: {runs}, claims: [{{mode: dax, than: rio, endpoint: judged}}]}}"
    results = fill(store, *rows, *more, modes=["rio", "dax"], spec=spec, name=f"of {runs}, {len(more)}")
    return answer(results, protocol_table(results), survival_table(results).curves)


def test_the_figure_of_a_protocol_has_the_numbers_of_the_tables(store: Store, path: Path) -> None:
    shown = claims_of(store, 30)
    results = read_results(store)
    drawing = re.findall(r'<div class="wide">(.*?)</div>', report(store, None, Links(path, path)), re.DOTALL)
    text = Html(drawing[0]).text
    grids = PROTOCOL.of(results).grids
    line = dict(zip(grids[0].head, grids[0].body[0], strict=True))
    assert line["State"] in text and f"{line['Difference']} ({line['Interval']})" in text
    assert "20 hits; median 2 files and 14 bytes; 0 total losses" in text and "60 of 60 crashed" in text
    with drawn(shown) as figure:
        drawings: Any = [[each.get_xdata() for each in axes.lines] for axes in figure.axes]
    marks = [[float(x[0]) for x in lines if len(x) == 1] for lines in drawings]
    cells = [float(cells[1].split()[0]) for cells in (*grids[1].body, *grids[1].foot)]
    assert marks[:2] == [[pytest.approx(float(line["Difference"]), abs=0.01)], pytest.approx(cells, abs=0.01)]


@pytest.mark.parametrize(
    ("runs", "more", "said"),
    [(31, (), "the cell with the fewest has 30 of 31 runs"),
     (30, ({"mode": "rio", "fault_class": "none", "corruption": "direct"},), "Stopped by trial 120, ")],
)  # fmt: skip
def test_a_figure_without_a_verdict_says_why(
    invoke: Invoke, store: Store, path: Path, runs: int, more: Any, said: str
) -> None:
    shown = claims_of(store, runs, *more)
    text = " ".join(Html(inline(shown)).text.split())
    assert said in text and not re.search(r"[-+]\d+\.\d\d|open|refuted|shown", text)
    file = path.parent / "claims.svg"
    assert invoke("report", "--store", path, "--figure", file).exit_code == 0
    assert "#0000" not in (drawing := file.read_text()) and drawing.startswith("<?xml")


def test_a_figure_needs_claims_that_are_tested_once(invoke: Invoke, store: Store, path: Path) -> None:
    fill(store, {}, spec="protocol: {claims: [{mode: rio, than: dax}]}")
    result = invoke("report", "--store", path, "--figure", path.parent / "claims.svg")
    assert "has no claims that are tested once" in str(result.exception)
