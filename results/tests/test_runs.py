# SPDX-License-Identifier: Apache-2.0
"""Measured runs in the store: kept as they were, nothing twice, and none in stores without the table."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from results_builders import as_schema_4, campaign, measured
from riobed_results.errors import StoreError
from riobed_results.store.base import values
from riobed_results.store.run import RunRow
from riobed_results.store.store import Store, open_store


def test_a_run_comes_back_as_it_went_in(url: str) -> None:
    store = open_store(url, create=True)
    events = {"events": {"instructions": 1 << 40}, "part_events": {"cp": {"instructions": 9}}}
    row = measured(store.add_campaign(campaign()).id, "rio", 3, 12.5, work="cp; rm", operations=9, **events)
    store.add_run(row)
    (read,) = open_store(url).runs(row.campaign_id)
    for column in RunRow.__table__.columns:
        assert getattr(read, column.key) == getattr(row, column.key), column.key


# Fields of a second run, and what the database says of it; None: it is stored.
SECOND: list[tuple[dict[str, Any], str | None]] = [
    ({}, "(?i)unique"), ({"attempt": 2}, "(?i)unique"), ({"kind": "space"}, "known_kind"),
    ({"number": 1, "seconds": None}, "only_measured_has_seconds"),
    ({"number": 1, "outcome": "infra_error"}, "only_measured_has_seconds"),
    ({"seconds": None, "outcome": "infra_error"}, None), ({"number": 1}, None), ({"disk": "none"}, None),
    ({"seconds": None, "outcome": "wrong", "attempt": 2}, None), ({"vcpus": 2}, None),
    ({"kind": "instructions"}, None), ({"workload": "sdet"}, None),
]  # fmt: skip


def test_nothing_is_measured_twice(url: str) -> None:
    store = open_store(url, create=True)
    added = store.add_campaign(campaign()).id
    store.add_run(measured(added, "rio"))
    for fields, refused in SECOND:
        if refused:
            with pytest.raises(StoreError, match=refused):
                store.add_run(measured(added, "rio", **fields))
        else:
            store.add_run(measured(added, "rio", **fields))
    assert len(store.runs(added)) == 1 + sum(refused is None for _, refused in SECOND)


def test_a_store_begun_before_there_were_runs(store: Store, path: Path) -> None:
    added = store.add_campaign(campaign()).id
    as_schema_4(path)
    with sqlite3.connect(path) as database:
        database.execute("DROP TABLE runs")
    assert open_store(str(path)).runs(added) == []
    again = open_store(str(path), create=True)
    again.add_run(measured(added, "rio"))
    assert [row.mode for row in open_store(str(path)).runs(added)] == ["rio"]


def test_a_store_begun_before_a_run_could_be_wrong(store: Store, path: Path) -> None:
    added = store.add_campaign(campaign()).id
    before = [measured(added, "rio", number) for number in range(2)]
    for row in before:
        store.add_run(row)
    as_schema_4(path)
    with sqlite3.connect(path) as database:
        (text,) = database.execute("SELECT sql FROM sqlite_master WHERE name = 'runs'").fetchone()
        older = text.replace("'measured', 'wrong',", "'measured',").replace("\tsitting TEXT, \n", "")
        assert len(older) < len(text) - 20
        columns = ", ".join(
            name for _, name, *_ in database.execute("PRAGMA table_info(runs)") if name != "sitting"
        )
        for statement in (
            "ALTER TABLE runs RENAME TO newer", "DROP INDEX one_measured_run", older,
            f"INSERT INTO runs ({columns}) SELECT {columns} FROM newer", "DROP TABLE newer",
        ):  # fmt: skip
            database.execute(statement)
    assert [row.session for row in open_store(str(path)).runs(added)] == [None, None]
    again = open_store(str(path), create=True)
    again.add_run(measured(added, "rio", 2, None, outcome="wrong", session="now"))
    rows = again.runs(added)
    assert [(row.round, row.outcome) for row in rows] == [(0, "measured"), (1, "measured"), (2, "wrong")]
    assert [values(row) for row in rows[:2]] == [values(row) for row in before]
