# SPDX-License-Identifier: Apache-2.0
"""Stores of schema 1, which had facts of a trial in words: brought to schema 2 in memory, to be read."""

import re
import sqlite3

# What schema 1 had no column for, and what a row has there that does not say.
_COLUMNS = (
    ("campaigns", "kernels", "JSON NOT NULL DEFAULT '{}'"),
    ("campaigns", "harness", "TEXT"),
    ("campaigns", "image", "TEXT"),
    ("campaigns", "workload", "TEXT"),
    ("trials", "workload_mismatch", "BOOLEAN NOT NULL DEFAULT 0"),
    ("trials", "restore_checked", "BOOLEAN NOT NULL DEFAULT 0"),
    ("trials", "log_damage", "TEXT"),
)
# In a crash's detail, between how the watching ended and why recovery failed.
_DAMAGE = re.compile(r"(?:^|; )damaged log: (.*?)(?=; recovery failed: |$)", re.DOTALL)


def migrate(memory: sqlite3.Connection) -> None:
    """Bring a copy of a store from schema 1 to 2. Raises sqlite3.Error if it has another form."""
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
