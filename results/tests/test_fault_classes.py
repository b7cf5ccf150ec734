# SPDX-License-Identifier: Apache-2.0
"""The table of fault classes: its counts come from the faults of trials that gave a result."""

import pytest
from results_builders import campaign, faults, trial
from riobed_results.errors import StoreError
from riobed_results.store.queries import read_results
from riobed_results.store.store import Store
from riobed_results.tables.fault_classes import class_page, class_table
from riobed_results.tables.proportions import percent
from riobed_results.tables.render import render


@pytest.fixture
def filled(store: Store) -> Store:
    added = store.add_campaign(campaign(modes=["rio"], classes=["pointer", "kernel_text"]))
    unwatched = faults(4)
    for fault in unwatched[2:]:
        fault.activated = None
    unwatched[3].injected = False
    rows = [
        trial(added.id, 0, requested=4, faults=unwatched, time_to_crash_s=1.0, crash_title="one"),
        trial(added.id, 1, requested=4, faults=faults(4), time_to_crash_s=4.0, crash_title="one"),
        trial(added.id, 2, requested=4, faults=faults(4), time_to_crash_s=9.0, crash_kind="hang"),
        trial(added.id, 3, "discard", requested=4, faults=[f for f in faults(5) if f.index]),
        trial(added.id, 4, "infra_error", requested=4, faults=faults(4)),
        trial(added.id, 5, fault_class="none"),
        trial(added.id, 6, "discard", mode="delayed", requested=1, faults=faults(1)),
    ]
    for row in rows:
        store.add_trial(row)
    return store


def test_counts(filled: Store) -> None:
    table = class_table(read_results(filled))
    assert table.modes == ["rio", "delayed"]
    assert table.fault_classes == ["kernel_text"]
    assert table.lines["rio"]["kernel_text"].model_dump() == {
        "trials": 4,
        "requested": 16,
        "injected": 15,
        "watched": 14,
        "activated": 3,
        "trials_activated": 3,
        "crashed": 3,
        "hung": 1,
        "discarded": 1,
        "infra_errors": 1,
        "median_s": 4.0,
        "titles": 2,
    }
    assert table.lines["delayed"]["kernel_text"].median_s is None
    assert table.totals["rio"] == table.lines["rio"]["kernel_text"]


def test_a_total_counts_each_title_once(store: Store) -> None:
    added = store.add_campaign(campaign(modes=["rio"], classes=["kernel_text", "pointer"]))
    for position, (name, title) in enumerate(
        [("kernel_text", "one"), ("pointer", "one"), ("pointer", "two")]
    ):
        store.add_trial(
            trial(added.id, position, fault_class=name, requested=2, faults=faults(2), crash_title=title)
        )
    table = class_table(read_results(store))
    total = table.totals["rio"]
    assert (total.trials, total.requested, total.crashed, total.titles) == (3, 6, 3, 2)
    assert "| Total | 6 | 6 |" in render(class_page(table), "md")


def test_as_text(filled: Store) -> None:
    page = class_page(class_table(read_results(filled)))
    text = render(page, "md")
    assert "| kernel_text | 16 | 15 | 21.4 % | 4 | 75.0 % | 75.0 % | 1 | 25.0 % | 4.00 | 2 | 1 |" in text
    assert "| kernel_text | 1 | 1 | 100.0 % | 1 | 100.0 % | 0.0 % | 0 | 100.0 % | - | 0 | 0 |" in text
    assert "(no crash within the limit, or given up early)" in page.note


def test_shares_of_one_whole_make_all_of_it() -> None:
    assert (percent(17, 40), percent(23, 40)) == ("42.5 %", "57.5 %")
    assert percent(0, 0) == "-"


def test_a_control_is_in_no_line_and_no_total(filled: Store) -> None:
    """What it changes on purpose is counted as a fault of its row, and would be one of the class's trials."""
    before = class_table(read_results(filled))
    added = filled.campaign().id
    filled.add_trial(trial(added, 20, fault_class="planted", requested=1, faults=faults(1, "planted")))
    filled.add_trial(trial(added, 21, fault_class="none", mode="rio-protected"))
    assert class_table(read_results(filled)) == before
    only = filled.add_campaign(campaign("only"))
    filled.add_trial(trial(only.id, 0, fault_class="planted", requested=1, faults=faults(1, "planted")))
    with pytest.raises(StoreError, match="no trials with faults"):
        class_table(read_results(filled))
