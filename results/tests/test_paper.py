# SPDX-License-Identifier: Apache-2.0
"""The paper's table 1 as data, and beside a campaign."""

import pytest
from results_builders import fill
from riobed_results.store.queries import CellCounts
from riobed_results.store.store import Store
from riobed_results.tables.corruption.corruption import corruption_page, corruption_table
from riobed_results.tables.framework.render import render
from riobed_results.tables.framework.shares import total_text
from riobed_results.tables.paper.table1 import CORRUPTED, FAULT_CLASSES, paper_counts

TOTALS = {
    "write-through": "7 of 650 (1.1 %)",
    "rio": "10 of 650 (1.5 %)",
    "rio-protected": "4 of 650 (0.6 %)",
}


@pytest.mark.parametrize("mode", TOTALS)
def test_the_totals_are_those_the_paper_prints(mode: str) -> None:
    counts = [paper_counts(mode, name) for name in FAULT_CLASSES]
    assert total_text(sum(counts, CellCounts())) == TOTALS[mode]
    assert set(CORRUPTED[mode]) <= set(FAULT_CLASSES) and len(FAULT_CLASSES) == 13


def test_only_what_both_have_stands_side_by_side(store: Store) -> None:
    results = fill(
        store,
        {"fault_class": "copy_overrun", "corruption": "direct"},
        {"fault_class": "copy_overrun"},
        {"fault_class": "odd_class", "corruption": "direct"},
        {"fault_class": "none"},
        {"mode": "delayed", "corruption": "indirect"},
        modes=["delayed", "rio", "rio-protected-pks", "write-through"],
        classes=["copy_overrun", "none", "odd_class", "kernel_text"],
    )
    table = corruption_table(results)
    beside = table.statistics.paper
    assert beside is not None
    assert (beside.modes, beside.fault_classes) == (["rio", "write-through"], ["copy_overrun", "kernel_text"])
    here = beside.here["copy_overrun"]["rio"]
    assert (here.corrupted, here.crashes, beside.paper["copy_overrun"]["rio"].corrupted) == (1, 2, 4)
    assert beside.fisher_p["write-through"] is None
    shown = render(corruption_page(table), "md")
    assert "| Fault class | rio | paper | write-through | paper |" in shown
    assert "| copy_overrun | 1 of 2 | 4 of 50 | 0 of 0 | 0 of 50 |" in shown
    assert "| Total | 1 of 2 (50.0 %) | 5 of 100 (5.0 %) | 0 of 0 | 2 of 100 (2.0 %) |" in shown


def test_a_campaign_that_shares_nothing_with_the_paper(store: Store) -> None:
    table = corruption_table(fill(store, {"mode": "delayed"}, modes=["delayed"]))
    assert table.statistics.paper is None and "paper" not in render(corruption_page(table), "md")
