# SPDX-License-Identifier: Apache-2.0
"""The positive control `planted`: what was changed, and whether the oracles found and classified it."""

from collections.abc import Sequence

from riobed_results.rules.controls import expected, found_by, kind, planted
from riobed_results.store import Row, Vocabulary, how_many
from riobed_results.tables.framework.by_mode import ModeCounts, Value

# The only kinds of stores that do not say when the change was made.
_OLD_KINDS = ("stray", "entry", "block", "written")
_MOMENTS = {"rest": "at rest", "step": "during a step"}
_ORACLES = {
    "check": "by the check",
    "checksum": "by a checksum alone",
    "e2fsck": "by e2fsck alone",
    "canary": "by the canary alone",
}


def during(row: Row) -> str | None:
    """Return when a change was planted, at `rest` or during a `step`; None if the store does not say."""
    return row.planted_during


def _lines(rows: Sequence[Row], vocabulary: Vocabulary) -> dict[str, Value]:
    by = {id(row): found_by(row, vocabulary) for row in rows}
    found = [row for row in rows if by[id(row)]]
    in_turn = any(map(during, rows))
    oracles = {
        name: how_many(row for row in found if by[id(row)] == oracle) for oracle, name in _ORACLES.items()
    }
    return {
        "Changes": how_many(rows),
        **(_groups(rows, vocabulary) if in_turn else _old_kinds(rows, vocabulary)),
        "Found": how_many(found),
        **(oracles if in_turn else {}),
        "Found and rightly classed": how_many(
            row for row in found if row.corruption == expected(row, vocabulary)
        ),
        "Not found": how_many(rows) - how_many(found),
    }


def _old_kinds(rows: Sequence[Row], vocabulary: Vocabulary) -> dict[str, Value]:
    return {
        vocabulary.kind(name).title: how_many(row for row in rows if kind(row) == name) for name in _OLD_KINDS
    }


def _groups(rows: Sequence[Row], vocabulary: Vocabulary) -> dict[str, Value]:
    """Count the changes of each kind and moment, and those found; None where there were none."""
    groups = {
        each.title: [row for row in rows if kind(row) == name] for name, each in vocabulary.planted.items()
    }
    groups |= {name: [row for row in rows if during(row) == moment] for moment, name in _MOMENTS.items()}
    lines: dict[str, Value] = {}
    for name, some in groups.items():
        lines[name] = how_many(some) or None
        lines[f"{name}: found"] = how_many(row for row in some if found_by(row, vocabulary)) if some else None
    return lines


PLANTED = ModeCounts(
    name="planted",
    title="Planted changes",
    help="Whether planted changes were found and rightly classified: the positive control.",
    note="Trials of fault class planted: one bit was changed behind the workload's back, then the machine "
    "was reset.",
    legend={
        "at rest": "the workload had ended.",
        "during a step": "the workload stood still in the middle of a step until the reset.",
        "in an entry of the registry": "with it goes its page, which is not missed if the step in flight "
        "wrote it; then recovery has to have rejected the entry.",
        "in a bitmap, in the journal": "recovery may put it right; then a checksum or e2fsck has to name "
        "the change.",
        "in the canary": "no file has it; its first byte that differs must be the changed one.",
        "Found": "the workload's check found a difference, or another oracle what no file has.",
        "Found and rightly classed": "with a wrong checksum in memory; with right ones if it was written to "
        "a file, or to the disk of a mode that restores memory; unclassified where there are no checksums; "
        "none where no file differs.",
    },
    old_legend={
        "Found and rightly classed": "with a wrong checksum in a cached page or in the registry, with right "
        "ones if it was written to a file; unclassified where there are no checksums.",
    },
    section="controls",
    wants=planted,
    lines=_lines,
)
