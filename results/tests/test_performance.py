# SPDX-License-Identifier: Apache-2.0
"""What safety costs, computed from measured runs: medians, paired ratios, the paper's numbers, formats."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from publishing.claims.folder import folder_claims
from publishing.publish import publish
from results_builders import Invoke, campaign, fill, measured
from results_readers import from_markdown
from riobed_results.errors import StoreError, StoreUsageError
from riobed_results.report.report import report
from riobed_results.stats.ratios import order_interval
from riobed_results.store.logs import Links
from riobed_results.store.queries import Results, read_results
from riobed_results.store.store import Store, open_store
from riobed_results.tables.cost.performance import PerformanceRow, performance_table
from riobed_results.tables.cost.performance_page import PERFORMANCE
from riobed_results.tables.framework.render import render
from riobed_results.tables.paper.table2 import STATEMENTS, TIMES
from riobed_results.tables.registry import campaign_pages

MODES = ["memory", "write-through-on-write", "write-through-on-close", "rio", "rio-protected"]
# Seconds of the first round. Each round the host is slower, and so is every mode.
SECONDS = dict(zip(MODES, (9.0, 220.0, 100.0, 10.0, 11.0), strict=True))
SLOWER = (1.0, 1.5, 2.0, 1.2, 3.0, 1.1, 1.3)


def bench(store: Store, *more: dict[str, Any], rounds: int = 7, **fields: Any) -> Results:
    """A bench with these rounds of cp_rm in every mode, and a run with each of `more`."""
    row = campaign("speed", MODES)
    added = store.add_campaign(row).id
    runs = [
        measured(added, mode, number, SECONDS[mode] * SLOWER[number], **fields)
        for number in range(rounds)
        # Runs are not stored in the order of the table.
        for mode in reversed(MODES)
    ]
    with store.session() as session:
        session.add_all([*runs, *(measured(added, **each) for each in more)])
    return read_results(store)


def counted(mode: str, instructions: int, number: int = 0) -> dict[str, Any]:
    events = {"instructions": instructions + 5, "repetitions": 5}
    part = {"cp": {"instructions": instructions // 2, "repetitions": 0}}
    fields = {"mode": mode, "number": number, "events": events, "part_events": part}
    return fields | {"kind": "instructions", "disk": "none"}


def rows_of(results: Results, over: str = "rio-protected") -> dict[tuple[str, str], PerformanceRow]:
    table = performance_table(results, over)
    return {(row.mode, row.kind): row for row in table.rows}


def test_ratios_are_paired_by_round(store: Store) -> None:
    rows = rows_of(bench(store))
    row = rows["write-through-on-write", "time"]
    assert row.cost == pytest.approx(220 * 1.3) and row.parts == pytest.approx({"cp": 214.5, "rm": 71.5})
    # Each pair has the same ratio, though the seconds differ by a factor of 3.
    assert row.over and (row.over.n, row.runs) == (7, 7)
    assert (row.over.low, row.over.median, row.over.high) == pytest.approx((20.0, 20.0, 20.0))
    assert (row.permanent, rows["memory", "time"].permanent) == ("after write, synchronous", "never")
    assert list(rows) == [(mode, "time") for mode in MODES]


def test_a_round_without_its_pair_is_in_no_ratio(store: Store) -> None:
    alone = {"mode": "memory", "number": 8, "seconds": 900.0}
    found = rows_of(bench(store, alone, rounds=6))["memory", "time"]
    assert found.runs == 7 and found.over and found.over.n == 6 and found.over.high < 1


def test_runs_of_two_sessions_are_no_pair(store: Store) -> None:
    results = bench(store, session="monday")
    for run in results.runs:
        if (run.mode, run.round) == ("memory", 6):
            run.session = "tuesday"
    found = rows_of(results)["memory", "time"]
    assert found.runs == 7 and found.over and found.over.n == 6


def test_infra_errors_are_no_results(store: Store) -> None:
    failed = {"mode": "rio", "number": 9, "seconds": None, "outcome": "infra_error", "detail": "QEMU died"}
    results = bench(store, failed)
    assert rows_of(results)["rio", "time"].runs == 7
    page = campaign_pages(results)["performance"]
    assert "1 runs failed" in page.note and "QEMU died" not in page.csv


@pytest.mark.parametrize(
    ("count", "low", "high"), [(1, 1, 1), (5, 1, 5), (6, 1, 6), (8, 1, 8), (9, 2, 8), (20, 6, 15)]
)
def test_the_interval_of_a_median_is_exact(count: int, low: int, high: int) -> None:
    """The ranks are those of the sign test (Conover, Practical Nonparametric Statistics)."""
    found = order_interval([float(n) for n in range(count, 0, -1)])
    assert (found.n, found.low, found.high) == (count, low, high)
    assert order_interval([2.0] * 7).low == order_interval([2.0] * 7).high == 2.0


# Requests of 4 s in the disk's model, which took 5.
SLOW_DISK = {
    "mode": "write-through-on-write",
    "number": 8,
    "seconds": 9.0,
    "disk_model_s": 4.0,
    "disk_taken_s": 5.0,
}


def test_the_disk_is_told_during_and_after(store: Store) -> None:
    results = bench(store, SLOW_DISK)
    row = rows_of(results)["rio", "time"]
    assert row.during and (row.during.reads, row.during.writes, row.during.flushes) == (1, 8, 2)
    assert row.during.mib == pytest.approx(2 + 4096 / (1 << 20)) and row.during.written_mib == 2
    assert row.after and (row.after.writes, row.after.mib, row.clean_s) == (30, 64, 2.5)
    (grid,) = [grid for grid in campaign_pages(results)["performance"].grids if "in its model" in grid.title]
    # Only one of the runs says how long the disk took.
    assert [line for line in grid.body if line[1]] == [["write-through-on-write", "1.25"]]


def test_instructions_without_repetitions(store: Store) -> None:
    more = [
        counted(mode, count, n) for n in range(3) for mode, count in (("rio", 1000), ("rio-protected", 1100))
    ]
    rows = rows_of(bench(store, *more), "rio")
    row = rows["rio-protected", "instructions"]
    assert (row.cost, row.parts) == (1100, {"cp": 550}) and row.paper is None
    assert row.over and row.over.median == pytest.approx(1.1)
    assert rows["rio-protected", "time"].over


def test_operations_a_second_say_where_each_was_made_durable(
    store: Store, invoke: Invoke, path: Path
) -> None:
    fields = {"workload": "sqlite", "operations": 100, "parts": {}}
    more = [{"mode": "rio", "work": "./commits d | x", "number": n, "seconds": 2.0 + n} for n in range(3)]
    more += [{"mode": "memory", "work": "./commits d --fsync | x", "seconds": 50.0}]
    rows = performance_table(bench(store, *(each | fields for each in more))).rows
    found = {(row.workload, row.mode): (row.rate, row.fsync) for row in rows}
    assert found["sqlite", "rio"] == (pytest.approx(100 / 3), False)
    assert found["sqlite", "memory"] == (2.0, True) and found["cp_rm", "rio"] == (None, False)
    tables = from_markdown(invoke("table", "performance", "--store", path).output)
    assert [["System", "sqlite"], ["memory", "2 (fsync)"], ["rio", "33"]] in tables


def test_how_many_times_as_fast_as_its_model_a_disk_was(
    invoke: Invoke, store: Store, path: Path, tmp_path: Path
) -> None:
    assert not performance_table(bench(store, disk_speedup=1.0)).paces
    # A round that was stopped has a pace in each session.
    stopped = {"mode": "rio", "number": 7, "seconds": 9.0, "disk_speedup": 8.0, "session": "tuesday"}
    results = bench(open_store(str(tmp_path / "paced.sqlite"), create=True), stopped, disk_speedup=40.25)
    for run in results.runs:
        run.disk_speedup = 39.0 + run.round if run.session is None else run.disk_speedup
    (pace,) = performance_table(results).paces
    assert (pace.disk, pace.rounds, pace.low, pace.median, pace.high) == ("nvme", 8, 8.0, 41.5, 45.0)
    page = campaign_pages(results)["performance"]
    (grid,) = [grid for grid in page.grids if "as fast as its model" in grid.title]
    assert grid.body == [["cp_rm", "41.5", "8", "45", "8"]]
    assert "measured in each round" in page.note


def test_how_long_the_guest_waited_for_the_host(store: Store) -> None:
    more = {"mode": "rio", "number": 8, "seconds": 10.0, "host_s": 10.0, "delayed_s": 2.5}
    assert rows_of(bench(store, more))["rio", "time"].waited == 0.25


def test_the_papers_table() -> None:
    """Sums of the parts, where they are printed, are the whole; ratios give the paper's statements."""
    for of_workload in TIMES.values():
        assert sum(of_workload["cp_rm"].parts) == of_workload["cp_rm"].seconds
    for statement in STATEMENTS[:3]:
        ratios = [
            TIMES[mode][name].seconds / TIMES[statement.over][name].seconds
            for mode in statement.modes
            for name in TIMES[mode]
        ]
        assert (round(min(ratios)), round(max(ratios))) == (statement.low, statement.high)


def test_whether_the_papers_ratios_hold(store: Store, tmp_path: Path) -> None:
    said = {each.text.split(",")[0]: each for each in performance_table(bench(store, SLOW_DISK)).said}
    # 10 and 22 times; no mode of this bench delays anything.
    assert said["write-through"].holds is True and len(said) == 2
    assert said["Rio over memory"].holds is False
    assert said["write-through"].disk_taken == 1.25
    # Too few rounds tell nothing.
    few = bench(open_store(str(tmp_path / "few.sqlite"), create=True), rounds=5)
    assert {each.holds for each in performance_table(few).said} == {None}
    through = STATEMENTS[0]
    assert [through.holds(*ends) for ends in ((3.6, 22.4), (3, 5), (20, 30), (1, 3.4), (23, 99))] == [
        True, None, None, False, False,
    ]  # fmt: skip


def test_a_ratio_below_1_is_not_1_to_3_times() -> None:
    delayed = STATEMENTS[2]
    assert [delayed.holds(*ends) for ends in ((1.0, 3.4), (0.5, 0.9), (0.9, 1.1))] == [True, False, None]


def test_the_form_of_the_paper(store: Store, invoke: Invoke, path: Path) -> None:
    bench(store, SLOW_DISK, counted("rio", 2_000_000), *({"mode": mode, "vcpus": 2} for mode in MODES))
    text = invoke("table", "performance", "--store", path).output
    tables = from_markdown(text)
    head, *lines = tables[0]
    assert head == ["System", "Data permanent", "cp_rm (cp + rm), s", "paper"]
    assert lines[3] == ["rio", "after write, synchronous", "13.00 (9.75 + 3.25)", "24 (18 + 6)"]
    head, *lines = tables[1]
    assert head == ["System", "cp_rm", "paper", "waited", "pairs"]
    assert lines[1] == ["write-through-on-write", "20.00 (20.00 to 20.00)", "21.56", "0 %", "7"]
    assert "nvme: does the paper's ratio to Rio without protection hold?" in text
    assert next(line for table in tables for line in table if "requests took" in line[0])[1] == "1.25"
    assert "nvme, 2 vCPUs: seconds" in text and "2.0 (1.0), " in text


@pytest.mark.parametrize("form", ["md", "latex", "csv", "html", "json"])
def test_every_format(store: Store, invoke: Invoke, path: Path, form: str) -> None:
    results = bench(store)
    done = invoke("table", "performance", "--store", path, "--format", form, "--over", "rio")
    assert done.exit_code == 0
    if form == "json":
        assert json.loads(done.output) == performance_table(results, "rio").model_dump(mode="json")
    elif form == "csv":
        lines = list(csv.DictReader(io.StringIO(done.output)))
        assert [line["mode"] for line in lines] == MODES and float(lines[4]["over_median"]) == pytest.approx(
            1.1
        )
        assert (lines[0]["paper_seconds"], lines[0]["parts"]) == ("21.0", "cp=8.775 rm=2.925")
    else:
        assert "write" in done.output and "419" in done.output


def test_what_cannot_be_compared_is_said(store: Store) -> None:
    with pytest.raises(StoreUsageError, match="--over fat: no run is in that mode; there are: memory"):
        performance_table(bench(store), "fat")
    with pytest.raises(StoreError, match="'first' has no measured runs"):
        performance_table(fill(store, {}))


def test_without_rio_the_first_mode_is_the_base(store: Store) -> None:
    added = store.add_campaign(campaign("mine", ["slow", "fast"])).id
    for mode in ("fast", "slow"):
        store.add_run(measured(added, mode, workload="mine", parts={}))
    table = performance_table(read_results(store))
    assert (table.base, table.said, [row.paper for row in table.rows]) == ("slow", [], [None, None])


def test_a_published_bench_gives_its_table_its_report_and_claims(store: Store, tmp_path: Path) -> None:
    more = [counted("rio", 1000, number) for number in range(3)]
    more += [counted("rio-protected", 1010 + extra, number) for number, extra in enumerate((0, -3, 10))]
    more += [{"mode": "rio", "number": 9, "seconds": None, "outcome": "wrong", "detail": "log differs"}]
    results = bench(store, *more)
    folder = tmp_path / "table2"
    publish(store, None, tmp_path, folder)
    copy = open_store(str(folder))
    assert render(PERFORMANCE.of(read_results(copy)), "md").count("| memory |") > 2
    page = report(copy, None, Links(folder, folder))
    assert "41 measured runs" in page and "crashes" not in page.split("<footer")[0].split("<h2>")[0]
    assert page.count("<svg") == 1
    claims = {claim.key: claim for claim in folder_claims(folder)}
    wanted = {"systems": 5, "workloads": 1, "profiles": 1, "runs_per_cell_min": 7}
    # Instructions of three modes were not counted.
    wanted |= {"counted_runs_per_cell_min": 0, "wrong_outputs": 1, "waited_max_nvme": 0}
    assert {key: claims[key].value for key in wanted} == wanted
    assert claims["rio_protected_over_rio_instructions_max"].text == "1.010 (1.007 to 1.020)"
    assert claims["rio_protected_over_rio_instructions_upper_max"].text == "1.020"
    assert claims["rio_protected_over_rio_time_max"].text == "1.10 (1.10 to 1.10)"
    assert claims["paper_write_through_cp_rm_nvme"].value == "holds"
    copied = read_results(open_store(str(folder)))
    assert [run.key for run in copied.runs] == [run.key for run in results.runs]
