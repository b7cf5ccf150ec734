# SPDX-License-Identifier: Apache-2.0
"""A published table says what the rows published beside it say, and nothing that is named is missing."""

import re
from pathlib import Path
from typing import Any

import pytest
from riobed_results.errors import StoreError
from riobed_results.report.publish import worth_keeping
from riobed_results.report.report import report
from riobed_results.store.location import REPORT_FILE
from riobed_results.store.logs import ARCHIVE, Links, Logs, member_name
from riobed_results.store.queries import read_results
from riobed_results.store.store import open_store
from riobed_results.tables.adjudication import adjudicate, adjudication_page, cases, read_answers
from riobed_results.tables.registry import FOLDER_TABLES, campaign_pages
from riobed_results.tables.render import render

PLACE = Path(__file__).parents[1] / "published"
PUBLISHED = sorted(path.parent for path in PLACE.glob("**/store.sqlite"))
FOLDERS = [
    (table, path.parent) for table in FOLDER_TABLES for path in sorted(PLACE.glob(f"**/{table.name}.md"))
]
ADJUDICATED = sorted(path.parent for path in PLACE.glob("**/adjudication/agreement.md"))
pytestmark = pytest.mark.slow
every_campaign = pytest.mark.parametrize("folder", PUBLISHED, ids=lambda folder: folder.name)


def test_there_is_something_published() -> None:
    assert {"first", "table1"} <= {folder.name for folder in PUBLISHED} and len(FOLDERS) >= 6


@every_campaign
def test_tables_come_out_of_the_store_again(folder: Path) -> None:
    pages = campaign_pages(read_results(open_store(str(folder))))
    again = {name: render(page, "md") for name, page in pages.items()}
    assert again == {path.stem: path.read_text() for path in folder.glob("*.md") if path.stem != "README"}
    assert "phases" in again or "performance" in again


@pytest.mark.parametrize(("table", "folder"), FOLDERS, ids=lambda each: getattr(each, "name", None))
def test_a_folders_table_comes_out_of_its_rows_again(table: Any, folder: Path) -> None:
    assert (folder / f"{table.name}.md").read_text() == render(table.of(folder), "md")


@pytest.mark.parametrize("place", ADJUDICATED, ids=lambda place: place.parent.name)
def test_agreement_comes_out_of_the_answers_again(place: Path) -> None:
    results = read_results(open_store(str(place.parent)))
    known = list(cases(results, 1))
    first, second = (read_answers(place / f"{name}.csv", known) for name in ("first", "second"))
    table = adjudicate(results, 1, first, second, reveal=True)
    assert (place / "agreement.md").read_text() == render(adjudication_page(table), "md")


def test_a_store_of_schema_1_is_read_and_not_written() -> None:
    path = next(folder for folder in PUBLISHED if folder.name == "table1-pilot") / "store.sqlite"
    before = path.read_bytes()
    rows = read_results(open_store(str(path))).rows
    assert [row.log_damage for row in rows if row.log_damage].count("no place, no end") == 2
    assert sum(row.restore_checked for row in rows) == 7 and all("restore" in row.phases for row in rows)
    assert any(row.workload_mismatch for row in rows) and not any("damaged" in row.detail for row in rows)
    with pytest.raises(StoreError, match="schema version 1"):
        open_store(str(path), create=True)
    assert path.read_bytes() == before


def comparable(page: str) -> str:
    """A report without its plots, which another matplotlib draws otherwise, and when it was written."""
    return re.sub(r"Written [-0-9: ]+ UTC", "", re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL))


@every_campaign
def test_the_report_comes_out_of_the_store_again(folder: Path) -> None:
    again = report(open_store(str(folder)), None, Links(folder, folder))
    assert comparable((folder / REPORT_FILE).read_text()) == comparable(again)


@every_campaign
def test_a_published_folder_has_its_logs_and_says_what_it_is(folder: Path) -> None:
    store = open_store(str(folder))
    named = worth_keeping(read_results(store))
    logs = Logs(folder)
    # A campaign in which nothing went wrong has no log to keep.
    assert logs.members == {member_name(log) for log in named} and (folder / ARCHIVE).is_file() == bool(named)
    assert all(logs.read(log) for log in named[-1:])
    assert store.campaign().spec in (folder / "spec.yaml").read_text()
    assert any((place / "README.md").is_file() for place in (folder, folder.parent))
