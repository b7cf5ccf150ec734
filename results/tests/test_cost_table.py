# SPDX-License-Identifier: Apache-2.0
"""Ratios are those of runs of one round, and come from stored runs alone."""

from pathlib import Path
from typing import Any

import pytest
from publishing.claims.cost import cost_claims
from results_builders import campaign
from riobed_results.errors import StoreError
from riobed_results.stats.ratios import FEWEST, bootstrap_interval
from riobed_results.tables.cost.cost import LEGEND, cost_page, cost_table
from riobed_results.tables.cost.cost_runs import FILE, CostRun, add_run, read_runs

ON = campaign().provenance


def run(variant: str, number: int, seconds: float, **changes: Any) -> CostRun:
    versus = {"off": None, "registry": "off"}.get(variant, "registry")
    values = {
        "workload": "w", "kind": "time", "round": number, "variant": variant, "versus": versus,
        "workload_seed": number, "work": "cp", "seconds": seconds, "idle_s": 0.0, "before": {}, "after": {},
        "on": ON,
    }  # fmt: skip
    return CostRun.model_validate(values | changes)


# The host is ten times slower in round 2; the ratios to `off` are 1.1, 1.2, 1.3 and those of pte 2.
RUNS = [
    run("pte", 0, 2.2), run("off", 0, 1.0), run("registry", 0, 1.1),
    run("registry", 1, 1.2), run("pte", 1, 2.4), run("off", 1, 1.0),
    run("off", 2, 10.0), run("pte", 2, 26.0), run("registry", 2, 13.0),
]  # fmt: skip


def test_ratios_are_paired_by_round() -> None:
    rows = {row.variant: row for row in cost_table(RUNS).rows}
    assert list(rows) == ["off", "registry", "pte"]
    registry, pte = rows["registry"].to_versus["time"], rows["pte"]
    assert (registry.n, registry.median) == (3, pytest.approx(1.2))
    assert (registry.low, registry.high) == (pytest.approx(1.1), pytest.approx(1.3))
    assert pte.versus == "registry"
    assert pte.to_versus["time"].median == pytest.approx(2.0)
    assert pte.to_first["time"].median == pytest.approx(2.4)
    assert rows["off"].to_versus == {}


def test_parts_of_the_work_stand_beside_the_whole_as_in_the_paper() -> None:
    timed = [run("off", n, 3.0 + n, parts={"cp": 2.0 + n, "rm": 1.0}) for n in range(3)]
    medians = cost_page(cost_table(timed)).grids[1]
    assert medians.head[1] == "s (cp + rm)"
    assert medians.body[0][1] == "4.000 (3.000 + 1.000)"


def test_a_round_that_is_not_complete_counts_where_it_can() -> None:
    rows = {row.variant: row for row in cost_table([*RUNS, run("off", 3, 5.0), run("pte", 3, 5.0)]).rows}
    assert rows["pte"].to_first["time"].n == 4
    assert rows["pte"].to_versus["time"].n == 3


def test_instructions_do_not_count_while_the_guest_is_idle() -> None:
    counted = {"kind": "instructions", "idle_s": 0.5}
    (_, row) = cost_table([run("off", 0, 1.5, **counted), run("registry", 0, 2.5, **counted)]).rows
    assert row.to_versus["instructions"].median == pytest.approx(2.0)
    assert row.cost == {"instructions": 2e9}


def test_what_costs_more_than_an_instruction_is_counted_apart() -> None:
    def counted(variant: str, **events: int) -> CostRun:
        events = {"instructions": 1100, "repetitions": 100, "invlpg": 0, "wrmsr": 0} | events
        changes = {"after": {"ipi_CAL": 7}, "before": {"ipi_CAL": 3}, "on": kernels[variant]}
        return run(variant, 0, 1.0, kind="instructions", operations=500, events=events, **changes)

    own = {"kernel_build_id": "beef"}
    kernels = {"off": ON.model_copy(update=own), "registry": ON, "pte": ON}
    runs = [counted("off"), counted("registry", repetitions=50), counted("pte", instructions=1600, invlpg=25)]
    found = cost_table([*runs, run("pte", 0, 2.0, operations=500, registry_bytes_per_page=32)])
    rows = {row.variant: row for row in found.rows}
    assert rows["pte"].to_first["instructions"].median == pytest.approx(1.5)
    assert rows["registry"].to_first["instructions"].median == pytest.approx(1.05)
    # A run that measured time has counted none.
    assert (rows["pte"].per_thousand("invlpg"), rows["off"].per_thousand("ipi_CAL")) == (50.0, 8.0)
    assert found.environment.kernel_build_id == ON.kernel_build_id
    assert found.environment.kernel_of("off").build_id == "beef"
    claims = {claim.key: claim.value for claim in cost_claims(found)}
    assert (claims["w_all_over_off"], claims["w_pte_invlpg_per_thousand"]) == (1.5, 50.0)
    # One of them is old, and the entries were there twice then.
    assert claims["registry_bytes_per_page"] == 64


def test_rio_as_shipped_is_told_over_the_file_system_without_it() -> None:
    """Not only over the variant before it; the most is that of all workloads."""
    runs = [
        run(variant, number, seconds, workload=workload, versus=versus)
        for workload, factor in (("w", 1.0), ("v", 1.5))
        for number in range(3)
        for variant, versus, seconds in (
            ("off", None, 1.0), ("atomic metadata", "off", 1.1 * factor),
            ("checksums", "atomic metadata", 1.2 * factor),
        )
    ]  # fmt: skip
    claims = {claim.key: claim.value for claim in cost_claims(cost_table(runs))}
    assert claims["w_rio_over_off_time"] == pytest.approx(1.2)
    assert claims["w_rio_without_checksums_over_off_time"] == pytest.approx(1.1)
    assert claims["rio_over_off_time_max"] == pytest.approx(1.8)


def test_counters_are_differences() -> None:
    (row,) = cost_table([run("off", 0, 1.0, before={"windows": 3}, after={"windows": 10, "traps": 0})]).rows
    assert row.counters == {"windows": 7}


def test_the_interval_of_a_median_is_wider_where_values_scatter() -> None:
    tight, wide = (
        bootstrap_interval([1.0, 1.01, 1.02, 1.01, 1.0]),
        bootstrap_interval([0.5, 1.01, 2.0, 1.5, 0.7]),
    )
    assert tight.median == wide.median == 1.01
    assert wide.low < tight.low <= tight.median <= tight.high < wide.high


@pytest.mark.parametrize("rounds", range(1, 6))
def test_of_few_rounds_the_smallest_and_the_largest_are_shown_and_called_that(rounds: int) -> None:
    found = bootstrap_interval([1.0 + n for n in range(rounds)])
    assert (found.low, found.high) == (1.0, rounds)
    assert f"of fewer than {FEWEST} rounds" in LEGEND["ratios"] and FEWEST == 6


def test_runs_are_stored_whole(tmp_path: Path) -> None:
    for each in RUNS:
        add_run(tmp_path, each)
    assert read_runs(tmp_path) == RUNS
    path = tmp_path / FILE
    path.write_bytes(path.read_bytes()[:-9])
    assert read_runs(tmp_path) == RUNS[:-1]
    add_run(tmp_path, RUNS[-1])
    assert read_runs(tmp_path) == RUNS


def test_a_folder_without_runs_and_one_of_something_else(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="No such file"):
        read_runs(tmp_path)
    (tmp_path / FILE).write_text('{"workload": 1}\n')
    with pytest.raises(StoreError, match="no file of this riobed"):
        read_runs(tmp_path)
    with pytest.raises(StoreError, match="no run is stored"):
        cost_table([])


def test_as_text() -> None:
    # Each workload has a first variant of its own.
    other = [run("registry", 0, 2.0, workload="v", versus=None), run("pte", 0, 3.0, workload="v")]
    page = cost_page(cost_table([*RUNS, *other]))
    shown = "1.200 (1.100 to 1.300)"
    assert page.grids[0].body[1] == ["registry", "off", shown, "", shown, "", "3"]
    assert page.csv.splitlines()[1:] == [
        "w,off,off,time,3,1.0,1.0,1.0",
        "w,registry,off,time,3,1.2,1.1,1.3",
        "w,pte,registry,time,3,2.0,2.0,2.0",
        "w,pte,off,time,3,2.4,2.2,2.6",
        "v,registry,registry,time,1,1.0,1.0,1.0",
        "v,pte,registry,time,1,1.5,1.5,1.5",
    ]
