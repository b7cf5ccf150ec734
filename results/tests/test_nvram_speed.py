# SPDX-License-Identifier: Apache-2.0
"""What an NVDIMM is worth: paired ratios, traffic for each byte written, and delays of counted lines."""

import csv
import io
from pathlib import Path
from typing import Any

import pytest
import yaml
from publishing.claims.folder import folder_claims
from publishing.claims.performance import performance_claims
from publishing.publish import publish
from results_builders import Invoke, campaign, measured
from riobed_results.errors import StoreError, StoreUsageError
from riobed_results.store.queries import Results, read_results
from riobed_results.store.store import Store, open_store
from riobed_results.tables.nvdimm.nvram_speed import SpeedRow, speed_table
from riobed_results.tables.registry import campaign_pages

MODES = ["plain", "as-swap"]
NVDIMM = {
    "nvdimm_loads": 5_000_000,
    "nvdimm_stores": 7,
    "nvdimm_lines_read": 1 << 20,
    "nvdimm_lines_written": 1 << 19,
}


def bench(store: Store, machine: dict[str, int] | None = None, **fields: Any) -> Results:
    """Six rounds on two disks, of which the slower one takes twice as long; as-swap takes half of plain."""
    row = campaign("cloud", MODES)
    spec = yaml.safe_load(row.spec) | {"machine": {"nvdimm_mib": 64} if machine is None else machine}
    row.spec = yaml.safe_dump(spec)
    added = store.add_campaign(row).id
    timed = {"written_bytes": 33 << 20} | fields
    none = {"instructions": 1000, "repetitions": 0} | dict.fromkeys(NVDIMM, 0)
    counted = {"kind": "instructions", "disk": "none"}
    with store.session() as session:
        for number in range(6):
            for disk, factor in (("fast", 1), ("slow", 2)):
                seconds = factor * (1.0, 3.0, 8.0)[number % 3]
                session.add(measured(added, "plain", number, 2 * seconds, disk=disk, **timed))
                session.add(measured(added, "as-swap", number, seconds, disk=disk, **timed))
        session.add(measured(added, "plain", 0, events=none, **counted))
        session.add(measured(added, "as-swap", 0, events=none | NVDIMM, **counted))
    return read_results(store)


def rows_of(results: Results, **options: Any) -> dict[tuple[str, str], SpeedRow]:
    return {(row.mode, row.disk): row for row in speed_table(results, **options).rows}


def test_traffic_is_of_all_that_disk_and_nvdimm_got(store: Store) -> None:
    rows = rows_of(bench(store))
    assert list(rows) == [(mode, disk) for disk in ("fast", "slow") for mode in MODES]
    for disk in ("fast", "slow"):
        plain, swap = rows["plain", disk], rows["as-swap", disk]
        # 2 MiB during the work and 64 after it, for 33 MiB.
        assert plain.disk_traffic == swap.disk_traffic == 2.0
        assert swap.over and (swap.over.n, swap.over.low, swap.over.high) == (6, 0.5, 0.5)
        assert (plain.loads, plain.read_mib, plain.nvdimm_traffic, plain.delay_s) == (None,) * 4
        assert (swap.read_mib, swap.nvdimm_mib, swap.nvdimm_traffic) == (64.0, 32.0, pytest.approx(32 / 33))
        assert swap.delay_s == pytest.approx((305 * 2**20 + 28 * 2**19) / 1e9)
    assert rows["plain", "slow"].seconds == 12.0


def test_delays_and_the_base_are_the_readers_choice(store: Store) -> None:
    results = bench(store)
    rows = rows_of(results, over="as-swap", read_ns=0.0, write_ns=1000.0)
    assert rows["as-swap", "fast"].delay_s == pytest.approx(2**19 / 1e6)
    found = rows["plain", "fast"].over
    assert found and found.median == 2.0
    with pytest.raises(StoreUsageError, match="no run is in that mode; there are: plain, as-swap"):
        speed_table(results, over="rio")


def test_work_that_writes_no_files_has_no_traffic(store: Store) -> None:
    rows = rows_of(bench(store, written_bytes=None))
    assert rows["as-swap", "fast"].disk_traffic is rows["as-swap", "fast"].nvdimm_traffic is None
    assert rows["as-swap", "fast"].delay_s is not None


def test_the_papers_order_is_told_by_paired_ratios(store: Store) -> None:
    """Swap space takes half of the time of none, memory the same but for chance; there is no journal."""
    results = bench(store, workload="allocator")
    with store.session() as session:
        for number, seconds in enumerate((0.9, 3.3, 8.0) * 2):
            fields = {"disk": "fast", "workload": "allocator"}
            session.add(measured(results.campaign.id, "as-memory", number, seconds, **fields))
    results = read_results(store)
    told = {(each.key, each.disk): each.holds for each in speed_table(results).orders}
    assert told == {
        ("memory helps", "fast"): True,
        ("swap helps", "fast"): True,
        ("memory over swap", "fast"): None,
        ("swap helps", "slow"): True,
    }
    claims = {claim.key: claim.value for claim in performance_claims(results)}
    assert claims["order_swap_helps_allocator_fast"] == "holds"
    assert claims["order_memory_over_swap_allocator_fast"] == "cannot be told"
    assert campaign_pages(results)["nvram-speed"].grids[-2].title == "fast: does the paper's order hold?"


@pytest.mark.parametrize("machine", [{}, {"nvdimm_mib": 0}])
def test_a_bench_without_an_nvdimm_has_no_such_table(store: Store, machine: dict[str, int]) -> None:
    results = bench(store, machine)
    assert list(campaign_pages(results)) == ["performance"]
    with pytest.raises(StoreError, match="no measured runs of machines with an NVDIMM"):
        speed_table(results)


def test_page_claims_and_command(tmp_path: Path, invoke: Invoke) -> None:
    url = str(tmp_path / "store.sqlite")
    store = open_store(url, create=True)
    page = campaign_pages(bench(store))["nvram-speed"]
    assert [grid.title for grid in page.grids] == ["cp_rm on fast", "cp_rm on slow"]
    assert page.grids[0].head[3] == "over plain"
    assert page.grids[0].body[1][3:7] == ["0.50 (0.50 to 0.50)", "33.0", "66.0", "2.00"]
    lines = list(csv.DictReader(io.StringIO(page.csv)))
    assert lines[1]["delay_s"] == lines[3]["delay_s"] and lines[0]["delay_s"] == ""
    publish(store, None, tmp_path, tmp_path / "published")
    claims = {claim.key: claim.value for claim in folder_claims(tmp_path / "published")}
    assert claims["as_swap_cp_rm_slow_disk_traffic"] == 2.0
    assert "plain_cp_rm_slow_delay" not in claims and claims["as_swap_cp_rm_fast_delay"] > 0.3
    said = invoke("table", "nvram-speed", "--store", url, "--read-ns", "0", "--write-ns", "0").stdout
    assert "0 ns for one that is read" in said


@pytest.mark.parametrize("option", ["--read-ns", "--write-ns"])
@pytest.mark.parametrize("delay", ["-1", "inf", "nan"])
def test_a_delay_that_is_none(store: Store, path: Path, invoke: Invoke, option: str, delay: str) -> None:
    bench(store)
    error = invoke("table", "nvram-speed", "--store", path, option, delay).exception
    assert isinstance(error, StoreUsageError) and option in str(error)
