# SPDX-License-Identifier: Apache-2.0
"""The controls of a campaign: they show that the oracles find real corruption and report no other."""

from collections.abc import Iterable, Iterator
from typing import Any

from riobed_results.store import (
    CONTROLS,
    LOSSES_OF_POWER,
    CampaignRow,
    Results,
    Row,
    counted,
    how_many,
    in_order,
    judged,
    stored_spec,
)
from riobed_results.text import printable

# In these modes a reset without a fault must lose data, because it was not yet written.
LOSING_MODES = frozenset({
    "delayed", "delayed-no-journal", "delayed-xfs", "delayed-btrfs", "dirsync", "memory", "nv-swap",
    "nv-memory",
})  # fmt: skip
# Shipped modes of these names keep files in memory alone, so a loss of power takes all of them.
_IN_MEMORY = "rio"
# Classes that end a sound kernel, and what to call such an end.
_SOUND = {"none": "resets without a fault", "panic": "panics on request"}
# For each kind of planted change, its name in the table and the expected class of corruption. The kinds are
# defined in riobed.trial.control.plant.
KINDS = {
    "stray": ("in a cached page", "direct"),
    "entry": ("in an entry of the registry", "direct"),
    "block": ("in a block of the disk", "indirect"),
    "written": ("written to a file", "indirect"),
    "directory": ("in a directory", "direct"),
    "inode": ("in an inode", "direct"),
    "xattr": ("in an extended attribute", "direct"),
    "bitmap": ("in a bitmap", "direct"),
    "journal": ("in the journal", "unclassified"),
    "writecache": ("in the metadata of dm-writecache", "unclassified"),
    "canary": ("in the canary", "direct"),
}
# Recovery may put these right, or they are in no file; then another oracle has to find them.
_NOT_IN_A_FILE = frozenset({"bitmap", "journal", "canary"})


def kind(row: Row) -> str:
    """Return the kind of a planted change."""
    return str(row.planted)


def found_by(row: Row) -> str | None:
    """Return which oracle found a planted change: the workload's `check`, `checksum`, `e2fsck` or `canary`.

    Others than the check count only where no file needs to differ. None: it was not found.
    """
    if row.corruption != "none":
        return "check"
    return row.named_by if _may_be_in_no_file(row) else None


def _may_be_in_no_file(row: Row) -> bool:
    """Whether no file needs to differ after the change.

    Of what the step in flight writes any part may be missing. So a page of it may go with its entry.
    """
    return kind(row) in _NOT_IN_A_FILE or (kind(row) == "entry" and row.planted_during == "step")


def expected(row: Row) -> str:
    """Return the class that the corruption of a planted change must have.

    Without checksums of cached pages, only damage to the registry can be classified. If recovery failed,
    nothing can. What recovery has put right, or is in no file, is none.
    """
    if row.corruption == "none" and _may_be_in_no_file(row):
        return "none"
    told_apart = row.recovered and (kind(row) == "entry" or row.checksummed)
    return KINDS[kind(row)][1] if told_apart else "unclassified"


def planted(row: Row) -> bool:
    """Whether a change was planted in this trial."""
    return judged(row) and row.planted is not None


def powerless(row: Row) -> bool:
    """Whether the crash was followed by a loss of power, and the trial was judged."""
    return judged(row) and row.restart in LOSSES_OF_POWER


def control_warnings(results: Results) -> list[str]:
    """Return the warnings that qualify every number about faults."""
    return [
        *failed_controls(results.trials, losing_modes(results.campaign)),
        *missing_controls(results),
        *_differing_restarts(results.trials),
    ]


def _differing_restarts(rows: Iterable[Row]) -> Iterator[str]:
    if differ := how_many(row for row in rows if row.restarts_differ):
        yield f"The parked stage 0 and a reset recovered {differ} crashes differently: no number counts."


def losing_modes(campaign: CampaignRow) -> frozenset[str]:
    """Return the modes in which what follows a crash must lose data, including a user's own modes."""
    if must_lose(campaign):
        return frozenset(in_order(campaign, "modes", ()))
    spec = stored_spec(campaign)
    power = spec.get("restart") in LOSSES_OF_POWER
    own = spec.get("own_modes")
    own = own if isinstance(own, dict) else {}
    losing = {str(name) for name, mode in own.items() if isinstance(mode, dict) and _loses(mode, power)}
    if power:
        shipped = (mode for mode in in_order(campaign, "modes", ()) if mode not in own)
        losing |= {mode for mode in shipped if mode.startswith(_IN_MEMORY)}
    return LOSING_MODES | losing


def must_lose(campaign: CampaignRow) -> bool:
    """Whether the workload has a bug that the oracles have to find, so that no mode keeps what it wrote."""
    return stored_spec(campaign).get("must_lose") is True


def _loses(mode: dict[str, Any], power: bool) -> bool:
    """Whether a mode of a stored spec makes nothing durable at once; default keys are not stored."""
    kept = mode.get("sync_writes") or mode.get("sync_on_close") or (mode.get("restores_memory") and not power)
    return mode.get("filesystem") == "tmpfs" or not kept


def tells(row: Row, losing: frozenset[str] = LOSING_MODES) -> bool:
    """Whether this row can show a failed control; a planted change cannot if the mode loses data anyway."""
    sound = judged(row) and row.fault_class in _SOUND
    return sound or (planted(row) and row.mode not in losing)


def failed_controls(rows: Iterable[Row], losing: frozenset[str] = LOSING_MODES) -> list[str]:
    """Return a sentence for each control that failed in a mode."""
    rows = [row for row in rows if tells(row, losing)]
    modes = dict.fromkeys(row.mode for row in rows)
    return [
        printable(f"Control failed in mode {mode}: {sentence}.")
        for mode in modes
        for sentence in _failures(mode in losing, [row for row in rows if row.mode == mode])
    ]


def _failures(loses: bool, rows: list[Row]) -> Iterator[str]:
    for name, ends in _SOUND.items():
        if name == "none" and any(row.restart in LOSSES_OF_POWER for row in rows):
            ends = "losses of power without a fault"
        yield from _sound_failures(loses, [row for row in rows if row.fault_class == name], ends)
    boots = [row for row in rows if row.production is not None]
    if down := how_many(row for row in boots if not row.production):
        yield f"the production kernel did not come up after {down} of {how_many(boots)} recoveries"
    changed = [row for row in rows if row.fault_class == "planted"]
    found = list(filter(found_by, changed))
    if missed := how_many(changed) - how_many(found):
        yield f"{missed} of {how_many(changed)} planted changes were not found"
    if wrong := how_many(row for row in found if row.corruption != expected(row)):
        yield f"{wrong} of {how_many(found)} planted changes were found but wrongly classed"


def on_request(row: Row) -> bool:
    """Whether the harness brought this sound kernel down."""
    if row.outcome != "crash":
        return row.outcome == "survived"
    return row.panic_by is not None if row.fault_class == "panic" else row.crash_kind == "reset"


def lost_something(row: Row) -> bool:
    """Whether a file is wrong, or the newest steps are not there."""
    return row.corruption != "none" or row.lost_steps


def _sound_failures(loses: bool, alone: list[Row], ends: str) -> Iterator[str]:
    wanted = list(filter(on_request, alone))
    total = how_many(wanted)
    if crashed := how_many(alone) - total:
        yield f"{crashed} of {how_many(alone)} guests without a fault crashed by themselves"
    lost = how_many(filter(lost_something, wanted))
    if loses and wanted and not lost:
        yield f"none of {total} {ends} lost anything, and one had to"
    if lost and not loses:
        yield f"{lost} of {total} {ends} lost or changed a file"
    for bad, what in (
        ([row for row in wanted if row.direct], "a page or registry entry with a wrong checksum"),
        ([row for row in wanted if row.canary], "a hit in the canary of the NVDIMM"),
        ([row for row in wanted if row.inconsistent], "a registry entry that makes no sense"),
        ([row for row in wanted if row.duplicates], "two dirty registry entries for one page"),
    ):
        if found := how_many(bad):
            yield f"{found} of {total} {ends} left {what}"


def missing_controls(results: Results) -> list[str]:
    """Return a sentence if faults crashed guests in modes without a control that ran, else an empty list.

    `planted` is reported as missing only if the spec asks for it, because not every workload can be stopped.
    """
    spec = stored_spec(results.campaign)
    classes = spec.get("fault_classes")
    plants = "planted" in control_rates(spec) or (isinstance(classes, list) and "planted" in classes)
    losing = losing_modes(results.campaign)
    ran = {(row.fault_class, row.mode) for row in results.trials if tells(row, losing)}
    faulty = dict.fromkeys(
        row.mode for row in results.trials if counted(row) and row.fault_class not in CONTROLS
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
