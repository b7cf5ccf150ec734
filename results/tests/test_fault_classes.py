# SPDX-License-Identifier: Apache-2.0
"""The table of fault classes: its counts come from the faults of trials that gave a result."""

from typing import Any

import pytest
from publishing.claims.campaign import campaign_claims
from results_builders import faults, fill
from riobed_results.errors import StoreError
from riobed_results.store.store import Store
from riobed_results.tables.crashes.fault_classes import class_page, class_table
from riobed_results.tables.framework.render import render
from riobed_results.tables.framework.shares import percent


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
        **{"trials_activated": 3, "crashed": 3, "hung": 1, "stuck": 1, "survived": 0, "discarded": 0},
        **{"infra_errors": 1, "median_s": 4.0, "titles": 2},
    }
    assert table.lines["delayed"]["kernel_text"].median_s is None
    assert table.totals["rio"] == table.lines["rio"]["kernel_text"]
    text = render(class_page(table), "md")
    # One class is its own total.
    assert "| Total |" not in text
    assert "| 16 | 15 | 21.4 % | 4 | 75.0 % | 75.0 % | 1 | 25.0 % | 0.0 % | 4.00 | 2 | 1 |" in text
    assert "| 1 | 1 | 100.0 % | 1 | 100.0 % | 0.0 % | 0 | 0.0 % | 100.0 % | - | 0 | 0 |" in text


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
