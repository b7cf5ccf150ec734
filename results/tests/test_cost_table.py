# SPDX-License-Identifier: Apache-2.0
"""What a part costs: ratios over the mode from which it differs, and what its runs counted."""

from typing import Any

import pytest
from publishing.claims.cost import cost_claims
from results_builders import campaign, measured
from riobed_results.errors import StoreError
from riobed_results.stats.ratios import FEWEST, order_interval
from riobed_results.store.campaign import KernelProvenance
from riobed_results.store.queries import Results, read_results
from riobed_results.store.store import Store
from riobed_results.tables.cost.cost import COST, LEGEND, CostRow, cost_page, cost_table

OVER = {"registry": "off", "pte": "registry"}
Run = dict[str, Any]


def run(mode: str, number: int, seconds: float, **fields: Any) -> Run:
    return {"mode": mode, "number": number, "seconds": seconds, "disk": "none", "parts": {}} | fields


def counted(mode: str, number: int = 0, operations: int = 500, **events: int) -> Run:
    events = {"instructions": 1100, "repetitions": 100, "invlpg": 0, "wrmsr": 0} | events
    return run(mode, number, 1.0, kind="instructions", operations=operations, events=events)


def bench(
    store: Store, *runs: Run, over: dict[str, str] | None = None, name: str = "parts", **columns: Any
) -> Results:
    over = OVER if over is None else over
    row = campaign(name, list(dict.fromkeys([*over.values(), *over])))
    row.spec += f"over: {over}\n"
    for column, value in columns.items():
        setattr(row, column, value)
    added = store.add_campaign(row).id
    with store.session() as session:
        session.add_all(measured(added, **each) for each in runs)
    return read_results(store, name)


def rows_of(results: Results) -> dict[str, CostRow]:
    return {row.mode: row for row in cost_table(results).rows}


# The host is ten times slower in round 2; the ratios to `off` are 1.1, 1.2, 1.3 and those of pte 2.
RUNS = [
    run("pte", 0, 2.2), run("off", 0, 1.0), run("registry", 0, 1.1),
    run("registry", 1, 1.2), run("pte", 1, 2.4), run("off", 1, 1.0),
    run("off", 2, 10.0), run("pte", 2, 26.0), run("registry", 2, 13.0),
]  # fmt: skip


def test_ratios_are_paired_by_round(store: Store) -> None:
    rows = rows_of(bench(store, *RUNS))
    assert list(rows) == ["off", "registry", "pte"]
    registry, pte = rows["registry"].to_over["time"], rows["pte"]
    assert (registry.n, registry.median) == (3, pytest.approx(1.2))
    assert (registry.low, registry.high) == (pytest.approx(1.1), pytest.approx(1.3))
    assert pte.over == "registry"
    assert pte.to_over["time"].median == pytest.approx(2.0)
    assert pte.to_first["time"].median == pytest.approx(2.4)
    assert rows["off"].to_over == {}
    # Where a round is not complete, it counts as far as it goes.
    more = rows_of(bench(store, *RUNS, run("off", 3, 5.0), run("pte", 3, 5.0), name="more"))
    assert (more["pte"].to_first["time"].n, more["pte"].to_over["time"].n) == (4, 3)


def test_seconds_of_two_sessions_are_no_pair_and_counts_are(store: Store) -> None:
    runs = [
        each | {"session": session}
        for mode, session in (("off", "first"), ("registry", "second"))
        for each in (run(mode, 0, 1.0), counted(mode, 0))
    ]
    assert rows_of(bench(store, *runs))["registry"].to_over.keys() == {"instructions"}


def test_parts_of_the_work_stand_beside_the_whole_as_in_the_paper(store: Store) -> None:
    timed = [run("off", n, 3.0 + n, parts={"cp": 2.0 + n, "rm": 1.0}) for n in range(3)]
    medians = cost_page(cost_table(bench(store, *timed))).grids[1]
    assert medians.head[1] == "s (cp + rm)"
    assert medians.body[0][1] == "4.000 (3.000 + 1.000)"


def test_what_costs_more_than_an_instruction_is_counted_apart(store: Store) -> None:
    kernels = {"off": KernelProvenance(release="6.12", build_id="beef", series_commit="none")}
    found = cost_table(
        bench(
            store,
            counted("off", ipi_CAL=4),
            counted("registry", repetitions=50),
            counted("pte", instructions=1600, invlpg=25, registry_updates=9, nr_written=0),
            # A run that measures time counts nothing of the emulator's.
            run("pte", 0, 2.0, operations=500, events={"registry_updates": 11}),
            kernels=kernels,
        )
    )
    rows = {row.mode: row for row in found.rows}
    assert rows["pte"].to_first["instructions"].median == pytest.approx(1.5)
    assert rows["registry"].to_first["instructions"].median == pytest.approx(1.05)
    assert (rows["pte"].per_thousand("invlpg"), rows["off"].per_thousand("ipi_CAL")) == (50.0, 8.0)
    assert (rows["pte"].counters["registry_updates"], rows["off"].counters["registry_updates"]) == (10, 0)
    assert found.environment.kernel_of("off").build_id == "beef"
    claims = {claim.key: claim.value for claim in cost_claims(found)}
    assert (claims["cp_rm_all_over_off"], claims["cp_rm_pte_invlpg_per_thousand"]) == (1.5, 50.0)
    assert claims["registry_bytes_per_page"] == 32


@pytest.mark.parametrize(("counters", "size"), [((), None), (("registry_updates", "shadows"), 64)])
def test_a_registry_is_as_large_as_its_kernel_has_it(
    store: Store, counters: tuple[str, ...], size: int | None
) -> None:
    results = bench(store, counted("off"), counted("registry", **dict.fromkeys(counters, 0)))
    found = cost_table(results)
    assert found.registry_bytes_per_page == size
    assert ("The registry takes" in cost_page(found).note) == bool(size)


def test_rio_as_shipped_is_told_over_the_file_system_without_it(store: Store) -> None:
    """Not only over the mode before it; the most is that of all workloads."""
    runs = [
        run(mode, number, seconds, workload=workload)
        for workload, factor in (("w", 1.0), ("v", 1.5))
        for number in range(3)
        for mode, seconds in (("off", 1.0), ("atomic-metadata", 1.1 * factor), ("checksums", 1.2 * factor))
    ]
    over = {"atomic-metadata": "off", "checksums": "atomic-metadata"}
    claims = {claim.key: claim.value for claim in cost_claims(cost_table(bench(store, *runs, over=over)))}
    assert claims["w_rio_over_off_time"] == pytest.approx(1.2)
    assert claims["w_rio_without_checksums_over_off_time"] == pytest.approx(1.1)
    assert claims["rio_over_off_time_max"] == pytest.approx(1.8)


@pytest.mark.parametrize("rounds", range(1, 6))
def test_of_few_rounds_the_smallest_and_the_largest_are_shown_and_called_that(rounds: int) -> None:
    found = order_interval([1.0 + n for n in range(rounds)])
    assert (found.low, found.high) == (1.0, rounds)
    assert f"of fewer than {FEWEST} rounds" in LEGEND["ratios"] and FEWEST == 6


def test_a_bench_whose_modes_are_not_told_over_one_another_has_no_such_table(store: Store) -> None:
    results = bench(store, *RUNS, over={})
    assert not COST.has(results)
    with pytest.raises(StoreError, match="its spec tells `over` one another"):
        cost_table(results)
    failed = run("off", 0, 1.0) | {"outcome": "infra_error", "seconds": None}
    results = bench(store, failed, name="failed")
    with pytest.raises(StoreError, match="no measured runs"):
        cost_table(results)


def test_as_text(store: Store) -> None:
    # Each place has a first mode of its own.
    other = [run("registry", 0, 2.0, vcpus=2, disk="nvme"), run("pte", 0, 3.0, vcpus=2, disk="nvme")]
    page = COST.of(bench(store, *RUNS, *other))
    shown = "1.200 (1.100 to 1.300)"
    assert page.grids[0].body[1] == ["registry", "off", shown, "", shown, "", "3"]
    assert page.csv.splitlines()[1:] == [
        "cp_rm,off,off,time,3,1.0,1.0,1.0",
        "cp_rm,registry,off,time,3,1.2,1.1,1.3",
        "cp_rm,pte,registry,time,3,2.0,2.0,2.0",
        "cp_rm,pte,off,time,3,2.4,2.2,2.6",
        '"cp_rm, nvme, 2 vCPUs",registry,registry,time,1,1.0,1.0,1.0',
        '"cp_rm, nvme, 2 vCPUs",pte,registry,time,1,1.5,1.5,1.5',
    ]
