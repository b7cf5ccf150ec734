# SPDX-License-Identifier: Apache-2.0
"""Medians and quartiles by outcome, mode and phase, of trials that did not boot afresh."""

import pytest
from results_builders import fill
from riobed_results.errors import StoreError
from riobed_results.store.queries import Results
from riobed_results.store.store import Store
from riobed_results.tables.crashes.phases import WHOLE, phase_page, phase_table
from riobed_results.tables.framework.render import render


@pytest.fixture
def results(store: Store) -> Results:
    return fill(
        store,
        {"phases": {"restore": 1.0, "check": 4.0}, "steal_s": 0.25},
        {"outcome": "survived", "phases": {"restore": 9.0}},
        {"phases": {"restore": 2.0, "check": 8.0}, "steal_s": 0.75},
        {"phases": {"restore": 6.0, "check": 1.0}},
        {"phases": {"restore": 99.0, "check": 99.0}, "fresh_boot": True},
        {"outcome": "infra_error", "phases": {"restore": 99.0}},
        {"mode": "delayed", "phases": {"restore": 3.0016}},
        {"fault_class": "none", "phases": {"restore": 0.5}},
        {"outcome": "survived", "fault_class": "planted", "phases": {"restore": 1.5}},
        modes=["delayed", "rio"],
    )


def test_medians_and_quartiles(results: Results) -> None:
    table = phase_table(results)
    assert (table.modes, table.phases) == (["delayed", "rio"], ["restore", "check", WHOLE])
    found = {
        (group, mode, phase): tuple(spread.model_dump().values())
        for group, modes in table.spreads.items()
        for mode, spreads in modes.items()
        for phase, spread in spreads.items()
    }
    assert found == {
        ("crash", "delayed", "restore"): (1, 3.002, 3.002, 3.002),
        ("crash", "delayed", WHOLE): (1, 3.002, 3.002, 3.002),
        ("crash", "rio", "restore"): (3, 2.0, 1.5, 4.0),
        ("crash", "rio", "check"): (3, 4.0, 2.5, 6.0),
        ("crash", "rio", WHOLE): (3, 7.0, 6.0, 8.5),  # the sums are 5, 10 and 7
        ("survived", "rio", "restore"): (1, 9.0, 9.0, 9.0),
        ("survived", "rio", WHOLE): (1, 9.0, 9.0, 9.0),
        ("control", "rio", "restore"): (2, 1.0, 0.75, 1.25),
        ("control", "rio", WHOLE): (2, 1.0, 0.75, 1.25),
    }


def test_as_text(results: Results) -> None:
    page = phase_page(phase_table(results))
    text = render(page, "md")
    assert "| check |  | 4.00 (2.50 to 6.00; 3) |" in text
    assert f"| {WHOLE} |  | 9.00 (9.00 to 9.00; 1) |" in text
    *grids, steal = page.grids
    assert [grid.title.split("(")[0].split()[-1] for grid in grids] == ["crash", "down", "controls"]
    assert [[line[0] for line in grid.foot] for grid in grids] == [[WHOLE]] * 3
    # Two trials of rio say how long their guests waited for the host.
    assert steal.body == [["waited for the host", "", "0.50 (0.38 to 0.62; 2)"]]


def test_a_campaign_without_results(store: Store) -> None:
    with pytest.raises(StoreError, match="no results yet"):
        phase_table(fill(store, {"outcome": "infra_error"}))
