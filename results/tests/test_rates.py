# SPDX-License-Identifier: Apache-2.0
"""Tables by endpoint: outcomes, wrong-checksum, sensitivity, noninferiority; tests within strata."""

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from results_builders import Invoke, fill, recovered
from riobed_results.errors import StoreUsageError
from riobed_results.rules.endpoints import ENDPOINTS
from riobed_results.stats.strata import Difference, Stratum, difference, exact_p, score
from riobed_results.store import Results, open_store, read_results
from riobed_results.store.store import Store
from riobed_results.tables.corruption.noninferiority import inferiority_page, inferiority_table
from riobed_results.tables.corruption.rates import Rate, outcomes, rate_page, sensitivity, wrong_checksum
from riobed_results.tables.framework.render import render

TABLE1 = Path(__file__).parents[1] / "published/table1"
MODES = ["write-through", "rio", "rio-protected"]


@pytest.fixture(scope="module")
def table1() -> Results:
    return read_results(open_store(str(TABLE1)), faults=False)


def counted(rate: Rate) -> list[tuple[int, int]]:
    return [(rate.cells[mode].count, rate.cells[mode].total) for mode in MODES]


# An audit counted table1's rows with code of its own: counts by mode, then p of the last two pairs of modes,
# where the endpoint compares any.
AUDITED: dict[str, tuple[Any, ...]] = {
    "corruption": ([(18, 650), (14, 650), (12, 651)], 0.28, 0.70),
    "without-stuck": ([(16, 617), (12, 643), (8, 640)], 0.099, 0.50),
    "wrong-read": ([(23, 650), (34, 650), (14, 651)], 0.14, 0.0032),
    "checksums": ([(18, 650), (23, 650), (15, 651)],),
    "any-oracle": ([(23, 650), (39, 650), (17, 651)],),
    "per-run": ([(18, 876), (14, 1023), (12, 946)], 0.027, 0.45),
    "visible": ([(78, 876), (207, 1023), (117, 946)], 0.019, 3e-6),
    "damage-seen": ([(45, 876), (104, 1023), (35, 946)], 0.14, 2e-8),
}


def test_each_definition_gives_what_an_audit_counted(table1: Results) -> None:
    rates = {rate.name: rate for rate in sensitivity(table1).rates}
    for name, (cells, *ps) in AUDITED.items():
        assert counted(rates[name]) == cells
        assert [pair.p for pair in rates[name].pairs[1:]] == pytest.approx(ps, rel=0.3, abs=0.005)
    within = [pair.within for pair in rates["corruption"].pairs]
    assert within == pytest.approx([0.58, 0.34, 0.84], abs=0.005)
    runs = [(pair.only_first, pair.only_second, pair.pairs) for pair in rates["per-run"].pairs[1:]]
    assert runs == [(16, 5, 819), (6, 10, 926)]


def test_cells_and_lines_say_what_was_counted(table1: Results) -> None:
    page = rate_page(sensitivity(table1), "Rates", "", {})
    assert "| 18 of 650 (2.8 %) | 1.6 to 4.3 % | 14 of 650 (2.2 %) |" in render(page, "md")
    shares, pairs = {}, {}
    for line in csv.DictReader(io.StringIO(render(page, "csv"))):
        (pairs if line["second"] else shares)[line["endpoint"], line["mode"], line["second"]] = line
    assert shares["corruption", "rio", ""]["total"] == "650" and not shares["corruption", "rio", ""]["p"]
    pair = pairs["per-run", "rio", "rio-protected"]
    assert (pair["only_first"], pair["only_second"], pair["pairs"]) == ("6", "10", "926")


def test_direct_corruption_of_table1(table1: Results) -> None:
    table = wrong_checksum(table1)
    found = {rate.name: counted(rate)[1:] for rate in table.rates}
    assert found["wrong-checksum"] == [(7, 650), (1, 651)]
    assert found["wrong-checksum-dirty"] == [(6, 650), (0, 651)]
    assert found["wrong-page"] == [(12, 650), (1, 651)]
    assert found["read-wrong"] == [(25, 650), (2, 651)]
    assert len(rate_page(table, "", "", {}).grids) == 1
    kinds = {rate.title: sum(cell.total for cell in rate.cells.values()) for rate in outcomes(table1).rates}
    assert (kinds["every judged run"], kinds["stuck workload"], kinds["protection trap"]) == (1951, 51, 51)
    assert sum(kinds.values()) == 2 * 1951


def test_noninferiority_of_table1(table1: Results, invoke: Invoke) -> None:
    for margin, holds, p in ((1.0, True, 0.014), (0.5, False, 0.045)):
        lines = {(line.mode, line.other): line for line in inferiority_table(table1, margin).lines}
        line = lines["rio-protected", "write-through"]
        assert (line.holds, line.p) == (holds, pytest.approx(p, abs=0.0005))
        assert len(lines) == 6 and all(line.holds == (line.p < 0.025) for line in lines.values())
    wrong = invoke("table", "noninferiority", "--store", TABLE1, "--endpoint", "nothing")
    assert "want one of corruption, without-stuck" in str(wrong.exception)


def test_in_a_store_of_today_ends_are_outcomes(store: Store) -> None:
    def run(outcome: str, **fields: Any) -> dict[str, Any]:
        return {"outcome": outcome, "workload_errors": 0, "recovery": recovered()} | fields

    stray = {"corruption": "direct", "recovery": recovered(corrupt=1)}
    results = fill(
        store,
        run("panic", crash_kind="oops", **stray),
        run("hang", crash_kind="hang", recovery=recovered(corrupt=1)),
        run("stuck", crash_kind="hang", corruption="indirect"),
        run("survived", workload_errors=3, workload_error="EUCLEAN append f"),
        run("survived", **stray),
        run("panic", fault_class="planted", **stray),
        run("panic", recovery=recovered(phase="done")),
        run("infra_error"),
    )
    ends = {rate.name: (rate.cells["rio"].count, rate.cells["rio"].total) for rate in outcomes(results).rates}
    assert ends == {
        "ended": (3, 5), "ended-oops": (1, 1), "ended-hang": (0, 1), "ended-stuck": (1, 1),
        "ended-survived": (1, 2),
    }  # fmt: skip
    found = {
        rate.name: (rate.cells["rio"].count, rate.cells["rio"].total)
        for rate in (*sensitivity(results).rates, *wrong_checksum(results).rates)
    }
    expected = {"corruption": (1, 2), "checksums": (2, 2), "panics": (1, 1), "judged": (3, 5),
                "visible": (4, 5), "wrong-checksum": (1, 2), "wrong-checksum-judged": (2, 5),
                "damage-seen": (4, 5), "per-run": (1, 5)}  # fmt: skip
    assert {name: found[name] for name in expected} == expected
    assert found.keys() <= ENDPOINTS.keys()


def test_hits_of_the_canary_are_counted_where_there_is_one(store: Store) -> None:
    unkept = recovered(checksums=None)
    rows = [
        {"canary_hits": 0, "recovery": unkept},
        {"canary_hits": 2, "recovery": unkept},
        {"canary_hits": 2, "recovery": unkept, "corruption": "direct"},
        {"canary_hits": 2, "fault_class": "planted", "recovery": unkept},
        {"canary_hits": 2, "outcome": "survived", "recovery": unkept},
        {"mode": "delayed", "recovery": unkept},
    ]
    table = wrong_checksum(fill(store, *rows))
    rates = {rate.name: rate.cells for rate in table.rates}
    names = ("canary", "canary-corrupted", "canary-judged", "canary-corrupted-judged")
    assert tuple(rates) == names
    counts = [(rates[name]["rio"].count, rates[name]["rio"].total) for name in names]
    assert counts == [(2, 3), (1, 3), (3, 4), (1, 4)]
    assert rates["canary"]["delayed"].total == 0
    head, *lines = csv.reader(io.StringIO(render(rate_page(table, "Rates", "", {}), "csv")))
    assert lines and {len(line) for line in lines} == {len(head)}


def strata(*counts: tuple[int, int, int, int]) -> list[Stratum]:
    return [Stratum(*each) for each in counts]


# Newcombe, Statistics in Medicine 17, 1998, pages 873 to 890, examples (a), (b) and (d) of method 8.
@pytest.mark.parametrize(
    ("counts", "low", "high"),
    [
        ((56, 70, 48, 80), 0.0528, 0.3382),
        ((9, 10, 3, 10), 0.1700, 0.8406),
        ((5, 56, 0, 29), -0.0326, 0.1933),
        ((10, 10, 0, 10), 0.6636, 1.0),
    ],
)
def test_the_score_interval_of_published_examples(
    counts: tuple[int, int, int, int], low: float, high: float
) -> None:
    found = difference(strata(counts), 0.95)
    assert found and (found.low, found.high) == pytest.approx((low, high), abs=5e-5)


def test_the_stratified_score_interval_of_a_published_example() -> None:
    """What the SAS macro `rate0compare` gives, by the tests of the R package metalite.ae."""
    example = strata((24, 39, 16, 40), (23, 39, 16, 39), (23, 38, 17, 40))
    assert score(example, 0.0) == pytest.approx(2.9216181843)
    found = difference([*example, Stratum(0, 0, 4, 9)], 0.95)
    expected = Difference(estimate=0.19181363786, low=0.063399769229, high=0.31396078455)
    assert found and found.model_dump() == pytest.approx(expected.model_dump(), abs=1e-6)


def test_the_score_without_a_difference_is_that_of_cochran_mantel_and_haenszel() -> None:
    from statsmodels.stats.contingency_tables import StratifiedTable

    example = strata((3, 50, 9, 51), (0, 40, 2, 60), (1, 50, 1, 50))
    tables = [[[s.hits, s.total - s.hits], [s.other_hits, s.other_total - s.other_hits]] for s in example]
    chi2 = StratifiedTable([list(map(list, zip(*table, strict=True))) for table in tables]).test_null_odds()
    assert score(example, 0.0) ** 2 == pytest.approx(chi2.statistic)
    found = difference(example, 0.95)
    assert found and abs(score(example, found.low)) == pytest.approx(1.959964)
    assert exact_p(example) == pytest.approx(chi2.pvalue, abs=0.05)
    assert (exact_p(strata((0, 5, 0, 5))), difference(strata((1, 2, 0, 0)), 0.95)) == (None, None)


def test_a_difference_where_nothing_was_hit_has_an_interval() -> None:
    found = difference(strata((0, 650, 0, 650)), 0.95)
    assert found and (found.estimate, found.low) == (0, pytest.approx(-found.high))
    assert 0.005 < found.high < 0.007


def test_a_difference_of_all_and_nothing_has_an_interval() -> None:
    example = strata((10, 10, 0, 5))
    found = difference(example, 0.95)
    assert found and (found.estimate, found.high) == (1, pytest.approx(1))
    assert score(example, found.low) == pytest.approx(1.959964)


def test_a_margin_is_less_than_all_runs(store: Store) -> None:
    results = fill(store, {"corruption": "direct"}, {"mode": "delayed"})
    assert len(inferiority_table(results, 99.5).lines) == 2
    for margin in (0.0, 100.0):
        with pytest.raises(StoreUsageError, match="between 0 and 100"):
            inferiority_table(results, margin)


def test_what_two_modes_have_is_not_mixed_up(store: Store) -> None:
    """Neither in strata nor seed by seed, where the first mode alone is hit three times, the second once."""
    hit = {"corruption": "indirect", "check": {"equal": False}}
    runs = [
        {"mode": mode, "fault_class": name, "seed": seed, **(hit if seed in hits else {})}
        for name in ("kernel_text", "pointer")
        for mode, hits in (("rio", "abc"), ("delayed", "cd"))
        for seed in "abcdef"
    ]
    results = fill(store, *runs, modes=["rio", "delayed"])
    (line, _) = inferiority_table(results, 1.0, "corruption").lines
    assert (line.hits.count, line.hits.total, line.other_hits.count) == (6, 12, 4)
    assert line.difference.estimate == pytest.approx(1 / 6) and not line.holds
    # Both classes differ in the same rounds.
    assert line.dispersion == pytest.approx(2)
    assert "| +16.67 |" in render(inferiority_page(inferiority_table(results)), "md")
    table = sensitivity(results)
    per_run = next(rate for rate in table.rates if rate.name == "per-run")
    (pair,) = per_run.pairs
    assert (pair.pairs, pair.only_first, pair.only_second) == (12, 4, 2)
    assert "| 4 : 2 of 12 pairs |" in render(rate_page(table, "Rates", "", {}), "md")
