# SPDX-License-Identifier: Apache-2.0
"""States of files after crashes, of modes that are judged by what was synced."""

from collections.abc import Sequence

from riobed_results.store import FILE_STATES, LOST_TOO_MUCH, Row, Vocabulary, how_many, judged
from riobed_results.tables.framework.by_mode import ModeCounts, Value

_STATES = FILE_STATES | {LOST_TOO_MUCH: "a change is lost that is older than the mode permits."}


def _lines(rows: Sequence[Row], _: Vocabulary) -> dict[str, Value]:
    return {
        "Judged by what was synced": how_many(rows),
        "Nothing lost": how_many(row for row in rows if not row.states),
        **{
            state: how_many(row for row in rows if state in (row.states or "").split(", "))
            for state in _STATES
        },
        "Corrupted": how_many(row for row in rows if row.corruption != "none"),
    }


STATES = ModeCounts(
    name="states",
    title="States of files",
    help="In which states crashes left files of modes that are judged by what was synced.",
    section="corruptions",
    note="All judged runs of such modes, also without faults. A run counts in each state that a file was in. "
    "Which states are a corruption depends on the file system (docs/own-mode.md).",
    legend=_STATES,
    wants=lambda row: judged(row) and row.promise == "synced",
    lines=_lines,
)
