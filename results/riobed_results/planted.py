# SPDX-License-Identifier: Apache-2.0
"""The control `planted`: what was changed on purpose, and whether the oracles found and classed it."""

from riobed_results.by_mode import Design, Value
from riobed_results.models import TrialRow
from riobed_results.recovery import checksum_mismatches

# What a planted change must be called; a written one has a right checksum, where there are checksums.
_STRAY, _WRITTEN = "direct", "indirect"


def expected(row: TrialRow) -> str:
    """Return what the corruption of a planted change must be called."""
    if checksum_mismatches(row.recovery) is None:
        return "unclassified"
    return _STRAY if row.faults[0].params.get("kind") == "stray" else _WRITTEN


def _lines(rows: list[TrialRow]) -> dict[str, Value]:
    kinds = [row.faults[0].params.get("kind") for row in rows]
    found = [row for row in rows if row.corruption != "none"]
    return {
        "Changes": len(rows),
        "stray, in memory": kinds.count("stray"),
        "written to a file": kinds.count("written"),
        "Found": len(found),
        "Found and rightly classed": sum(row.corruption == expected(row) for row in found),
        "Not found": len(rows) - len(found),
    }


PLANTED = Design(
    name="planted",
    title="Planted changes",
    note="Trials of fault class planted: one bit of one file was changed behind the workload's back, and "
    "then the machine was reset. Rightly classed: a stray change direct, a written one indirect; "
    "unclassified where there are no checksums.",
    wants=lambda row: row.outcome == "crash" and row.fault_class == "planted" and bool(row.faults),
    lines=_lines,
)
