# SPDX-License-Identifier: Apache-2.0
"""Migrate stores of schema 1, which kept some facts of a trial as text, to schema 2 in memory."""

import re
import sqlite3

# Columns that schema 1 lacks, with the default of rows without that fact.
_COLUMNS = (
    ("campaigns", "kernels", "JSON NOT NULL DEFAULT '{}'"),
    ("campaigns", "harness", "TEXT"),
    ("campaigns", "image", "TEXT"),
    ("campaigns", "workload", "TEXT"),
    ("trials", "workload_mismatch", "BOOLEAN NOT NULL DEFAULT 0"),
    ("trials", "restore_checked", "BOOLEAN NOT NULL DEFAULT 0"),
    ("trials", "log_damage", "TEXT"),
)
# Part of a crash's detail, between the observation's detail and the reason why recovery failed.
_DAMAGE = re.compile(r"(?:^|; )damaged log: (.*?)(?=; recovery failed: |$)", re.DOTALL)


def migrate(memory: sqlite3.Connection) -> None:
    """Migrate a copy of a store from schema 1 to 2; raises sqlite3.Error if it has another form."""
    for table, column, kind in _COLUMNS:
        memory.execute(f"ALTER TABLE {table} ADD COLUMN {column} {kind}")
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
    memory.execute("UPDATE meta SET value = '2' WHERE key = 'schema_version'")
    memory.commit()
