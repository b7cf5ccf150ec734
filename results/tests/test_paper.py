# SPDX-License-Identifier: Apache-2.0
"""The paper's table 1 as data, and beside a campaign."""

import pytest
from results_builders import campaign, trial
from riobed_results.store.queries import Counts, read_results
from riobed_results.store.store import Store
from riobed_results.tables.corruption import corruption_page, corruption_table
from riobed_results.tables.paper import CORRUPTED, FAULT_CLASSES, paper_counts
from riobed_results.tables.proportions import total_text
from riobed_results.tables.render import render


@pytest.mark.parametrize(
    ("mode", "total"),
    [
        ("write-through", "7 of 650 (1.1 %)"),
        ("rio", "10 of 650 (1.5 %)"),
        ("rio-protected", "4 of 650 (0.6 %)"),
    ],
)
def test_the_totals_are_those_the_paper_prints(mode: str, total: str) -> None:
    counts = [paper_counts(mode, name) for name in FAULT_CLASSES]
    assert total_text(sum(counts, Counts())) == total
    assert set(CORRUPTED[mode]) <= set(FAULT_CLASSES)
    assert len(FAULT_CLASSES) == 13


def test_only_what_both_have_stands_side_by_side(store: Store) -> None:
    modes = ["delayed", "rio", "rio-protected-pks", "write-through"]
    added = store.add_campaign(campaign("some", modes, ["copy_overrun", "none", "odd_class", "kernel_text"]))
    fields = [
        {"fault_class": "copy_overrun", "corruption": "direct"},
        {"fault_class": "copy_overrun"},
        {"fault_class": "odd_class", "corruption": "direct"},
        {"fault_class": "none"},
        {"mode": "delayed", "corruption": "indirect"},
    ]
    for position, more in enumerate(fields):
        store.add_trial(trial(added.id, position, **more))  # type: ignore[arg-type]
    table = corruption_table(read_results(store))
    beside = table.statistics.paper
    assert beside is not None
    assert (beside.modes, beside.fault_classes) == (["rio", "write-through"], ["copy_overrun", "kernel_text"])
    assert beside.paper["copy_overrun"]["rio"].corrupted == 4
    assert beside.here["copy_overrun"]["rio"].model_dump(include={"corrupted", "crashes"}) == {
        "corrupted": 1,
        "crashes": 2,
    }
    assert beside.fisher_p["write-through"] is None
    shown = render(corruption_page(table), "md")
    assert "| Fault class | rio | paper | write-through | paper |" in shown
    assert "| copy_overrun | 1 of 2 | 4 of 50 | 0 of 0 | 0 of 50 |" in shown
    assert "a total mixes them otherwise than the paper's" in shown and "the campaign's spec says" in shown
    assert "| Total | 1 of 2 (50.0 %) | 5 of 100 (5.0 %) | 0 of 0 | 2 of 100 (2.0 %) |" in shown


def test_a_campaign_that_shares_nothing_with_the_paper(store: Store) -> None:
    store.add_trial(trial(store.add_campaign(campaign("other", ["delayed"], [])).id, 0, mode="delayed"))
    table = corruption_table(read_results(store))
    assert table.statistics.paper is None
    assert "paper" not in render(corruption_page(table), "md")
