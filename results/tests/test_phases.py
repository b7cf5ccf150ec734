# SPDX-License-Identifier: Apache-2.0
"""Medians and quartiles by outcome, mode and phase, of trials that did not boot afresh."""

import pytest
from results_builders import campaign, trial
from riobed_results.errors import StoreError
from riobed_results.store.queries import read_results
from riobed_results.store.store import Store
from riobed_results.tables.phases import WHOLE, phase_page, phase_table
from riobed_results.tables.render import render


@pytest.fixture
def filled(store: Store) -> Store:
    added = store.add_campaign(campaign(modes=["delayed", "rio"]))
    trials = [
        trial(added.id, 0, phases={"restore": 1.0, "check": 4.0}),
        trial(added.id, 1, "discard", phases={"restore": 9.0}),
        trial(added.id, 2, phases={"restore": 2.0, "check": 8.0}),
        trial(added.id, 3, phases={"restore": 6.0, "check": 1.0}),
        trial(added.id, 4, phases={"restore": 99.0, "check": 99.0}, fresh_boot=True),
        trial(added.id, 5, "infra_error", phases={"restore": 99.0}),
        trial(added.id, 6, mode="delayed", phases={"restore": 3.0}),
        trial(added.id, 7, fault_class="none", phases={"restore": 0.5}),
        trial(added.id, 8, "discard", fault_class="planted", phases={"restore": 1.5}),
    ]
    for row in trials:
        store.add_trial(row)
    return store


def test_medians_and_quartiles(filled: Store) -> None:
    table = phase_table(read_results(filled))
    assert table.modes == ["delayed", "rio"]
    assert table.phases == ["restore", "check", WHOLE]
    crashes = table.spreads["crash"]
    assert crashes["rio"]["restore"].model_dump() == {"n": 3, "median": 2.0, "q1": 1.5, "q3": 4.0}
    assert crashes["rio"]["check"].model_dump() == {"n": 3, "median": 4.0, "q1": 2.5, "q3": 6.0}
    # The sums are 5, 10 and 7.
    assert crashes["rio"][WHOLE].model_dump() == {"n": 3, "median": 7.0, "q1": 6.0, "q3": 8.5}
    assert crashes["delayed"]["restore"].model_dump() == {"n": 1, "median": 3.0, "q1": 3.0, "q3": 3.0}
    assert "check" not in crashes["delayed"]
    assert set(table.spreads["discard"]["rio"]) == {"restore", WHOLE}
    assert table.spreads["discard"]["rio"]["restore"].n == 1
    assert table.spreads["control"]["rio"]["restore"].model_dump(include={"n", "median"}) == {
        "n": 2,
        "median": 1.0,
    }


def test_as_text(filled: Store) -> None:
    page = phase_page(phase_table(read_results(filled)))
    text = render(page, "md")
    assert "| check |  | 4.00 (2.50 to 6.00; 3) |" in text
    assert f"| {WHOLE} |  | 9.00 (9.00 to 9.00; 1) |" in text
    assert [grid.title for grid in page.grids] == [
        "Trials that ended in a crash",
        "Trials that ended in a discard",
        "Trials of controls (none, planted)",
    ]


def test_a_campaign_without_results(store: Store) -> None:
    added = store.add_campaign(campaign())
    store.add_trial(trial(added.id, 0, "infra_error"))
    with pytest.raises(StoreError, match="no results yet"):
        phase_table(read_results(store))
