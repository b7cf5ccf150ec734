# SPDX-License-Identifier: Apache-2.0
"""The controls of a campaign: they show that the oracles find real corruption and report no other."""

from collections.abc import Iterable, Iterator
from typing import Any

from riobed_results.store import PANICS, CampaignRow, Results, TrialRow, counted, is_direct, stored_spec
from riobed_results.tables.render import printable

# Classes that inject no fault. They are rows of the table, but not part of its totals.
CONTROLS = frozenset({"none", "panic", "planted"})
# In these modes a reset without a fault must lose data, because it was not yet written.
LOSING_MODES = frozenset({"delayed"})
# Classes that end a sound kernel, and what to call such an end.
_SOUND = {"none": "resets without a fault", "panic": "panics on request"}
# For each kind of planted change, its name in the table and the expected class of corruption. The kinds are
# defined in riobed.trial.planting.
KINDS = {
    "stray": ("in a cached page", "direct"),
    "entry": ("in an entry of the registry", "direct"),
    "block": ("in a block of the disk", "unclassified"),
    "written": ("written to a file", "indirect"),
}


def kind(row: TrialRow) -> str:
    """Return the kind of a planted change."""
    return str(row.faults[0].params["kind"])


def expected(row: TrialRow) -> str:
    """Return the class that the corruption of a planted change must have.

    Without checksums of cached pages, only damage to the registry can be classified. If recovery failed,
    nothing can.
    """
    report = row.recovery
    told_apart = report and (kind(row) == "entry" or report.checksum_mismatches is not None)
    return KINDS[kind(row)][1] if told_apart else "unclassified"


def planted(row: TrialRow) -> bool:
    """Whether a change was planted in this trial."""
    return row.outcome == "crash" and row.fault_class == "planted" and bool(row.faults)


def control_warnings(results: Results) -> list[str]:
    """Return the warnings that qualify every number about faults; the rows must have their faults loaded."""
    return [*failed_controls(results.rows, losing_modes(results.campaign)), *missing_controls(results)]


def losing_modes(campaign: CampaignRow) -> frozenset[str]:
    """Return the modes in which a reset must lose data, including a user's own modes."""
    own = stored_spec(campaign).get("own_modes")
    modes = own.items() if isinstance(own, dict) else ()
    return LOSING_MODES | {str(name) for name, mode in modes if isinstance(mode, dict) and _loses(mode)}


def _loses(mode: dict[str, Any]) -> bool:
    """Whether a mode of a stored spec makes nothing durable at once; default keys are not stored."""
    kept = mode.get("sync_writes") or mode.get("restores_memory")
    return mode.get("filesystem") == "tmpfs" or not kept


def judged(row: TrialRow, losing: frozenset[str] = LOSING_MODES) -> bool:
    """Whether this row can show a failed control; a planted change cannot if the mode loses data anyway."""
    sound = row.outcome == "crash" and row.fault_class in _SOUND
    return sound or (planted(row) and row.mode not in losing)


def failed_controls(rows: Iterable[TrialRow], losing: frozenset[str] = LOSING_MODES) -> list[str]:
    """Return a sentence for each control that failed in a mode."""
    rows = [row for row in rows if judged(row, losing)]
    modes = dict.fromkeys(row.mode for row in rows)
    return [
        printable(f"Control failed in mode {mode}: {sentence}.")
        for mode in modes
        for sentence in _failures(mode in losing, [row for row in rows if row.mode == mode])
    ]


def _failures(loses: bool, rows: list[TrialRow]) -> Iterator[str]:
    for name, ends in _SOUND.items():
        yield from _sound_failures(loses, [row for row in rows if row.fault_class == name], ends)
    boots = [row.recovery.production for row in rows if row.recovery and row.recovery.production is not None]
    if down := boots.count(False):
        yield f"the production kernel did not come up after {down} of {len(boots)} recoveries"
    changed = [row for row in rows if row.fault_class == "planted"]
    found = [row for row in changed if row.corruption != "none"]
    if len(found) < len(changed):
        yield f"{len(changed) - len(found)} of {len(changed)} planted changes were not found"
    if wrong := sum(row.corruption != expected(row) for row in found):
        yield f"{wrong} of {len(found)} planted changes were found but wrongly classed"


def on_request(row: TrialRow) -> bool:
    """Whether the harness made this crash of a sound kernel."""
    return row.crash_title in PANICS.values() if row.fault_class == "panic" else row.crash_kind == "reset"


def _sound_failures(loses: bool, alone: list[TrialRow], ends: str) -> Iterator[str]:
    wanted = list(filter(on_request, alone))
    if crashed := len(alone) - len(wanted):
        yield f"{crashed} of {len(alone)} guests without a fault crashed by themselves"
    lost = sum(row.corruption != "none" for row in wanted)
    if loses and wanted and not lost:
        yield f"none of {len(wanted)} {ends} lost anything, and data had not been written"
    if lost and not loses:
        yield f"{lost} of {len(wanted)} {ends} lost or changed a file"
    reports = [row.recovery for row in wanted if row.recovery]
    for found, what in (
        (
            sum(bool(is_direct(report)) for report in reports),
            "a page or registry entry with a wrong checksum",
        ),
        (sum(bool(report.inconsistent) for report in reports), "a registry entry that makes no sense"),
        (
            sum(bool(report.entries.duplicates) for report in reports),
            "two dirty registry entries for one page",
        ),
    ):
        if found:
            yield f"{found} of {len(wanted)} {ends} left {what}"


def missing_controls(results: Results) -> list[str]:
    """Return a sentence if faults crashed guests in modes without a control that ran, else an empty list.

    `planted` is reported as missing only if the spec asks for it, because not every workload can be stopped.
    """
    spec = stored_spec(results.campaign)
    classes = spec.get("fault_classes")
    plants = "planted" in control_rates(spec) or (isinstance(classes, list) and "planted" in classes)
    losing = losing_modes(results.campaign)
    ran = {(row.fault_class, row.mode) for row in results.rows if judged(row, losing)}
    faulty = dict.fromkeys(
        row.mode for row in results.rows if counted(row) and row.fault_class not in CONTROLS
    )
    missing = {
        "none": [mode for mode in faulty if ("none", mode) not in ran],
        "planted": [
            mode for mode in faulty if plants and mode not in losing and ("planted", mode) not in ran
        ],
    }
    said = [
        f"class {name} in {'mode' if len(modes) == 1 else 'modes'} {', '.join(modes)}"
        for name, modes in missing.items()
        if modes
    ]
    return [printable(f"Controls that have not run: {'; '.join(said)}.")] if said else []


def control_rates(spec: dict[str, Any]) -> dict[str, float]:
    """Return the controls that a stored spec adds to its classes, with their number per wanted crash."""
    controls = spec.get("controls")
    rates = controls.items() if isinstance(controls, dict) else ()
    return {str(name): rate for name, rate in rates if isinstance(rate, int | float) and rate}
