# SPDX-License-Identifier: Apache-2.0
"""Losses of resets without a fault and of resets in recovery: these tables should be full of zeros."""

import statistics
from collections import Counter

from riobed_results.store import PANICS, TrialRow, counts, cut_short
from riobed_results.tables.by_mode import Design, Value
from riobed_results.tables.controls import on_request

# In the order in which riorecover runs them.
PHASES = ("registry", "save", "metadata", "e2fsck", "data")
MIB = 1 << 20
_BY = {"sysrq": "SysRq", "nmi": "NMI"}


def restarted(row: TrialRow) -> bool:
    """Whether the production kernel was started after a warm recovery, successfully or not."""
    report = row.recovery
    return report is not None and report.production is not None and report.registry == "recovered"


def differences(row: TrialRow) -> int:
    """Return how many differences the workload's check counted; 1 if it gave no number."""
    if row.check is None or row.check.equal:
        return 0
    counted = row.check.difference_count
    return 1 if counted is None else counted


def loss_lines(rows: list[TrialRow]) -> dict[str, Value]:
    """Return what these crashes lost, and how much was restored from memory."""
    reports = [row.recovery for row in rows if row.recovery]
    kept = [count for report in reports if (count := report.checksum_mismatches) is not None]
    return {
        "Lost or changed a file": sum(row.corruption != "none" for row in rows),
        "Files lost or changed": sum(map(differences, rows)),
        "Checksum mismatches": sum(kept) if kept else None,
        "Registry entries rejected": sum(report.unused_entries for report in reports),
        "Pages restored, median": float(statistics.median(report.restored_pages for report in reports))
        if reports
        else None,
    }


def _no_fault_lines(rows: list[TrialRow]) -> dict[str, Value]:
    return {"Resets": len(rows), **loss_lines(rows)}


def _recovery_crash_lines(rows: list[TrialRow]) -> dict[str, Value]:
    hit = [row for row in rows if counts(row.recovery)]
    phases = Counter(cut_short(row.recovery) for row in hit)
    named = dict.fromkeys([*PHASES, *(str(phase) for phase in phases)])
    return {
        "Resets in recovery": len(hit),
        **{f"in its phase {name}": phases[name] for name in named},
        "Everything restored": sum(row.corruption == "none" for row in hit),
        **loss_lines(hit),
        "Resets after its end": len(rows) - len(hit),
    }


NO_FAULT = Design(
    name="no-fault",
    title="Resets without a fault",
    section="controls",
    note="Trials of fault class none: the machine was reset at a random moment under the workload. Files "
    "lost or changed: differences the workload's check found, besides the step in flight; checksum "
    "mismatches: cached pages with another checksum than recorded (-: none are kept); restored: pages of "
    "metadata and file data that recovery wrote back, median of the resets.",
    wants=lambda row: (
        row.outcome == "crash" and row.fault_class == "none" and cut_short(row.recovery) is None
    ),
    lines=_no_fault_lines,
)


def _panic_lines(rows: list[TrialRow]) -> dict[str, Value]:
    shares = [100 * row.recovery.dirty_share for row in rows if row.recovery]
    return {
        "Panics": len(rows),
        **{f"by {how}": sum(row.crash_title == PANICS[key] for row in rows) for key, how in _BY.items()},
        "Dirty, % of RAM, smallest": round(min(shares), 1) if shares else None,
        "Dirty, % of RAM, median": round(statistics.median(shares), 1) if shares else None,
        **loss_lines(rows),
    }


PANIC = Design(
    name="panics",
    title="Panics on request",
    section="controls",
    note="Trials of fault class panic: a sound kernel was told to panic at a random moment under the "
    "workload, by SysRq c or by a non-maskable interrupt, and then reset. Dirty: pages that recovery found "
    "dirty in the registry, metadata included. The other lines are as in the table no-fault.",
    wants=lambda row: row.outcome == "crash" and row.fault_class == "panic" and on_request(row),
    lines=_panic_lines,
)


def _restart_lines(rows: list[TrialRow]) -> dict[str, Value]:
    dirty = [row.recovery.dirty_bytes / MIB for row in rows if row.recovery]
    return {
        "Warm recoveries": len(rows),
        "Production kernel came up": sum(bool(row.recovery and row.recovery.production) for row in rows),
        "It did not": sum(bool(row.recovery and not row.recovery.production) for row in rows),
        "Dirty, MiB, smallest": round(min(dirty), 1),
        "Dirty, MiB, median": round(statistics.median(dirty), 1),
    }


RESTARTS = Design(
    name="restarts",
    title="Production kernels after a warm recovery",
    section="controls",
    note="Trials in which the production kernel was started by kexec after recovery and check. Dirty: pages "
    "that recovery found dirty in the registry, metadata included.",
    wants=restarted,
    lines=_restart_lines,
)

RECOVERY_CRASH = Design(
    name="recovery-crash",
    title="Resets in recovery",
    section="controls",
    note="The machine was reset again while riorecover was at work, at a random moment, in the phase named; "
    "what follows is about the next recovery. A reset after recovery had ended counts for nothing but the "
    "last line. Files lost or changed, checksum mismatches, restored: as in the table no-fault.",
    wants=lambda row: row.outcome == "crash" and cut_short(row.recovery) is not None,
    lines=_recovery_crash_lines,
)
