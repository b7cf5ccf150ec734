# SPDX-License-Identifier: Apache-2.0
"""The table of fault classes: its counts come from the faults of trials that gave a result."""

from pathlib import Path
from typing import Any

import pytest
from publishing.claims.campaign import campaign_claims
from results_builders import faults, fill
from riobed_results.errors import StoreError, StoreUsageError
from riobed_results.stats.ratios import ratio_of_means
from riobed_results.store.queries import read_results
from riobed_results.store.store import Store, open_store
from riobed_results.store.trial import FaultRow
from riobed_results.tables.crashes.activated import activated_page, activated_table
from riobed_results.tables.crashes.fault_classes import class_page, class_table
from riobed_results.tables.framework.render import render
from riobed_results.tables.framework.shares import percent
from scipy.stats import ttest_1samp

PUBLISHED = Path(__file__).parents[1] / "published"


def rows() -> list[dict[str, Any]]:
    unwatched = faults(4)
    for fault in unwatched[2:]:
        fault.activated = None
    unwatched[3].injected = False
    crash = {"requested": 4, "crash_title": "one"}
    return [
        crash | {"faults": unwatched, "time_to_crash_s": 1.0},
        crash | {"faults": faults(4), "time_to_crash_s": 4.0},
        {"requested": 4, "faults": faults(4), "time_to_crash_s": 9.0, "crash_kind": "hang"},
        {"outcome": "stuck", "requested": 4, "faults": [fault for fault in faults(5) if fault.index]},
        {"outcome": "infra_error", "requested": 4, "faults": faults(4)},
        {"outcome": "survived", "mode": "delayed", "requested": 1, "faults": faults(1)},
    ]


def test_counts(store: Store) -> None:
    table = class_table(fill(store, *rows(), modes=["rio"], classes=["pointer", "kernel_text"]))
    assert (table.modes, table.fault_classes) == (["rio", "delayed"], ["kernel_text"])
    assert table.lines["rio"]["kernel_text"].model_dump() == {
        **{"trials": 4, "requested": 16, "injected": 15, "watched": 14, "activated": 3},
        **{"trials_activated": 3, "crashed": 3, "hung": 1, "stuck": 1, "survived": 0},
        **{"steps_made": 0, "discarded": 0, "infra_errors": 1, "median_s": 4.0, "titles": 2},
    }
    assert table.lines["delayed"]["kernel_text"].median_s is None
    assert table.totals["rio"] == table.lines["rio"]["kernel_text"]
    text = render(class_page(table), "md")
    # One class is its own total.
    assert "| Total |" not in text
    assert "| 16 | 15 | 21.4 % | 4 | 75.0 % | 75.0 % | 1 | 25.0 % | 0.0 % | 4.00 | 2 | 1 |" in text
    assert "| 1 | 1 | 100.0 % | 1 | 100.0 % | 0.0 % | 0 | 0.0 % | 100.0 % | - | 0 | 0 |" in text


@pytest.mark.parametrize("asked", [True, False])
def test_how_many_of_those_that_survived_made_their_steps(store: Store, asked: bool) -> None:
    how = ("steps made", "steps made; no panic within 10 s of an NMI", "timed out", "workload ended")
    rows: list[dict[str, Any]] = [{"outcome": "survived", "detail": detail} for detail in how]
    rows += [{"outcome": "panic", "detail": "steps made"}, {"mode": "delayed"}]
    for row in rows:
        row |= {"requested": 1, "faults": faults(1)}
    table = class_table(fill(store, *rows, spec="survivor_steps: 9\n" if asked else "limit_s: 9\n"))
    assert (table.totals["rio"].survived, table.totals["rio"].steps_made) == (4, 2)
    text = render(class_page(table), "md")
    assert (" 80.0 % | 50.0 % |" in text) == ("| Steps made |" in text) == ("survivor_steps" in text) == asked


def test_a_total_counts_each_title_once(store: Store) -> None:
    titles = [("kernel_text", "one"), ("pointer", "one"), ("pointer", "two")]
    rows = [
        {"fault_class": name, "requested": 2, "faults": faults(2), "crash_title": t} for name, t in titles
    ]
    table = class_table(fill(store, *rows))
    total = table.totals["rio"]
    assert (total.trials, total.requested, total.crashed, total.titles) == (3, 6, 3, 2)
    assert "| Total | 6 | 6 |" in render(class_page(table), "md")


def test_doses_at_which_half_of_the_runs_crash(store: Store) -> None:
    ends = {"pointer": "panic survived panic survived", "kernel_text": "panic panic panic survived survived"}
    ends["off_by_one"] = "panic panic survived"
    rows = [
        {"fault_class": name, "outcome": end, "requested": 2, "faults": faults(2)}
        for name, all_ends in ends.items()
        for end in all_ends.split()
    ]
    claims = campaign_claims(fill(store, *rows, spec="faults: {pointer: 2}\n"))
    assert {claim.key: claim.text for claim in claims}["classes_with_dose_40_to_60"] == "2 of 3"


def test_shares_of_one_whole_make_all_of_it() -> None:
    assert (percent(17, 40), percent(23, 40)) == ("42.5 %", "57.5 %")
    assert percent(0, 0) == "-"


def test_a_control_is_in_no_line_and_no_total(store: Store) -> None:
    """What it changes on purpose is counted as a fault of its row, and would be one of the class's trials."""

    def planted() -> dict[str, Any]:
        return {"fault_class": "planted", "requested": 1, "faults": faults(1, "planted")}

    without = class_table(fill(store, *rows(), name="without"))
    none = {"fault_class": "none", "mode": "rio-protected"}
    found = class_table(fill(store, *rows(), planted(), none, name="with"))
    assert (found.lines, found.totals) == (without.lines, without.totals)
    with pytest.raises(StoreError, match="no trials with faults"):
        class_table(fill(store, planted(), name="only"))


def test_activated_faults_as_an_audit_counted_them() -> None:
    """With code of its own, in a published store: slower modes got fewer in the same seconds."""
    table = activated_table(read_results(open_store(str(PUBLISHED / "speed"))))
    means = {(line.fault_class, line.mode): round(line.mean, 1) for line in table.lines}
    for name, audited in (("allocation", (3.1, 8.8, 7.7)), ("copy_overrun", (7.0, 13.5, 3.8))):
        assert tuple(means[name, mode] for mode in ("write-through", "rio", "rio-protected")) == audited


def test_the_ratio_is_that_of_runs_with_the_same_faults(store: Store) -> None:
    def run(mode: str, seed: str, activated: int, **fields: Any) -> dict[str, Any]:
        made = [
            FaultRow(index=n, fault_class="allocation", injected=True, activated=n < activated)
            for n in range(4)
        ]
        base = {"fault_class": "allocation", "mode": mode, "seed": seed, "requested": 4, "faults": made}
        return base | fields

    results = fill(
        store,
        *(run("write-through-60pct", seed, n) for seed, n in (("a", 4), ("b", 3), ("c", 0), ("d", 1))),
        *(run("rio-60pct", seed, n) for seed, n in (("a", 4), ("b", 2), ("c", 1), ("e", 4))),
        # No dose of a run that was not judged, and none of a control.
        run("rio-60pct", "d", 4, outcome="infra_error"),
        run("rio-60pct", "f", 4, fault_class="planted"),
        modes=["rio-60pct", "write-through-60pct"],
    )
    table = activated_table(results)
    rio, base = table.lines
    assert (table.base, base.mode, base.over) == ("write-through-60pct", "write-through-60pct", None)
    assert (rio.runs, rio.requested, rio.mean, rio.median) == (4, 4, 2.75, 3)
    assert rio.over and (rio.over.pairs, rio.over.ratio) == (3, 1)
    assert "| allocation | rio-60pct | 4 | 4 | 2.75 | 3 | 1.00 |" in render(activated_page(table), "md")
    assert [line.over is None for line in activated_table(results, over="rio-60pct").lines] == [True, False]
    with pytest.raises(StoreUsageError, match="mode 'rio': want one of rio-60pct, write"):
        activated_table(results, over="rio")


def test_the_interval_has_the_ratios_that_a_test_of_the_pairs_does_not_reject() -> None:
    pairs = [(9, 10), (7, 10), (10, 8), (4, 9), (10, 10), (8, 6)]
    found = ratio_of_means(pairs)
    assert found and found.low and found.high and found.ratio == pytest.approx(48 / 53)
    for end in (found.low, found.high):
        assert ttest_1samp([x - end * y for x, y in pairs], 0).pvalue == pytest.approx(0.05)
    always = ratio_of_means([(4, 4)] * 5)
    assert always and (always.low, always.ratio, always.high) == (1, 1, 1)
    # The second mean may be 0, or is.
    assert (vague := ratio_of_means([(1, 0), (1, 1)])) and (vague.ratio, vague.low) == (2, None)
    assert ratio_of_means([(1, 0)]) is None
