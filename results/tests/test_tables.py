# SPDX-License-Identifier: Apache-2.0
"""Every table there is, in every form, made from what is published and read back by a parser of that form.

Where nothing is published yet that has a table, it is made from one row.
"""

import atexit
import csv
import functools
import io
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from results_builders import Invoke, campaign, fill, recovered
from results_readers import READERS, Html
from riobed_results.errors import StoreError
from riobed_results.store.queries import read_results
from riobed_results.store.store import Store, open_store
from riobed_results.tables.cost.cost import COST
from riobed_results.tables.framework.render import Page, render
from riobed_results.tables.framework.table import CampaignTable, Table
from riobed_results.tables.registry import CAMPAIGN_TABLES, FOLDER_TABLES, STUDY_TABLES

PUBLISHED = Path(__file__).parents[1] / "published"
# To open the larger ones takes seconds, and they have no table that no smaller one has.
STORES = sorted(
    (path for path in PUBLISHED.glob("**/store.sqlite.xz") if path.stat().st_size < 350_000),
    key=lambda path: path.stat().st_size,
)
FOLDERS = {
    "processors": PUBLISHED / "no-fault",
    "replays": PUBLISHED / "replay/replays",
    "soak": PUBLISHED / "soak/pte",
    "sweep": PUBLISHED / "sweep/rio",
    **dict.fromkeys((table.name for table in STUDY_TABLES), PUBLISHED / "sprite"),
}
TABLES: list[Any] = [*CAMPAIGN_TABLES, COST, *FOLDER_TABLES]
every_table = pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)


@functools.cache
def published(store: Path) -> Any:
    return read_results(open_store(str(store)))


def source(table: Table[Any]) -> Any:
    """The smallest published campaign, or the folder, that has this table."""
    if not isinstance(table, CampaignTable):
        return FOLDERS[table.name]
    stores = (*STORES, one_corruption())
    return next(published(store) for store in stores if table.has(published(store)))


@functools.cache
def one_corruption() -> Path:
    """A store with a corruption in one of two modes, which outlives the test that asks for it first."""
    path = Path(tempfile.mkdtemp()) / "store.sqlite"
    atexit.register(shutil.rmtree, path.parent)
    store = open_store(str(path), create=True)
    lost = {"files_lost": 1, "bytes_lost": 9, "total_loss": False}
    known = {"recovery": recovered(), "injection_guest_s": 2.0, "crash_guest_s": 3.0, "restart": "parked"}
    known |= {"victim": "sh", "complaints": 2, "first_complaint": "warning in iput"}
    asked = "protocol: {claims: [{mode: rio, than: delayed}]}\nmachine: {nvdimm_mib: 64}"
    lost |= {"corruption": "direct", "cache_share": 0.6}
    power = {"mode": "delayed", "restart": "power", "steps_lost": 3}
    power["recovery"] = recovered(file_system="xfs", first_mount={"error": 0})
    power |= {"promise": "synced", "states": "older, mixed"}
    fill(store, {**lost, **known}, {"mode": "delayed", **known}, power, spec=asked)
    return path


@functools.cache
def page_of(table: Table[Any]) -> Page:
    return table.of(source(table))


@every_table
@pytest.mark.parametrize("form", READERS)
def test_each_form_for_people_has_every_cell(table: Table[Any], form: str) -> None:
    page = page_of(table)
    read = READERS[form](render(page, form))
    assert read == [[grid.head, *grid.body, *grid.foot] for grid in page.grids] != []
    assert {len(line) for grid in read for line in grid} == {len(grid[0]) for grid in read}


@every_table
def test_what_a_column_is_stands_on_a_line_of_its_own(table: Table[Any]) -> None:
    page = page_of(table)
    assert (
        len(page.note.split()) < 80
        and max((len(each.split()) for each in page.legend.values()), default=0) < 60
    )
    text = Html(MarkdownIt("commonmark").enable("table").render(render(page, "md"))).text
    for name, meaning in page.legend.items():
        assert f"{name}: {meaning}\n" in text
        assert meaning in Html(render(page, "html")).text


@every_table
def test_the_forms_for_programs_are_whole(table: Table[Any]) -> None:
    page = page_of(table)
    head, *lines = csv.reader(io.StringIO(render(page, "csv")))
    assert lines and {len(line) for line in lines} == {len(head)}
    assert json.loads(render(page, "json")) == table.compute(source(table)).model_dump(mode="json")


@every_table
def test_each_table_has_a_command(table: Table[Any], invoke: Invoke, tmp_path: Path) -> None:
    made_of = source(table)
    where = ["--store", made_of.store] if isinstance(table, CampaignTable) else [made_of]
    result = invoke("table", table.name, *where, "--format", "json")
    assert result.stdout == render(page_of(table), "json")


@pytest.mark.parametrize("table", CAMPAIGN_TABLES, ids=lambda table: table.name)
def test_a_campaign_without_trials_has_no_table(
    table: CampaignTable[Any], invoke: Invoke, store: Store
) -> None:
    store.add_campaign(campaign("bare"))
    result = invoke("table", table.name, "--store", store.location.path)
    assert isinstance(result.exception, StoreError) and "'bare'" in str(result.exception)
