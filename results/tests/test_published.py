# SPDX-License-Identifier: Apache-2.0
"""Each published store opens and gives its tables, and nothing that is named beside it is missing."""

import re
from functools import cache
from pathlib import Path

import pytest
from publishing.adjudication import adjudicate, adjudication_page, cases, read_answers
from publishing.publish import worth_keeping
from riobed_results.errors import StoreUsageError
from riobed_results.report.report import report
from riobed_results.store import (
    ARCHIVE,
    PACKED_FILE,
    REPORT_FILE,
    Links,
    Logs,
    Results,
    open_store,
    read_results,
)
from riobed_results.store.logs import member_name
from riobed_results.tables.crashes.activated import Activated, activated_table
from riobed_results.tables.framework.render import render
from riobed_results.tables.registry import campaign_pages

PLACE = Path(__file__).parents[1] / "published"
PUBLISHED = sorted(path.parent for path in PLACE.glob(f"**/{PACKED_FILE}"))
ADJUDICATED = sorted(path.parent for path in PLACE.glob("**/adjudication/first.csv"))
# The one report that is kept, as a sample.
SAMPLE = PLACE / "instrument"
# A later campaign took the place of these. What a page still cites is kept: their rows.
_STEPS = ("before", "warm", "parked", "both", "both-3-workers")
SUPERSEDED = {"first", "faults", *(f"speed/{step}" for step in _STEPS)}
pytestmark = pytest.mark.slow
every_campaign = pytest.mark.parametrize(
    "folder",
    [
        pytest.param(
            folder,
            id=folder.name,
            # Their rows are counted again by the claims and the recomputation.
            marks=[pytest.mark.extended] * (str(folder.relative_to(PLACE)) in SUPERSEDED),
        )
        for folder in PUBLISHED
    ],
)


@cache
def results_of(folder: Path) -> Results:
    return read_results(open_store(str(folder)))


def test_there_is_something_published() -> None:
    assert {"table1", "instrument", "table2"} <= {folder.name for folder in PUBLISHED}


@every_campaign
def test_tables_come_out_of_the_store(folder: Path) -> None:
    pages = campaign_pages(results_of(folder))
    assert "phases" in pages or "performance" in pages
    assert all(len(render(page, "md")) > 100 for page in pages.values())


@every_campaign
def test_a_published_folder_has_its_logs_and_says_what_it_is(folder: Path) -> None:
    named = worth_keeping(results_of(folder))
    logs = Logs(folder)
    # A campaign in which nothing went wrong has no log to keep.
    wanted = set() if str(folder.relative_to(PLACE)) in SUPERSEDED else {member_name(log) for log in named}
    assert logs.members == wanted and (folder / ARCHIVE).is_file() == bool(wanted)
    assert not wanted or logs.read(named[-1])
    if (folder / "spec.yaml").exists():
        assert results_of(folder).campaign.spec in (folder / "spec.yaml").read_text()
    assert any((place / "README.md").is_file() for place in (folder, folder.parent))


def test_the_doses_on_the_page_of_a_pilot_are_those_of_its_rows() -> None:
    folder = PLACE / "table1-v2-pilot"
    page, by_class = (folder / "README.md").read_text(), dict[str, list[Activated]]()
    for line in activated_table(results_of(folder)).lines:
        by_class.setdefault(line.fault_class, []).append(line)
    # Of its faults hardly any can be watched.
    del by_class["kernel_heap"]
    for name, (base, rio, protected) in by_class.items():
        assert rio.over
        cells = (base.mean, rio.mean, rio.over.ratio, protected.mean)
        assert f"| {name} | {' | '.join(f'{cell:.2f}' for cell in cells)} |" in page


@pytest.mark.parametrize("place", ADJUDICATED, ids=lambda place: place.parent.name)
def test_agreement_comes_out_of_the_answers(place: Path) -> None:
    results = results_of(place.parent)
    known = list(cases(results, 1))
    first, second = (read_answers(place / f"{name}.csv", known) for name in ("first", "second"))
    table = adjudicate(results, 1, first, second, reveal=True)
    page = (place.parent / "README.md").read_text()
    assert f"{table.agreed} of {table.cases} cases" in page and f"kappa is {table.kappa:.2f}" in page
    assert f"{table.agreed} of {table.cases}" in render(adjudication_page(table), "md")


def test_a_store_of_schema_1_is_read_and_not_written() -> None:
    """Of 15 trials of a campaign that is published no more, with facts that schema 1 kept as text."""
    path = Path(__file__).parent / "data/schema-1.sqlite.xz"
    rows = read_results(open_store(str(path))).rows
    assert [row.log_damage for row in rows if row.log_damage].count("no place, no end") == 2
    assert sum(row.restore_checked for row in rows) == 7 and all("restore" in row.phases for row in rows)
    assert any(row.workload_mismatch for row in rows) and not any("damaged" in row.detail for row in rows)
    with pytest.raises(StoreUsageError, match="is compressed, and is only read"):
        open_store(str(path), create=True)


def comparable(page: str) -> str:
    """A report without its plots, which another matplotlib draws otherwise, and when it was written."""
    return re.sub(r"Written [-0-9: ]+ UTC", "", re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL))


@pytest.mark.parametrize("folder", [SAMPLE], ids=lambda folder: folder.name)
def test_the_sample_of_a_report_comes_out_of_the_store_again(folder: Path) -> None:
    again = report(open_store(str(folder)), None, Links(folder, folder))
    assert comparable((folder / REPORT_FILE).read_text()) == comparable(again)
