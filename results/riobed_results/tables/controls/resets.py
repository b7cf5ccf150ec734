# SPDX-License-Identifier: Apache-2.0
"""Compare crashes that the parked stage 0 recovered with crashes that a reset followed."""

from collections.abc import Sequence

from riobed_results.store import Row, Vocabulary, how_many
from riobed_results.tables.controls.starts import difference_p
from riobed_results.tables.framework.by_mode import ModeCounts, Value


def _corrupted(row: Row) -> bool:
    return row.corruption != "none"


def _lines(rows: Sequence[Row], _: Vocabulary) -> dict[str, Value]:
    how = {name: [row for row in rows if row.restart == name] for name in ("reset", "parked", "both")}
    p = difference_p(how["reset"] + how["parked"], lambda row: row.restart == "parked", _corrupted)
    return {
        "Reset": how_many(how["reset"]),
        "Reset: corrupted": how_many(filter(_corrupted, how["reset"])),
        "Parked stage 0": how_many(how["parked"]),
        "Parked stage 0: corrupted": how_many(filter(_corrupted, how["parked"])),
        "Corrupted, within classes: p": None if p is None else round(p, 3),
        "Both, compared": how_many(how["both"]),
        "Both: reports differ": how_many(row for row in how["both"] if row.restarts_differ),
    }


RESETS = ModeCounts(
    name="resets",
    title="Recovery by the parked stage 0 beside real resets",
    help="Whether the parked stage 0 recovers what a real reset does.",
    section="corruptions",
    note="Judged trials by how the machine restarted, drawn at random.",
    legend={
        "Parked stage 0": "one that was kept at the moment before it looks at old memory and disks.",
        "Both": "a reset and a parked stage 0, one after the other from a copy of the crash.",
        "reports differ": "a field of the recovery's or of the check's report, besides times, was not the "
        "same; the row says which.",
        "p": "of the exact conditional test, two-sided, of whether the shares that were corrupted differ "
        "within fault classes and controls; -: no class has both.",
    },
    wants=lambda row: row.outcome != "infra_error" and row.restart in ("reset", "parked", "both"),
    lines=_lines,
    needs=lambda row: row.restart != "reset",
)
