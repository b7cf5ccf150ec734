# SPDX-License-Identifier: Apache-2.0
"""A crash whose recovery failed for good: all that is known of it is that all is lost."""

from pathlib import Path
from typing import Any

import pytest
from results_builders import faults, fill, planted, recovered
from riobed_results.report.report import report
from riobed_results.rules.controls import failed_controls
from riobed_results.store.logs import Links
from riobed_results.store.queries import Results
from riobed_results.store.store import Store
from riobed_results.tables.controls.losses import NO_FAULT
from riobed_results.tables.controls.planted import PLANTED
from riobed_results.tables.corruption.corruption import corruption_table
from riobed_results.tables.crashes.stories import story_table
from riobed_results.tables.framework.by_mode import mode_table
from riobed_results.tables.framework.render import FORMS, render
from riobed_results.tables.registry import campaign_pages

FAILED: dict[str, Any] = {
    "corruption": "unclassified",
    "corruption_where": "disk",
    "detail": "recovery failed: mount: Structure needs cleaning",
    "phases": {"watch": 1.0, "reset": 2.0},
}


@pytest.fixture
def results(store: Store) -> Results:
    rows: list[dict[str, Any]] = [{"faults": faults(2), "requested": 2, "log": "logs/0.log.gz"}]
    rows += [{"fault_class": "none"}, *(planted(kind, "unclassified") for kind in ("entry", "stray"))]
    classes = ["kernel_text", "none", "planted"]
    return fill(store, *(FAILED | fields for fields in rows), modes=["rio"], classes=classes)


def test_every_table_and_the_report_can_be_made(results: Results, store: Store, path: Path) -> None:
    pages = campaign_pages(results)
    of_all = {"corruption", "outcomes", "sensitivity", "faults", "activated", "titles", "stories", "phases"}
    assert set(pages) == of_all | {"no-fault", "planted"}
    assert all(render(page, form) for page in pages.values() for form in FORMS)
    assert "recovery" in report(store, None, Links(path.parent, path.parent))


def test_it_is_a_corruption_that_recovery_found(results: Results) -> None:
    cell = corruption_table(results).totals["rio"]
    assert (cell.crashes, cell.corrupted) == (1, 1)
    story, of_none = story_table(results).stories
    assert story.oracles == of_none.oracles == ["recovery"]
    assert (story.where, story.differing, story.mismatches) == ("disk", None, [])


def test_a_reset_without_a_fault_lost_something(results: Results) -> None:
    lines = {name: cells["rio"] for name, cells in mode_table(results, NO_FAULT).lines.items()}
    assert (lines["Resets"], lines["Lost or changed a file"]) == (1, 1)
    assert not lines.keys() & {"Checksum mismatches", "Pages restored, median"}
    (sentence,) = failed_controls(results.rows, results.campaign.vocabulary)
    assert "mode rio: 1 of 1 resets without a fault lost" in sentence


def test_a_planted_change_cannot_be_classed(results: Results) -> None:
    lines = {name: cells["rio"] for name, cells in mode_table(results, PLANTED).lines.items()}
    assert (lines["Found"], lines["Found and rightly classed"]) == (2, 2)


def test_damage_of_memory_is_told_beside_what_is_incomplete(store: Store) -> None:
    parts = [
        recovered(),
        recovered(rejected=2, corrupt=3),
        recovered(rejected=2, checksums=None) | {"complete": False},
    ]
    sound, damaged, both = (row.recovery for row in fill(store, *({"recovery": each} for each in parts)).rows)
    assert sound and damaged and both and (sound.damage, sound.incomplete, damaged.incomplete) == ("", "", "")
    assert "2 parts of the registry rejected" in damaged.damage and "3 pages with a wrong" in damaged.damage
    assert "0 pages with a wrong" in both.damage and "2 parts of the registry damaged" in both.incomplete
