# SPDX-License-Identifier: Apache-2.0
"""Comparisons of modes, against sums over all tables, counting by hand, and the definition of power."""

import itertools
import json
import random
from math import comb
from typing import Any

import pytest
from results_builders import Invoke, fill
from riobed_results.errors import StoreError, StoreUsageError
from riobed_results.stats.strata import Stratum
from riobed_results.stats.two_shares import crashes_needed, fisher_p, mcnemar_p
from riobed_results.store.queries import CellCounts, read_results
from riobed_results.store.store import Store
from riobed_results.tables.corruption.comparison import compare, comparison_page, comparison_table
from riobed_results.tables.corruption.corruption import corruption_page, corruption_table

MODES = ["write-through", "rio", "rio-protected"]
DISCARD = {"outcome": "survived"}


def counts(corrupted: int, crashes: int) -> CellCounts:
    return CellCounts(crashes=crashes, corrupted=corrupted)


def fisher_by_hand(a: int, n: int, b: int, m: int) -> float:
    """The probability of all tables with these margins that are no likelier than this one."""
    weights = [comb(n, i) * comb(m, a + b - i) for i in range(a + b + 1)]
    limit = weights[a] * (1 + 1e-9)
    return sum(weight for weight in weights if weight <= limit) / comb(n + m, a + b)


@pytest.mark.parametrize(
    ("a", "n", "b", "m"),
    [(0, 5, 5, 5), (3, 7, 1, 9), (0, 10, 0, 10), (7, 650, 4, 650), (10, 650, 4, 650), (4, 51, 51, 51)],
)
def test_fishers_p(a: int, n: int, b: int, m: int) -> None:
    assert fisher_p(Stratum(a, n, b, m)) == pytest.approx(fisher_by_hand(a, n, b, m))


def test_the_papers_modes_cannot_be_told_apart() -> None:
    """10 against 4 of 650 is the strongest pair of its table 1."""
    p = fisher_p(Stratum(10, 650, 4, 650))
    assert p and round(p, 2) == 0.18
    needed = crashes_needed(Stratum(10, 650, 4, 650))
    assert needed and needed > 3 * 650


@pytest.mark.parametrize(("first", "second"), [(0, 0), (1, 0), (0, 6), (3, 9), (5, 5), (40, 22)])
def test_mcnemars_p(first: int, second: int) -> None:
    """Pairs that differ fall either way like a coin; two-sided, so what is as unlikely counts, too."""
    n, few = first + second, min(first, second)
    tail = sum(comb(n, k) for k in range(few + 1)) / 2**n
    assert mcnemar_p(first, second) == pytest.approx(min(1.0, 2 * tail))


def power_by_hand(p1: float, p2: float, n: int) -> float:
    """The probability that Fisher's test on n crashes of each finds p < 0.05, but for tails of nothing."""
    weights = [
        [comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(min(n, round(4 * n * p) + 20) + 1)]
        for p in (p1, p2)
    ]
    return sum(
        weight_a * weight_b
        for a, weight_a in enumerate(weights[0])
        for b, weight_b in enumerate(weights[1])
        if weight_a * weight_b > 1e-9 and fisher_by_hand(a, n, b, n) < 0.05
    )


@pytest.mark.parametrize(
    ("first", "second"), [((1, 20), (9, 20)), ((2, 10), (6, 10)), ((0, 9), (3, 9)), ((20, 650), (4, 650))]
)
def test_crashes_needed_give_the_power_they_promise(first: tuple[int, int], second: tuple[int, int]) -> None:
    """The formula is an approximation, on the safe side; two thirds of the crashes are too few."""
    needed = crashes_needed(Stratum(*first, *second), power=0.8)
    assert needed is not None
    shares = first[0] / first[1], second[0] / second[1]
    assert 0.79 < power_by_hand(*shares, needed) < 0.9
    assert power_by_hand(*shares, round(needed * 2 / 3)) < 0.8


def test_more_power_or_closer_shares_take_more_crashes() -> None:
    needed = [
        crashes_needed(Stratum(7, 650, b, 650), power) or 0 for b, power in ((1, 0.8), (1, 0.95), (4, 0.8))
    ]
    assert 0 < needed[0] < needed[1] < needed[2]
    assert crashes_needed(Stratum(1, 650, 7, 650)) == needed[0]


def test_without_crashes_or_a_difference_nothing_is_said() -> None:
    (none,) = compare({"a": counts(0, 0), "b": counts(1, 3)}, {})
    assert (none.fisher_p, none.pairs, none.mcnemar_p, none.crashes_needed) == (None, 0, None, None)
    (equal,) = compare({"a": counts(1, 3), "b": counts(2, 6)}, {})
    assert (equal.fisher_p, equal.crashes_needed) == (pytest.approx(1.0), None)


@pytest.mark.parametrize("power", [0.0, 0.05, 1.0, 2.0, float("nan")])
def test_a_power_that_is_none(power: float) -> None:
    with pytest.raises(StoreUsageError, match="want a number between"):
        compare({"a": counts(0, 1), "b": counts(1, 1)}, {}, power)


def random_campaign(store: Store, seed: int) -> list[dict[str, Any]]:
    """A plan as the harness makes it: each seed once in every mode, controls among the classes."""
    rng = random.Random(seed)
    rows: list[dict[str, Any]] = []
    for number, fault_class, mode in itertools.product(range(30), ("kernel_text", "pointer", "none"), MODES):
        end = rng.choice([{"corruption": c} for c in ("none", "none", "indirect", "direct")] + [DISCARD] * 2)
        rows.append({"mode": mode, "fault_class": fault_class, "seed": f"1/{fault_class}/{number}"} | end)
    fill(store, *rows, name="paired", modes=MODES, classes=["kernel_text", "pointer", "none"])
    return rows


@pytest.mark.parametrize("seed", range(5))
def test_pairs_against_a_count_by_hand(store: Store, seed: int) -> None:
    crashes = [row for row in random_campaign(store, seed) if "outcome" not in row]
    rows = [row for row in crashes if row["fault_class"] != "none"]
    for found in comparison_table(read_results(store)).comparisons:
        pairs = [
            (a["corruption"] != "none", b["corruption"] != "none")
            for a in rows
            for b in rows
            if (a["mode"], b["mode"]) == (found.first, found.second) and a["seed"] == b["seed"]
        ]
        assert found.pairs == len(pairs) > 0
        assert found.both == sum(a and b for a, b in pairs)
        assert found.only_first == sum(a and not b for a, b in pairs)
        assert found.only_second == sum(b and not a for a, b in pairs)
        assert found.mcnemar_p == mcnemar_p(found.only_first, found.only_second)


def test_infra_errors_before_a_result_and_other_classes_make_no_pair(store: Store) -> None:
    first = {"position": 0, "mode": "a", "seed": "same"}
    second = {"mode": "b", "seed": "same"}
    rows = [first | {"outcome": "infra_error"}, first | {"attempt": 2}, second | {"fault_class": "pointer"}]
    (found,) = comparison_table(fill(store, *rows, name="none", modes=["a", "b"])).comparisons
    assert found.pairs == 0
    rows += [second, second | {"corruption": "direct"}]
    (found,) = comparison_table(fill(store, *rows, name="one", modes=["a", "b"])).comparisons
    assert (found.pairs, found.only_second) == (1, 0)


def test_the_power_is_an_option_of_the_command(invoke: Invoke, store: Store, path: Any) -> None:
    random_campaign(store, 1)
    result = invoke("table", "comparison", "--store", path, "--power", 0.9, "--format", "json")
    assert json.loads(result.stdout) == comparison_table(read_results(store), 0.9).model_dump()
    assert "with probability 0.8 " in invoke("table", "comparison", "--store", path).stdout


def test_one_mode_cannot_be_compared(invoke: Invoke, store: Store, path: Any) -> None:
    fill(store, {}, modes=["rio"])
    result = invoke("table", "comparison", "--store", path)
    assert isinstance(result.exception, StoreError) and "no two modes to compare" in str(result.exception)
    assert "Modes compared" not in invoke("table", "corruption", "--store", path).stdout


def test_over_kernels_only_faults_at_run_time_are_paired(store: Store) -> None:
    of = {"a": "1f", "b": "1f", "other": "2e"}
    both = itertools.product(("kernel_text", "allocation"), of)
    rows = [{"seed": "same", "fault_class": name, "mode": mode} for name, mode in both]
    results = fill(store, *rows, modes=list(of), host={"kernels": of})
    table = comparison_table(results)
    pairs = {(c.first, c.second): c.pairs for c in table.comparisons}
    assert pairs == {("a", "b"): 2, ("a", "other"): 1, ("b", "other"): 1}
    for page in (comparison_page(table), corruption_page(corruption_table(results))):
        assert "a, b: build 1f; other: build 2e" in page.note
