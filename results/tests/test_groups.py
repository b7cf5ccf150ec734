# SPDX-License-Identifier: Apache-2.0
"""Groups and summaries: they count what the rows say, in every kind of store, and cost little."""

import random
import sqlite3
from collections import Counter
from dataclasses import fields
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from results_builders import as_schema_4, campaign, faults, fill, planted, recovered, trial
from riobed_results.errors import StoreError
from riobed_results.store import queries
from riobed_results.store.base import Base
from riobed_results.store.group import how_many, numbers
from riobed_results.store.migrations import SCHEMA_VERSION
from riobed_results.store.queries import Results, read_results
from riobed_results.store.store import Store, open_store
from riobed_results.store.summary import SUMMARIES, GroupKey

NAMES = [field.name for field in fields(GroupKey)]
ADDED = ("canary_hits", "canary_offset", "lines_open", "lines_lost", "seconds_lost", "unknown_flushes",
         "complaints", "first_complaint")  # fmt: skip
COUNTS = ("requested", "faults_injected", "faults_watched", "faults_activated", "differences", "mismatches")


def rows(seed: int) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    some: list[dict[str, Any]] = [
        {"recovery": recovered(corrupt=2), "corruption": "direct", "check": {"difference_count": 3}},
        {"recovery": recovered(phase="done"), "mode": "delayed", "crash_title": "\0 \udcff"},
        {"outcome": "infra_error", "requested": 4},
        {"outcome": "survived", "recovery": recovered(production=False), "time_to_crash_s": 0.5},
        {"total_loss": True, "corruption": "indirect", "bytes_lost": 1 << 40},
        {"recovery": recovered(pages=1 << 70)},
        {"workload_errors": 2, "workload_error": "EUCLEAN in write", "victim": "kworker/0:1"},
        {"steps_lost": 7, "restart": "power-lines"},
        {"canary_hits": 3, "canary_offset": 70000},
        {"injection_guest_s": 1.5, "crash_guest_s": 2.0, "workload_mismatch": True},
    ]
    made = [dict(rng.choice(some)) for _ in range(40)]
    for each in made:
        each |= {"faults": faults(rng.randrange(3)), "fresh_boot": rng.random() < 0.2}
        each |= {"phases": {"restore": rng.random()}} if rng.random() < 0.5 else {}
    return [*made, planted("stray", "direct")]


@pytest.fixture(params=[0, *(pytest.param(seed, marks=pytest.mark.extended) for seed in (1, 2))])
def results(request: pytest.FixtureRequest, url: str, monkeypatch: pytest.MonkeyPatch) -> Results:
    """Rows of two campaigns, in so small steps that each reader takes many."""
    for step in ("_AT_ONCE", "_COUNTED_AT_ONCE", "_ROWS_AT_ONCE"):
        monkeypatch.setattr(queries, step, 7)
    store = open_store(url, create=True)
    fill(store, *rows(99), name="another")
    return fill(store, *rows(request.param))


def facts(row: Any) -> tuple[Any, ...]:
    return tuple(getattr(row, name) for name in NAMES)


def test_a_tally_counts_what_the_rows_say(results: Results) -> None:
    counted = {facts(row): row.weight for row in results.trials}
    assert counted == Counter(map(facts, results.rows)) and len(counted) == len(results.trials)
    assert [facts(row) for row in results.trials] == list(dict.fromkeys(map(facts, results.rows)))
    found = results.groups(
        "restored_pages", "phase_seconds", sums=COUNTS, wants=lambda row: row.mode == "rio"
    )
    mine = [row for row in results.rows if row.mode == "rio"]
    for name in COUNTS:
        assert sum(numbers(found, name)) == sum(numbers(mine, name))
    assert sorted(numbers(found, "phase_seconds")) == sorted(numbers(mine, "phase_seconds"))
    kept = sorted(min(pages, (1 << 63) - 1) for pages in numbers(mine, "restored_pages"))
    assert sorted(numbers(found, "restored_pages")) == kept
    titled = results.groups(titles=True)
    assert {(*facts(row), row.crash_title): row.weight for row in titled} == Counter(
        (*facts(row), row.crash_title) for row in results.rows
    )
    ids = [trial for _, trial, _ in results.each("seed", lambda row: bool(row.corruption == "direct"))]
    assert ids == [row.id for row in results.rows if row.corruption == "direct"]
    assert [row.id for row in results.rows_at(ids)] == ids


def test_trials_that_end_later_are_not_counted(results: Results) -> None:
    before = len(results.rows)
    results.source.add_trial(trial(results.campaign.id, 1000, crash_title="late"))
    assert how_many(results.trials) == before
    assert how_many(read_results(results.source).trials) == before + 1


def test_each_trial_is_counted_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many are counted in one transaction."""
    monkeypatch.setattr(queries, "_COUNTED_AT_ONCE", 2)
    assert how_many(fill(store, *[{}] * 5).trials) == 5


def test_when_a_campaign_ran_is_told_of_its_trials_so_far(store: Store) -> None:
    added, days, found = store.add_campaign(campaign()), ["2026-01-02", "2026-01-03", "2026-01-04"], []
    for position, day in enumerate(days):
        found.append(read_results(store))
        store.add_trial(trial(added.id, position, started=f"{day}T03:04:05", finished=f"{day}T06:07:08"))
    assert [how_many(results.trials) for results in found] == [0, 1, 2]
    assert found[0].span() == ("", "")
    assert found[2].span() == ("2026-01-02T03:04:05", "2026-01-03T06:07:08")


@pytest.mark.parametrize("lacks", [(), ("boot",), ("boot", "victim"), ("steps_lost",), ADDED])
def test_a_store_without_summaries_gets_them(store: Store, path: Path, lacks: tuple[str, ...]) -> None:
    """A reader makes them for itself; who writes, once for all."""
    fill(store, *(row | {"victim": None, "steps_lost": None, "canary_hits": None} for row in rows(1)))
    with store.session() as session:
        stored = [tuple(row) for row in session.execute(sa.select(SUMMARIES))]
    as_schema_4(path)
    with sqlite3.connect(path) as database:
        database.executescript("DROP TABLE digests; DROP TABLE facts; UPDATE meta SET value = '3'")
        for column in lacks:
            database.execute(f"ALTER TABLE trials DROP COLUMN {column}")
    before = path.read_bytes()
    read = open_store(str(path))
    assert path.read_bytes() == before
    for opened in (read, open_store(str(path), create=True), open_store(str(path))):
        with opened.session() as session:
            assert [tuple(row) for row in session.execute(sa.select(SUMMARIES))] == stored
    assert sqlite3.connect(path).execute("SELECT value FROM meta").fetchone() == (str(SCHEMA_VERSION),)


def test_a_store_of_schema_4_is_completed_once_it_is_written_to(store: Store, path: Path) -> None:
    results = fill(store, {"crash_title": "old"}, {"mode": "delayed"})
    counted = [(row.mode, row.weight) for row in results.trials]
    as_schema_4(path, trials=ADDED, digests=ADDED[2:])
    before = path.read_bytes()
    old = read_results(open_store(str(path)))
    assert (old.rows[0].crash_title, old.rows[0].canary) == ("old", None) and path.read_bytes() == before
    assert [(row.mode, row.weight) for row in old.trials] == counted
    assert old.rows[0].complained is None
    added = trial(1, 2, canary_hits=2, canary_offset=1 << 33, lines_open=3)
    open_store(str(path), create=True).add_trial(added)
    new = read_results(open_store(str(path)))
    last = new.rows[-1]
    assert (last.canary_hits, last.canary_offset, last.canary, last.lines_open) == (2, 1 << 33, True, 3)
    assert numbers(new.groups("lines_open"), "lines_open") == [3] and how_many(new.trials) == 3


# Of the tables, columns and checks. The version changes with it: who knows the older one must not write.
SCHEMAS = {9: "fb38bad83d7585d3"}


def test_a_change_of_the_schema_raises_its_version() -> None:
    tables = Base.metadata.sorted_tables
    all_columns = [(column.table.name, column.name, str(column.type), column.nullable)
                   for table in tables for column in table.columns]  # fmt: skip
    checks = [str(rule.sqltext) for table in tables for rule in table.constraints
              if isinstance(rule, sa.CheckConstraint)]  # fmt: skip
    found = sha256(repr((sorted(all_columns), sorted(checks))).encode()).hexdigest()[:16]
    assert {SCHEMA_VERSION: found} == SCHEMAS


def test_a_damaged_group_key_is_told_in_one_line(store: Store, path: Path) -> None:
    fill(store, {})
    with sqlite3.connect(path) as database:
        database.execute("UPDATE group_keys SET text = '{}'")
    with pytest.raises(StoreError, match="malformed: GroupKey") as caught:
        _ = read_results(store).trials
    assert "\n" not in str(caught.value)


def test_counts_read_no_trial(store: Store) -> None:
    """What a campaign reads when it starts; the rows would be gigabytes."""
    added = store.add_campaign(campaign())
    store.add_trial(trial(added.id, 0, faults=faults(3)))
    said: list[str] = []
    engine = store._engine
    sa.event.listen(engine, "before_cursor_execute", lambda *given: said.append(given[2]))
    assert store.complete_positions(added.id) == {0}
    assert how_many(read_results(store).trials) == 1
    plans = []
    with sqlite3.connect(store.location.path or "") as database:
        for query in said:
            many = query.count("?")
            plans += database.execute(f"EXPLAIN QUERY PLAN {query}", [1] * many).fetchall()
    told = [plan[-1] for plan in plans if "trials" in plan[-1]]
    assert told and all("COVERING INDEX" in each or "SEARCH trials" in each for each in told), told
