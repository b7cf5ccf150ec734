# SPDX-License-Identifier: Apache-2.0
"""A published table says what the rows published beside it say, and nothing that is named is missing."""

import re
from pathlib import Path

import pytest
from riobed_results.report.publish import worth_keeping
from riobed_results.report.report import report
from riobed_results.store.location import REPORT_FILE
from riobed_results.store.logs import Links
from riobed_results.store.queries import read_results, trial_rows
from riobed_results.store.store import open_store
from riobed_results.tables.pages import campaign_pages
from riobed_results.tables.render import FORMS, SUFFIX, render
from riobed_results.tables.replays import read_replays, replay_page, replay_table
from riobed_results.tables.soak import load_soak
from riobed_results.tables.soak_page import soak_page

pytestmark = pytest.mark.slow
PUBLISHED = sorted(path.parent for path in Path(__file__).parents[1].glob("published/*/store.sqlite"))
REPLAYS = sorted(path.parent for path in Path(__file__).parents[1].glob("published/**/replays.jsonl"))
SOAKS = sorted(path.parent for path in Path(__file__).parents[1].glob("published/**/soak.json"))


def test_there_is_something_published() -> None:
    assert "first" in [folder.name for folder in PUBLISHED]


@pytest.mark.parametrize("folder", PUBLISHED, ids=lambda folder: folder.name)
def test_tables_come_out_of_the_store_again(folder: Path) -> None:
    pages = campaign_pages(read_results(open_store(str(folder))))
    published = {path.stem for path in folder.glob("*.json")}
    assert set(pages) == published and "phases" in published
    for what, page in pages.items():
        for form in FORMS:
            assert (folder / f"{what}.{SUFFIX.get(form, form)}").read_text() == render(page, form)


def comparable(page: str) -> str:
    """A report without its plots, which another matplotlib draws otherwise, and when it was written."""
    return re.sub(r"Written [-0-9: ]+ UTC", "", re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL))


@pytest.mark.parametrize("folder", PUBLISHED, ids=lambda folder: folder.name)
def test_the_report_comes_out_of_the_store_again(folder: Path) -> None:
    again = report(open_store(str(folder)), None, Links(folder, folder))
    assert comparable((folder / REPORT_FILE).read_text()) == comparable(again)


@pytest.mark.parametrize("folder", PUBLISHED, ids=lambda folder: folder.name)
def test_a_published_folder_has_its_logs_and_says_what_it_is(folder: Path) -> None:
    store = open_store(str(folder))
    logs = worth_keeping(trial_rows(store, store.campaign().id))
    assert sorted(logs) == sorted(f"logs/{path.name}" for path in (folder / "logs").iterdir())
    assert store.campaign().spec in (folder / "spec.yaml").read_text()
    assert (folder / "README.md").is_file()


@pytest.mark.parametrize("folder", REPLAYS, ids=lambda folder: folder.parent.name)
def test_a_match_rate_comes_out_of_its_rows_again(folder: Path) -> None:
    page = replay_page(replay_table(read_replays(folder)))
    for form in FORMS:
        assert (folder / f"replays.{SUFFIX.get(form, form)}").read_text() == render(page, form)


@pytest.mark.parametrize("folder", SOAKS, ids=lambda folder: folder.name)
def test_a_soaks_table_comes_out_of_its_rows_again(folder: Path) -> None:
    assert (folder / "soak.md").read_text() == render(soak_page(load_soak(folder)), "md")
