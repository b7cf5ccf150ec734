# SPDX-License-Identifier: Apache-2.0
"""Migrate copies of stores of older schemas, in memory.

Schema 1 kept some facts of a trial as text. Schema 2 lacks columns; its outcomes `crash` and `discard` stay,
because tables of its campaigns count by the definition that held when they ran. Schema 3 lacks the task that
ran at a crash, the boot, the steps lost, and the digests, which follow from the other rows. A program that
knows no digests must not write to a store that has them: its trials would be missing in the tables.
"""

import re
import sqlite3
from collections.abc import Callable
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy.orm import Session

from riobed_results.store.models import SCHEMA_VERSION, Base, FaultRow, MetaRow, RunRow, TrialRow, add_digests

# Columns that each schema has and the one before lacks, with the default of rows without that fact.
_SINCE_2 = (
    ("campaigns", "kernels", "JSON NOT NULL DEFAULT '{}'"),
    ("campaigns", "harness", "TEXT"),
    ("campaigns", "image", "TEXT"),
    ("campaigns", "workload", "TEXT"),
    ("trials", "workload_mismatch", "BOOLEAN NOT NULL DEFAULT 0"),
    ("trials", "restore_checked", "BOOLEAN NOT NULL DEFAULT 0"),
    ("trials", "log_damage", "TEXT"),
)
_SINCE_3 = (
    ("trials", "workload_error", "TEXT"),
    ("trials", "workload_errors", "INTEGER"),
    ("trials", "files_lost", "INTEGER"),
    ("trials", "bytes_lost", "BIGINT"),
    ("trials", "total_loss", "BOOLEAN"),
    ("trials", "injection_guest_s", "FLOAT"),
    ("trials", "crash_guest_s", "FLOAT"),
    ("trials", "steps_at_injection", "INTEGER"),
    ("trials", "worker", "TEXT"),
    ("trials", "snapshot", "TEXT"),
    ("trials", "restart", "TEXT"),
    ("trials", "restart_differs", "TEXT"),
    ("trials", "cache_share", "FLOAT"),
    ("trials", "dirty_share", "FLOAT"),
)
_SINCE_4 = (("victim", "TEXT"), ("boot", "TEXT"), ("steps_lost", "INTEGER"))  # of trials
# Columns that stores of schema 4 lack if they were made before there were canaries, lines, seconds lost,
# known sizes of measured work, sittings, measured paces, or times of disks.
_ADDED = (
    ("canary_hits", "INTEGER"),
    ("canary_offset", "BIGINT"),
    ("lines_open", "INTEGER"),
    ("lines_lost", "INTEGER"),
    ("seconds_lost", "FLOAT"),
    ("unknown_flushes", "INTEGER"),
)
_ADDED_TO_DIGESTS = (
    ("seconds_lost", "FLOAT"),
    ("lines_open", "INTEGER"),
    ("lines_lost", "INTEGER"),
    ("unknown_flushes", "INTEGER"),
)
# `sitting` came with the outcome `wrong`.
_ADDED_TO_RUNS = (
    ("written_bytes", "BIGINT"),
    ("sitting", "TEXT"),
    ("times", "FLOAT"),
    ("disk_model_s", "FLOAT"),
    ("disk_taken_s", "FLOAT"),
)
_ALL_ADDED = {"trials": _ADDED, "digests": _ADDED_TO_DIGESTS, "runs": _ADDED_TO_RUNS}
_AT_ONCE = 1000  # trials
# Part of a crash's detail, between the observation's detail and the reason why recovery failed.
_DAMAGE = re.compile(r"(?:^|; )damaged log: (.*?)(?=; recovery failed: |$)", re.DOTALL)


def migrate(memory: sqlite3.Connection, found: str) -> None:
    """Give a copy of a store of schema `found`, 1 to 3, the columns of schema 3.

    Raises sqlite3.Error if it has another form.
    """
    if found == "1":
        _to_2(memory)
    if found in ("1", "2"):
        _add(memory, _SINCE_3)
    memory.commit()


def complete(session: Session) -> None:
    """Make a store of schema 3 one of the latest: the digests of all trials, some at a time."""
    connection = session.connection()
    _add_missing(connection, "trials", _SINCE_4)
    add_columns(connection)
    Base.metadata.create_all(connection)
    query = sa.select(TrialRow).order_by(TrialRow.id).limit(_AT_ONCE)
    after = 0
    while rows := session.scalars(query.where(TrialRow.id > after)).all():
        counts = _fault_counts(session, after, rows[-1].id)
        # A planted change is counted as a fault, and what it is must be read.
        known = ((row, {} if row.fault_class == "planted" else counts(row.id)) for row in rows)
        add_digests(session.connection(), known)
        after = rows[-1].id
        session.expunge_all()
    session.execute(sa.update(MetaRow).filter_by(key="schema_version").values(value=str(SCHEMA_VERSION)))


def lacks_columns(connection: sa.Connection) -> bool:
    """Whether a store of schema 4 lacks a column that was added later."""
    return any(_missing(connection, table, added) for table, added in _ALL_ADDED.items())


def add_columns(connection: sa.Connection) -> None:
    """Give a store the columns that were added later. A program that knows none can go on writing to it."""
    old_runs = _missing(connection, "runs", _ADDED_TO_RUNS)
    for table, added in _ALL_ADDED.items():
        _add_missing(connection, table, added)
    if old_runs:
        _make_runs_anew(connection)


def _make_runs_anew(connection: sa.Connection) -> None:
    """Copy the runs to a table that takes every outcome: SQLite changes no constraint of a table."""
    table = cast(sa.Table, RunRow.__table__)
    columns = [column for column in table.columns if not column.primary_key]
    rows = [dict(row) for row in connection.execute(sa.select(*columns).order_by(table.c.id)).mappings()]
    table.drop(connection)
    table.create(connection)
    if rows:
        connection.execute(sa.insert(table), rows)


_Columns = tuple[tuple[str, str], ...]


def _add_missing(connection: sa.Connection, table: str, columns: _Columns) -> None:
    for name, kind in _missing(connection, table, columns):
        connection.exec_driver_sql(f"ALTER TABLE {table} ADD COLUMN {name} {kind}")


def _missing(connection: sa.Connection, table: str, columns: _Columns) -> _Columns:
    """Return those of the columns that a table lacks; none if there is no such table yet."""
    inspector = sa.inspect(connection)
    if not inspector.has_table(table):
        return ()
    there = {column["name"] for column in inspector.get_columns(table)}
    return tuple((name, kind) for name, kind in columns if name not in there)


def _fault_counts(session: Session, after: int, last: int) -> Callable[[int], dict[str, Any]]:
    """Count the faults of some trials; rows of faults are too many to be read."""
    injected, activated = FaultRow.injected.is_(True), FaultRow.activated
    counted = {
        "faults_injected": injected,
        "faults_watched": injected & activated.is_not(None),
        "faults_activated": activated.is_(True),
    }
    sums = [sa.func.sum(sa.case((condition, 1), else_=0)) for condition in counted.values()]
    query = sa.select(FaultRow.trial_id, *sums).group_by(FaultRow.trial_id)
    rows = session.execute(query.where(FaultRow.trial_id > after, FaultRow.trial_id <= last))
    found = {trial: dict(zip(counted, values, strict=True)) for trial, *values in rows}
    none = dict.fromkeys(counted, 0)

    def of(trial: int) -> dict[str, Any]:
        known = found.get(trial, none)
        return {**known, "used": known["faults_activated"] > 0, "planted": None}

    return of


def _add(memory: sqlite3.Connection, columns: tuple[tuple[str, str, str], ...]) -> None:
    for table, column, kind in columns:
        memory.execute(f"ALTER TABLE {table} ADD COLUMN {column} {kind}")


def _to_2(memory: sqlite3.Connection) -> None:
    _add(memory, _SINCE_2)
    memory.execute("UPDATE trials SET workload_mismatch = 1 WHERE workload_status GLOB 'mismatch*'")
    # The phase had another name if memory was compared.
    memory.execute(
        """UPDATE trials SET restore_checked = 1, phases = replace(phases, '"restore_checked":', '"restore":')
        WHERE instr(phases, '"restore_checked":')"""
    )
    damaged = memory.execute(
        "SELECT id, detail FROM trials WHERE outcome = 'crash' AND instr(detail, 'damaged log: ')"
    )
    for trial, detail in damaged.fetchall():
        if found := _DAMAGE.search(detail):
            rest = _DAMAGE.sub("", detail).removeprefix("; ")
            memory.execute(
                "UPDATE trials SET log_damage = ?, detail = ? WHERE id = ?", (found[1], rest, trial)
            )
