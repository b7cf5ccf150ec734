# SPDX-License-Identifier: Apache-2.0
"""The table's numbers, against counting the same rows by hand."""

import random
from collections import Counter
from typing import Any

import pytest
from results_builders import campaign, trial
from riobed_results.report.completion import progress
from riobed_results.store.models import Outcome, TrialRow
from riobed_results.store.queries import Counts, read_results
from riobed_results.store.store import Store
from riobed_results.tables.comparison import comparison_table
from riobed_results.tables.corruption import CorruptionTable, corruption_page, corruption_table
from riobed_results.tables.proportions import corrupted_share

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
        outcome: Outcome | None = rng.choice(["crash", "crash", "discard", None])
        if outcome == "crash":
            fields["crash_kind"] = rng.choice(["panic", "oops", "trap", "hang", "reset"])
            fields["corruption"] = rng.choice(["none", "none", "direct", "indirect", "unclassified"])
        if outcome or not errors:
            rows.append(trial(campaign_id, position, outcome or "discard", attempt=errors + 1, **fields))
    rng.shuffle(rows)
    return rows


def counted_by_hand(rows: list[TrialRow], mode: str, fault_class: str | None) -> dict[str, int]:
    count: Counter[str] = Counter(dict.fromkeys(Counts.model_fields, 0))
    positions = set()
    for row in rows:
        if row.mode != mode or fault_class not in (None, row.fault_class):
            continue
        if row.outcome == "infra_error":
            count["infra_errors"] += 1
            continue
        positions.add(row.position)
        if row.outcome == "discard":
            count["discards"] += 1
            continue
        count["crashes"] += 1
        count["corrupted"] += row.corruption in ("direct", "indirect", "unclassified")
        count["traps"] += row.crash_kind == "trap"
    count["trials"] = len(positions)
    return dict(count)


def first_seen(listed: list[str], seen: list[str]) -> list[str]:
    extra: list[str] = []
    for name in seen:
        if name not in listed and name not in extra:
            extra.append(name)
    return listed + extra


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

    assert table["modes"] == first_seen(MODES, [row.mode for row in rows])
    assert [row["fault_class"] for row in table["rows"]] == first_seen(
        CLASSES, [row.fault_class for row in rows]
    )
    for line in table["rows"]:
        assert list(line["cells"]) == table["modes"]
        for mode, cell in line["cells"].items():
            assert cell == counted_by_hand(rows, mode, line["fault_class"])
    assert list(table["totals"]) == table["modes"]
    for mode, total in table["totals"].items():
        assert total == counted_by_hand(rows, mode, None)
        assert total["trials"] == total["crashes"] + total["discards"]


def test_the_contract_of_the_keys(store: Store) -> None:
    added = store.add_campaign(campaign("first", ["rio"], ["kernel_text"]))
    store.add_trial(trial(added.id, 0))
    table = corruption_table(read_results(store)).model_dump()
    cell = ["trials", "crashes", "corrupted", "discards", "infra_errors", "traps"]
    assert list(table) == ["campaign", "modes", "rows", "totals", "statistics"]
    assert table["campaign"] == "first"
    assert [list(row) for row in table["rows"]] == [["fault_class", "cells"]]
    assert list(table["rows"][0]["cells"]["rio"]) == cell
    assert list(table["totals"]["rio"]) == cell
    assert table["statistics"]["environment"]["accelerator"] == "tcg"


@pytest.mark.parametrize(
    "spec",
    ["", "- a list", "modes: rio", "modes: [1, {a: b}]", "modes: {rio: 1}", "key: 'open", "\x00", "modes:"],
)
def test_a_spec_without_lists_leaves_the_order_of_appearance(store: Store, spec: str) -> None:
    row = campaign("odd")
    row.spec = spec
    added = store.add_campaign(row)
    for position, mode in enumerate(["b", "a", "b"]):
        store.add_trial(trial(added.id, position, mode=mode))
    assert corruption_table(read_results(store)).modes == ["b", "a"]


def test_the_modes_of_the_spec_are_columns_before_their_first_trial(store: Store) -> None:
    added = store.add_campaign(campaign("begun", ["rio", "delayed", "rio"], CLASSES))
    store.add_trial(trial(added.id, 0, "discard", mode="delayed", fault_class="copy_overrun"))
    table: CorruptionTable = corruption_table(read_results(store))
    assert table.modes == ["rio", "delayed"]
    assert table.totals["rio"] == Counts()
    assert table.totals["delayed"] == Counts(trials=1, discards=1)
    assert table.statistics.totals["delayed"].model_dump() == {"share": None, "low": None, "high": None}


@pytest.mark.parametrize("crashes", [1, 2, 25, 650])
def test_intervals_at_the_ends_have_a_closed_form(crashes: int) -> None:
    end = 0.025 ** (1 / crashes)
    none = corrupted_share(Counts(crashes=crashes))
    every = corrupted_share(Counts(crashes=crashes, corrupted=crashes))
    assert none.model_dump() == pytest.approx({"share": 0, "low": 0, "high": 1 - end})
    assert every.model_dump() == pytest.approx({"share": 1, "low": end, "high": 1})


@pytest.mark.parametrize(("corrupted", "crashes"), [(7, 650), (10, 650), (4, 650), (1, 3), (24, 25)])
def test_intervals_leave_a_fortieth_on_either_side(corrupted: int, crashes: int) -> None:
    """The definition: at an end of the interval what was seen, or worse, has probability 1/40."""
    from scipy.stats import binom

    share = corrupted_share(Counts(crashes=crashes, corrupted=corrupted))
    assert binom.sf(corrupted - 1, crashes, share.low) == pytest.approx(0.025)
    assert binom.cdf(corrupted, crashes, share.high) == pytest.approx(0.025)


def test_a_reset_in_recovery_that_came_too_late_is_a_trial_but_no_crash(store: Store) -> None:
    """Nor a discard: the harness runs another one for it, so the bar of the report must not have it."""
    row = campaign(modes=["rio", "delayed"], classes=["kernel_text"])
    row.spec += "crashes_per_cell: 2"
    added = store.add_campaign(row)
    late, hit = (
        {"recovery": {"interrupted": {"planned_s": 0.1, "at_s": 0.1, "phase": phase}}}
        for phase in ("done", "e2fsck")
    )
    trap = {"crash_kind": "trap", "corruption": "direct", "seed": "same"}
    for position, fields in enumerate([late | trap, late | trap, hit, {"mode": "delayed"} | trap]):
        store.add_trial(trial(added.id, position, **fields))
    results = read_results(store)
    cell = corruption_table(results).rows[0].cells["rio"]
    assert cell == Counts(trials=3, crashes=1)
    found = progress(results.campaign, results.rows)
    assert (found.crashes, found.corrupted, found.discards, found.have) == (2, 1, 0, 2)
    assert comparison_table(results).comparisons[0].pairs == 0


def test_controls_are_rows_but_not_in_the_totals(store: Store) -> None:
    campaign_id = store.add_campaign(campaign()).id
    for position, fault_class in enumerate(["none", "kernel_text", "planted"]):
        store.add_trial(trial(campaign_id, position, fault_class=fault_class, corruption="unclassified"))
    table = corruption_table(read_results(store))
    assert [row.fault_class for row in table.rows] == ["none", "kernel_text", "planted"]
    assert all(row.cells["rio"].corrupted == 1 for row in table.rows)
    assert (table.totals["rio"].crashes, table.totals["rio"].corrupted) == (1, 1)
    faults, controls, *_ = corruption_page(table).grids
    assert ([line[0] for line in faults.body], faults.foot[0][1]) == (["kernel_text"], "1 of 1 (100.0 %)")
    assert controls.body == [["negative control (none)", "1 of 1"], ["positive control (planted)", "1 of 1"]]
    assert "Controls are in no total" in corruption_page(table).note
