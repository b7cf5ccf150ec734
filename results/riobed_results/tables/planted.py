# SPDX-License-Identifier: Apache-2.0
"""The control `planted`: what was changed on purpose, and whether the oracles found and classed it."""

from riobed_results.store.models import TrialRow
from riobed_results.store.recovery_report import checksum_mismatches
from riobed_results.tables.by_mode import Design, Value

# What a change of each kind is called in the table, and what corruption it must be found to be. The kinds are
# those of riobed.trial.planting.
KINDS = {
    "stray": ("in a cached page", "direct"),
    "entry": ("in an entry of the registry", "direct"),
    "block": ("in a block of the disk", "unclassified"),
    "written": ("written to a file", "indirect"),
}


def kind(row: TrialRow) -> str:
    """Return of which kind a planted change was."""
    return str(row.faults[0].params["kind"])


def expected(row: TrialRow) -> str:
    """Return what the corruption of a planted change must be called.

    Without checksums of cached pages only damage to the registry can be told from the rest; nothing can
    where recovery failed.
    """
    damaged = kind(row) == "entry" and row.recovery is not None
    told_apart = damaged or checksum_mismatches(row.recovery) is not None
    return KINDS[kind(row)][1] if told_apart else "unclassified"


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
    wants=lambda row: row.outcome == "crash" and row.fault_class == "planted" and bool(row.faults),
    lines=_lines,
)
