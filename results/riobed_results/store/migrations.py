# SPDX-License-Identifier: Apache-2.0
"""Make a store of an older schema one of the newest. docs/old-stores.md tells how the schemas differ.

Columns and tables that a store lacks are those of the models that it lacks. What has to be computed is here:
schema 1 kept some facts of a trial as text, stores before schema 4 have no summaries, and schema 5 gave
tables and columns other names.
"""

import re
from collections.abc import Callable
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy.orm import Session

from riobed_results.store.base import Base, MetaRow
from riobed_results.store.campaign import CampaignRow, parsed_spec
from riobed_results.store.run import RunRow
from riobed_results.store.summary import SUMMARIES, GroupRow, add_summaries
from riobed_results.store.trial import FaultRow, TrialRow
from riobed_results.store.vocabulary import before_vocabularies

# It rises at each change of the models; a test compares their SQL with that of this version.
SCHEMA_VERSION = 9
# Of stores before it, the outcomes `crash` and `discard` have another meaning, so they are not continued.
FIRST_CONTINUED = 3
# Names before schema 5, of tables and of columns.
_TABLES_BEFORE_5 = {"facts": GroupRow.__tablename__, "digests": SUMMARIES.name}
_COLUMNS_BEFORE_5 = {
    SUMMARIES.name: {"facts_id": "group_id"},
    RunRow.__tablename__: {"sitting": "session", "times": "disk_speedup"},
}
_AT_ONCE = 1000  # trials
# Part of a crash's detail, between the observation's detail and the reason why recovery failed.
_DAMAGE = re.compile(r"(?:^|; )damaged log: (.*?)(?=; recovery failed: |$)", re.DOTALL)


def migrate(session: Session, found: int) -> None:
    """Make a store of schema `found` one of the newest; SQLAlchemyError if it has another form.

    A store of a schema before FIRST_CONTINUED must be an SQLite one.
    """
    connection = session.connection()
    _rename(connection)
    for table in Base.metadata.sorted_tables:
        _add_missing(connection, table)
    if found < 2:
        _read_texts(connection)
    Base.metadata.create_all(connection)
    if found < 4:
        _summarise(session)
    if found < 5:
        _make_runs_anew(connection)
        _add_vocabularies(connection)
    session.execute(sa.update(MetaRow).filter_by(key="schema_version").values(value=str(SCHEMA_VERSION)))


def _rename(connection: sa.Connection) -> None:
    for old, new in _TABLES_BEFORE_5.items():
        if sa.inspect(connection).has_table(old):
            connection.exec_driver_sql(f"ALTER TABLE {old} RENAME TO {new}")
    for table, names in _COLUMNS_BEFORE_5.items():
        for old in names.keys() & _columns_of(connection, table):
            connection.exec_driver_sql(f"ALTER TABLE {table} RENAME COLUMN {old} TO {names[old]}")


def _columns_of(connection: sa.Connection, table: str) -> set[str]:
    """Return the names of the columns that a table has in the store; empty if it has no such table."""
    inspector = sa.inspect(connection)
    return (
        {column["name"] for column in inspector.get_columns(table)} if inspector.has_table(table) else set()
    )


def _add_missing(connection: sa.Connection, table: sa.Table) -> None:
    """Add the columns that a table of the store lacks, with the value of rows without that fact."""
    if not (there := _columns_of(connection, table.name)):
        return
    for column in table.columns:
        if column.name not in there:
            kind = column.type.compile(connection.dialect)
            without = "FALSE" if column.type.python_type is bool else "'{}'"
            rule = "" if column.nullable else f" NOT NULL DEFAULT {without}"
            connection.exec_driver_sql(f"ALTER TABLE {table.name} ADD COLUMN {column.name} {kind}{rule}")


def _summarise(session: Session) -> None:
    """Store the summaries of all trials, some at a time."""
    query = sa.select(TrialRow).order_by(TrialRow.id).limit(_AT_ONCE)
    after = 0
    while rows := session.scalars(query.where(TrialRow.id > after)).all():
        counts = _fault_counts(session, after, rows[-1].id)
        # A planted change is counted as a fault, and what it is must be read.
        known = ((row, {} if row.fault_class == "planted" else counts(row.id)) for row in rows)
        add_summaries(session.connection(), known)
        after = rows[-1].id
        session.expunge_all()


def _add_vocabularies(connection: sa.Connection) -> None:
    table = cast(sa.Table, CampaignRow.__table__)
    for campaign, spec in connection.execute(sa.select(table.c.id, table.c.spec)).fetchall():
        change = sa.update(table).where(table.c.id == campaign)
        connection.execute(change.values(vocabulary=before_vocabularies(parsed_spec(spec))))


def _make_runs_anew(connection: sa.Connection) -> None:
    """Copy the runs to a table that takes every outcome: SQLite changes no constraint of a table."""
    table = cast(sa.Table, RunRow.__table__)
    columns = [column for column in table.columns if not column.primary_key]
    rows = [dict(row) for row in connection.execute(sa.select(*columns).order_by(table.c.id)).mappings()]
    table.drop(connection)
    table.create(connection)
    if rows:
        connection.execute(sa.insert(table), rows)


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


def _read_texts(connection: sa.Connection) -> None:
    """Read what schema 1 kept as text: read errors, names of phases, damage of logs. For SQLite alone."""
    run = connection.exec_driver_sql
    run("UPDATE trials SET workload_mismatch = 1 WHERE workload_status GLOB 'mismatch*'")
    # The phase had another name if memory was compared.
    run(
        """UPDATE trials SET restore_checked = 1, phases = replace(phases, '"restore_checked":', '"restore":')
        WHERE instr(phases, '"restore_checked":')"""
    )
    damaged = run("SELECT id, detail FROM trials WHERE outcome = 'crash' AND instr(detail, 'damaged log: ')")
    for trial, detail in damaged.fetchall():
        if found := _DAMAGE.search(detail):
            rest = _DAMAGE.sub("", detail).removeprefix("; ")
            run("UPDATE trials SET log_damage = ?, detail = ? WHERE id = ?", (found[1], rest, trial))
