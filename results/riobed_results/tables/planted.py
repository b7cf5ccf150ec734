# SPDX-License-Identifier: Apache-2.0
"""The positive control `planted`: what was changed, and whether the oracles found and classified it."""

from riobed_results.store import TrialRow
from riobed_results.tables.by_mode import Design, Value
from riobed_results.tables.controls import KINDS, expected, kind, planted


def _lines(rows: list[TrialRow]) -> dict[str, Value]:
    kinds = [kind(row) for row in rows]
    found = [row for row in rows if row.corruption != "none"]
    return {
        "Changes": len(rows),
        **{where: kinds.count(name) for name, (where, _) in KINDS.items()},
        "Found": len(found),
        "Found and rightly classed": sum(row.corruption == expected(row) for row in found),
        "Not found": len(rows) - len(found),
    }


PLANTED = Design(
    name="planted",
    title="Planted changes",
    note="Trials of fault class planted: one bit was changed behind the workload's back, then the machine "
    "was reset. Rightly classed: direct in a cached page or in the registry, indirect if it was written to a "
    "file; unclassified where there are no checksums.",
    section="controls",
    wants=planted,
    lines=_lines,
)
