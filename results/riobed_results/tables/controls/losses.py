# SPDX-License-Identifier: Apache-2.0
"""Losses of resets without a fault, of resets in recovery, and of power: the first two should be zeros."""

import statistics
from collections import Counter
from collections.abc import Sequence

from riobed_results.rules.controls import on_request, powerless
from riobed_results.store import Row, Vocabulary, how_many, judged, numbers
from riobed_results.tables.framework.by_mode import ModeCounts, Value

# In the order in which riorecover runs them.
PHASES = ("registry", "save", "metadata", "e2fsck", "data")
# Before these, on machines with a cache of the disk in the NVDIMM, or with further disks.
FIRST_PHASES = ("cache", "others")
MIB = 1 << 20
_BY = {"sysrq": "SysRq", "nmi": "NMI"}


def restarted(row: Row) -> bool:
    """Whether the production kernel was started after a warm recovery, successfully or not."""
    return row.warm and row.production is not None


# The sums that `loss_lines` needs, besides the numbers of "restored_pages".
_SUMS = ("differences", "mismatches", "unused_entries")


def loss_lines(rows: Sequence[Row]) -> dict[str, Value]:
    """Return what these crashes lost, and how much was restored from memory."""
    kept, restored = numbers(rows, "mismatches"), numbers(rows, "restored_pages")
    return {
        "Lost or changed a file": how_many(row for row in rows if row.corruption != "none"),
        "Files lost or changed": sum(numbers(rows, "differences")),
        "Checksum mismatches": sum(kept) if kept else None,
        "Registry entries rejected": sum(numbers(rows, "unused_entries")),
        "Pages restored, median": float(statistics.median(restored)) if restored else None,
    }


_LOSSES = {
    "Files lost or changed": "differences that the workload's check found, besides the step in flight.",
    "Checksum mismatches": "cached pages with another checksum than recorded (-: none are kept).",
    "Pages restored": "pages of metadata and file data that recovery wrote back, median of the resets.",
}


def _no_fault_lines(rows: Sequence[Row], _: Vocabulary) -> dict[str, Value]:
    return {"Resets": how_many(rows), **loss_lines(rows)}


def _recovery_crash_lines(rows: Sequence[Row], _: Vocabulary) -> dict[str, Value]:
    hit = [row for row in rows if not row.late]
    phases: Counter[str] = Counter()
    for row in hit:
        phases[str(row.cut_short)] += row.weight
    named = dict.fromkeys([*(name for name in FIRST_PHASES if phases[name]), *PHASES, *phases])
    return {
        "Resets in recovery": how_many(hit),
        **{f"in its phase {name}": phases[name] for name in named},
        "Everything restored": how_many(row for row in hit if row.corruption == "none"),
        **loss_lines(hit),
        "Resets after its end": how_many(rows) - how_many(hit),
    }


NO_FAULT = ModeCounts(
    name="no-fault",
    title="Resets without a fault",
    help="What resets without a fault lost: the negative control.",
    section="controls",
    note="Trials of fault class none: the machine was reset at a random moment under the workload.",
    legend=_LOSSES,
    wants=lambda row: (
        judged(row) and row.fault_class == "none" and row.cut_short is None and not powerless(row)
    ),
    lines=_no_fault_lines,
    numbers=("restored_pages",),
    sums=_SUMS,
)


def _power_lines(rows: Sequence[Row], _: Vocabulary) -> dict[str, Value]:
    steps, seconds = numbers(rows, "steps_lost"), numbers(rows, "seconds_lost")
    return {
        "Losses of power": how_many(rows),
        "without a fault": how_many(row for row in rows if row.fault_class == "none"),
        "Lost or changed a file": how_many(row for row in rows if row.corruption != "none"),
        "Lost newest steps, no more": how_many(row for row in rows if row.lost_steps),
        "Lost every step": how_many(row for row in rows if row.lost_every_step),
        "Steps lost, median": float(statistics.median(steps)) if steps else None,
        "Steps lost, most": max(steps) if steps else None,
        "Seconds lost, median": round(statistics.median(seconds), 2) if seconds else None,
        "Seconds lost, most": round(max(seconds), 2) if seconds else None,
    }


POWER = ModeCounts(
    name="power",
    title="Losses of power",
    help="What losses of power cost, and how many steps were lost.",
    section="controls",
    note="Trials after which all RAM above the first MiB was overwritten with noise before the machine came "
    "back. A mode that keeps files in memory alone (rio) has promised nothing for that, so it loses all of "
    "them.",
    legend={
        "Lost newest steps": "steps are not there, and no promise is broken. Modes that write later "
        "(delayed) may do that; in all others each difference is a changed file.",
        "Lost every step": "as before the first one, or no file is right.",
        "Steps lost": "from the first step that is not there to the last.",
        "Seconds lost": "in which the workload reported these steps (-: not recorded).",
    },
    wants=powerless,
    lines=_power_lines,
    numbers=("steps_lost", "seconds_lost"),
)


def _panic_lines(rows: Sequence[Row], _: Vocabulary) -> dict[str, Value]:
    shares = [100 * share for share in numbers(rows, "registry_dirty_share")]
    # Dirty pages are not counted without a registry; with one, some always are.
    shares = shares if any(shares) else []
    return {
        "Panics": how_many(rows),
        **{f"by {how}": how_many(row for row in rows if row.panic_by == key) for key, how in _BY.items()},
        "Dirty, % of RAM, smallest": round(min(shares), 1) if shares else None,
        "Dirty, % of RAM, median": round(statistics.median(shares), 1) if shares else None,
        **loss_lines(rows),
    }


PANIC = ModeCounts(
    name="panics",
    title="Panics on request",
    help="What panics on request lost, and how much of RAM was dirty: another negative control.",
    section="controls",
    note="Trials of fault class panic: a sound kernel was told to panic at a random moment under the "
    "workload, by SysRq c or by a non-maskable interrupt, and then reset.",
    legend={"Dirty": "pages that recovery found dirty in the registry, metadata included."} | _LOSSES,
    wants=lambda row: judged(row) and row.fault_class == "panic" and on_request(row) and not powerless(row),
    lines=_panic_lines,
    numbers=("restored_pages", "registry_dirty_share"),
    sums=_SUMS,
)


def _restart_lines(rows: Sequence[Row], _: Vocabulary) -> dict[str, Value]:
    dirty = [found / MIB for found in numbers(rows, "registry_dirty_bytes")]
    return {
        "Warm recoveries": how_many(rows),
        "Production kernel came up": how_many(row for row in rows if row.production),
        "It did not": how_many(row for row in rows if not row.production),
        "Dirty, MiB, smallest": round(min(dirty), 1),
        "Dirty, MiB, median": round(statistics.median(dirty), 1),
    }


RESTARTS = ModeCounts(
    name="restarts",
    title="Production kernels after a warm recovery",
    help="Whether the production kernel came up after warm recoveries.",
    section="controls",
    note="Trials in which the production kernel was started by kexec after recovery and check.",
    legend={"Dirty": "pages that recovery found dirty in the registry, metadata included."},
    wants=restarted,
    lines=_restart_lines,
    numbers=("registry_dirty_bytes",),
)

RECOVERY_CRASH = ModeCounts(
    name="recovery-crash",
    title="Resets in recovery",
    help="What resets in the middle of recovery did.",
    section="controls",
    note="The machine was reset again while riorecover was at work, at a random moment; what is lost was "
    "lost by the next recovery.",
    legend={
        "in its phase": "where the second reset hit recovery.",
        "Resets after its end": "recovery had ended; they count for nothing else.",
    }
    | _LOSSES,
    wants=lambda row: judged(row) and row.cut_short is not None and not powerless(row),
    lines=_recovery_crash_lines,
    numbers=("restored_pages",),
    sums=_SUMS,
)
