# SPDX-License-Identifier: Apache-2.0
"""What kernels reported and outlived: KASAN, lockdep, WARN(), stalls and the like, without a panic."""

from collections import Counter
from collections.abc import Sequence

from riobed_results.store import CONTROLS, Row, Vocabulary, how_many, judged, numbers
from riobed_results.tables.framework.by_mode import ModeCounts, Value


def _lines(rows: Sequence[Row], _: Vocabulary) -> dict[str, Value]:
    known = [row for row in rows if row.complained is not None]
    complained = [row for row in known if row.complained]
    titles = Counter(numbers(complained, "first_complaint"))
    return {
        "Runs": how_many(known),
        "Not known": how_many(rows) - how_many(known) or None,
        "With a complaint": how_many(complained) if known else None,
        "of these, survived": how_many(row for row in complained if row.outcome == "survived") or None,
        "of these, controls": how_many(row for row in complained if row.fault_class in CONTROLS) or None,
        "Complaints": sum(numbers(complained, "complaints")) if known else None,
        **dict(titles.most_common()),
    }


COMPLAINTS = ModeCounts(
    name="complaints",
    title="Reports that kernels outlived",
    help="How many kernels reported a fault of their own and went on: KASAN, lockdep, WARN(), stalls.",
    section="faults",
    note="Judged runs, controls included. A complaint is a report of the kernel on itself that came before "
    "its crash, if it crashed, and that the crash did not follow from. A run whose guest was booted for it "
    "has those of the boot, too. The lines after Complaints are runs by the title of their first.",
    legend={
        "Not known": "stores before schema 7 do not say it.",
        "of these, survived": "the trial tells of no crash; controls are among them.",
        "Complaints": "all of these runs together.",
    },
    wants=judged,
    needs=lambda row: judged(row) and row.complained is not None,
    lacks="runs of which it is known what their kernel reported; stores before schema 7 do not say it",
    numbers=("complaints", "first_complaint"),
    lines=_lines,
)
