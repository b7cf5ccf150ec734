# SPDX-License-Identifier: Apache-2.0
"""The table's numbers, against counting the same rows by hand."""

import random
from pathlib import Path
from typing import Any

import pytest
from results_builders import campaign, fill, recovered, trial
from riobed_results.report.completion import progress
from riobed_results.store import open_store
from riobed_results.store.queries import CellCounts, read_results
from riobed_results.store.store import Store
from riobed_results.store.trial import Outcome, TrialRow
from riobed_results.tables.corruption.comparison import comparison_table
from riobed_results.tables.corruption.corruption import corruption_page, corruption_table
from riobed_results.tables.framework.shares import corrupted_share

TABLE1 = Path(__file__).parents[1] / "published/table1"
MODES = ["write-through", "delayed", "rio"]
CLASSES = ["kernel_text", "delete_branch", "copy_overrun"]


def random_rows(rng: random.Random, campaign_id: int) -> list[TrialRow]:
    """Rows of a plan: some infra errors at a position, then a result, or none if it was cut short."""
    modes, classes = [*MODES[1:], "odd_mode"], ["odd_class", *CLASSES]
    rows = []
    for position in range(rng.randrange(1, 40)):
        fields: dict[str, Any] = {"mode": rng.choice(modes), "fault_class": rng.choice(classes)}
        errors = rng.choice([0, 0, 0, 1, 3])
        rows += [trial(campaign_id, position, "infra_error", attempt=n + 1, **fields) for n in range(errors)]
        outcome: Outcome | None = rng.choice(["panic", "hang", "stuck", "survived", None])
        if outcome:
            fields["crash_kind"] = rng.choice(["panic", "oops", "trap", "hang", "reset"])
            fields["corruption"] = rng.choice(["none", "none", "direct", "indirect", "unclassified"])
        if outcome or not errors:
            rows.append(trial(campaign_id, position, outcome or "discard", attempt=errors + 1, **fields))
    rng.shuffle(rows)
    return rows


def counted_by_hand(rows: list[TrialRow], mode: str, fault_class: str | None) -> dict[str, int]:
    of_cell = [row for row in rows if row.mode == mode and fault_class in (None, row.fault_class)]
    crashes = [row for row in of_cell if row.outcome in ("panic", "hang")]
    return {
        "trials": len({row.position for row in of_cell if row.outcome != "infra_error"}),
        "crashes": len(crashes),
        "corrupted": sum(row.corruption in ("direct", "indirect", "unclassified") for row in crashes),
        **{name: sum(row.outcome == name for row in of_cell) for name in ("stuck", "survived")},
        "discards": sum(row.outcome == "discard" for row in of_cell),
        "infra_errors": sum(row.outcome == "infra_error" for row in of_cell),
        "traps": sum(row.crash_kind == "trap" for row in crashes),
    }


@pytest.mark.parametrize("seed", range(15))
def test_random_rows_against_a_count_by_hand(store: Store, seed: int) -> None:
    rng = random.Random(seed)
    added = store.add_campaign(campaign("counted", MODES, CLASSES))
    other = store.add_campaign(campaign("other", MODES, CLASSES))
    rows = random_rows(rng, added.id)
    with store.session() as session:
        session.add_all(rows + random_rows(rng, other.id))
    rows.sort(key=lambda row: row.id)
    table = corruption_table(read_results(store, "counted")).model_dump()

    modes = table["modes"]
    assert modes == list(dict.fromkeys([*MODES, *(row.mode for row in rows)]))
    classes = list(dict.fromkeys([*CLASSES, *(row.fault_class for row in rows)]))
    assert table["rows"] == [
        {"fault_class": name, "cells": {mode: counted_by_hand(rows, mode, name) for mode in modes}}
        for name in classes
    ]
    assert table["totals"] == {mode: counted_by_hand(rows, mode, None) for mode in modes}
    assert [list(row["cells"]) for row in table["rows"]] == [modes] * len(classes)
    assert list(table["totals"]) == modes
    for outcome, blocks in table["outcomes"].items():
        ended = [row for row in rows if row.outcome == outcome]
        for row in blocks:
            for mode, cell in row["cells"].items():
                mine = [each for each in ended if (each.mode, each.fault_class) == (mode, row["fault_class"])]
                bad = sum(each.corruption != "none" for each in mine)
                assert (cell["crashes"], cell["corrupted"]) == (len(mine), bad)
    assert set(table["outcomes"]) == {row.outcome for row in rows} - {"discard", "infra_error"}


def test_the_contract_of_the_keys(store: Store) -> None:
    table = corruption_table(fill(store, {}, modes=["rio"], classes=["kernel_text"])).model_dump()
    assert list(table) == [
        *("campaign", "modes", "rows", "totals", "outcomes", "losses", "judges_all", "statistics")
    ]
    cell = ["trials", "crashes", "corrupted", "stuck", "survived", "discards", "infra_errors", "traps"]
    assert list(table["rows"][0]["cells"]["rio"]) == list(table["totals"]["rio"]) == cell
    assert (table["campaign"], table["statistics"]["environment"]["accelerator"]) == ("first", "tcg")


@pytest.mark.parametrize(
    "spec",
    ["", "- a list", "modes: rio", "modes: [1, {a: b}]", "modes: {rio: 1}", "key: 'open", "\x00", "modes:"],
)
def test_a_spec_without_lists_leaves_the_order_of_appearance(store: Store, spec: str) -> None:
    results = fill(store, *({"mode": mode} for mode in "bab"))
    results.campaign.spec = spec
    assert corruption_table(results).modes == ["b", "a"]


def test_the_modes_of_the_spec_are_columns_before_their_first_trial(store: Store) -> None:
    survived = {"outcome": "survived", "mode": "delayed", "fault_class": "copy_overrun"}
    table = corruption_table(fill(store, survived, modes=["rio", "delayed", "rio"], classes=CLASSES))
    assert table.totals == {"rio": CellCounts(), "delayed": CellCounts(trials=1, survived=1)}
    assert table.modes == ["rio", "delayed"]
    assert table.statistics.totals["delayed"].model_dump() == {"share": None, "low": None, "high": None}


@pytest.mark.parametrize("crashes", [1, 2, 25, 650])
def test_intervals_at_the_ends_have_a_closed_form(crashes: int) -> None:
    end = 0.025 ** (1 / crashes)
    none = corrupted_share(CellCounts(crashes=crashes))
    every = corrupted_share(CellCounts(crashes=crashes, corrupted=crashes))
    assert none.model_dump() == pytest.approx({"share": 0, "low": 0, "high": 1 - end})
    assert every.model_dump() == pytest.approx({"share": 1, "low": end, "high": 1})


@pytest.mark.parametrize(("corrupted", "crashes"), [(7, 650), (10, 650), (4, 650), (1, 3), (24, 25)])
def test_intervals_leave_a_fortieth_on_either_side(corrupted: int, crashes: int) -> None:
    """The definition: at an end of the interval what was seen, or worse, has probability 1/40."""
    from scipy.stats import binom

    share = corrupted_share(CellCounts(crashes=crashes, corrupted=corrupted))
    assert binom.sf(corrupted - 1, crashes, share.low) == pytest.approx(0.025)
    assert binom.cdf(corrupted, crashes, share.high) == pytest.approx(0.025)


def test_a_reset_in_recovery_that_came_too_late_is_a_trial_but_no_crash(store: Store) -> None:
    """The harness runs another one for it, so the bar of the report must not have it."""
    late, hit = ({"recovery": recovered(phase=phase)} for phase in ("done", "e2fsck"))
    trap = {"crash_kind": "trap", "corruption": "direct", "seed": "same"}
    rows = [late | trap, late | trap, hit, {"mode": "delayed"} | trap]
    spec = {"modes": ["rio", "delayed"], "classes": ["kernel_text"], "spec": "crashes_per_cell: 2"}
    results = fill(store, *rows, **spec)  # type: ignore[arg-type]
    assert corruption_table(results).rows[0].cells["rio"] == CellCounts(trials=3, crashes=1)
    found = progress(results)
    assert (found.crashes, found.corrupted, found.others, found.have) == (2, 1, "0 stuck, 0 survived", 2)
    assert comparison_table(results).comparisons[0].pairs == 0


def test_a_page_explains_what_it_has_and_nothing_else(store: Store) -> None:
    """Ends of runs where each run was judged, p-values where modes are compared."""
    judged = {"outcome": "survived", "corruption": "none"}
    alone = corruption_page(corruption_table(fill(store, judged)))
    assert "Every run is judged" in alone.note and "after a panic" in alone.legend
    assert "Fisher's p" not in alone.legend
    old = corruption_page(corruption_table(read_results(open_store(str(TABLE1)), faults=False)))
    assert "discard" in old.note and "after a panic" not in old.legend and "Fisher's p" in old.legend


def test_controls_are_rows_but_not_in_the_totals(store: Store) -> None:
    wrong = {"corruption": "unclassified"}
    rows = [wrong | {"fault_class": name} for name in ("none", "kernel_text", "planted")]
    table = corruption_table(fill(store, *rows))
    assert [row.fault_class for row in table.rows] == ["none", "kernel_text", "planted"]
    assert all(row.cells["rio"] == CellCounts(trials=1, crashes=1, corrupted=1) for row in table.rows)
    assert (table.totals["rio"].crashes, table.totals["rio"].corrupted) == (1, 1)
    faults, _after_a_panic, _lost, controls, ends, *_ = corruption_page(table).grids
    assert ends.title == "Crashes + stuck + survived"
    assert ([line[0] for line in faults.body], faults.foot[0][1]) == (["kernel_text"], "1 of 1 (100.0 %)")
    assert controls.body == [["negative control (none)", "1 of 1"], ["positive control (planted)", "1 of 1"]]


def test_what_was_lost_stands_beside_the_verdict(store: Store) -> None:
    def lost(mode: str, files: int | None, seconds: float | None, **fields: Any) -> dict[str, Any]:
        bytes_lost = None if files is None else 1000 * files
        told = {"files_lost": files, "bytes_lost": bytes_lost, "seconds_lost": seconds}
        return {"mode": mode, "fault_class": "kernel_text", "corruption": "none"} | told | fields

    results = fill(
        store,
        lost("delayed", 3, 2.0, promise="synced"),
        lost("delayed", 5, 9.25, promise="synced", outcome="survived"),
        lost("delayed", 90, 90.0, promise="synced", fault_class="none"),
        # Of damage no age is known.
        lost("rio", 0, 0.0, promise="steps"),
        lost("rio", 2, None, corruption="direct"),
        lost("write-through", None, None, restart="power", steps_lost=4),
        modes=MODES,
        classes=CLASSES,
    )
    table = corruption_table(results)
    assert table.losses["delayed"].model_dump() == {
        "promises": ["what was synced"], "runs": 2, "files_median": 4, "files_most": 5, "bytes_median": 4000,
        "bytes_most": 5000, "seconds_median": 5.625, "seconds_most": 9.25,
    }  # fmt: skip
    # What a store does not say was judged as it was then.
    assert [table.losses[mode].promises for mode in ("rio", "write-through")] == [["each step"], ["any step"]]
    (grid,) = [grid for grid in corruption_page(table).grids if grid.title == "Lost by judged runs"]
    assert grid.body[1] == ["Files: median, most", "-", "4, 5", "1, 2"]
    assert grid.body[3] == ["Seconds: median, most", "-", "5.6, 9.2", "-"]
