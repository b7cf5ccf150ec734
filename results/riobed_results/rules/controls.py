# SPDX-License-Identifier: Apache-2.0
"""The controls of a campaign: they show that the oracles find real corruption and report no other."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from riobed_results.store import (
    CONTROLS,
    LOSSES_OF_POWER,
    Results,
    Row,
    Vocabulary,
    how_many,
    is_counted_crash,
    judged,
    stored_spec,
)
from riobed_results.text import printable

# Classes that end a sound kernel, and what to call such an end.
_SOUND = {"none": "resets without a fault", "panic": "panics on request"}


def kind(row: Row) -> str:
    """Return the kind of a planted change."""
    return str(row.planted)


def found_by(row: Row, vocabulary: Vocabulary) -> str | None:
    """Return which oracle found a planted change: the workload's `check`, `checksum`, `e2fsck` or `canary`.

    Others than the check count only where no file needs to differ. None: it was not found.
    """
    if row.corruption != "none":
        return "check"
    return row.named_by if _may_be_in_no_file(row, vocabulary) else None


def _may_be_in_no_file(row: Row, vocabulary: Vocabulary) -> bool:
    """Whether no file needs to differ after the change."""
    where = vocabulary.kind(kind(row)).elsewhere
    return where == "always" or (where == "in a step" and row.planted_during == "step")


def expected(row: Row, vocabulary: Vocabulary) -> str:
    """Return the class that the corruption of a planted change must have.

    Without checksums of cached pages, only what checks itself can be classified. If recovery failed, nothing
    can. What recovery has put right, or is in no file, is none.
    """
    if row.corruption == "none" and _may_be_in_no_file(row, vocabulary):
        return "none"
    changed = vocabulary.kind(kind(row))
    told_apart = row.recovered and (changed.checks_itself or row.checksummed)
    return changed.found_as if told_apart else "unclassified"


def planted(row: Row) -> bool:
    """Whether a change was planted in this trial."""
    return judged(row) and row.planted is not None


def powerless(row: Row) -> bool:
    """Whether the crash was followed by a loss of power, and the trial was judged."""
    return judged(row) and row.restart in LOSSES_OF_POWER


def control_warnings(results: Results) -> list[str]:
    """Return the warnings that qualify every number about faults."""
    return [
        *failed_controls(results.trials, results.campaign.vocabulary),
        *missing_controls(results),
        *_two_ways(results.trials),
    ]


def _two_ways(rows: Sequence[Row]) -> Iterator[str]:
    for differ, what in (
        (how_many(row for row in rows if row.restarts_differ), "parked stage 0 and a reset recovered"),
        (how_many(row for row in rows if row.checks_differ), "host's check and the guest's judged"),
    ):
        if differ:
            yield f"The {what} {differ} crashes differently: no number counts."


def differing(row: Row) -> str:
    """Say which two ways to treat one crash gave different results, so that no row counts; or empty."""
    if row.restarts_differ:
        return "the parked stage 0 and a reset recovered one crash differently"
    return "the host's check and the guest's judged one crash differently" if row.checks_differ else ""


def tells(row: Row, vocabulary: Vocabulary) -> bool:
    """Whether this row can show a failed control; a planted change cannot if the mode loses data anyway."""
    sound = judged(row) and row.fault_class in _SOUND
    return sound or (planted(row) and row.mode not in vocabulary.losing)


def failed_controls(rows: Iterable[Row], vocabulary: Vocabulary) -> list[str]:
    """Return a sentence for each control that failed in a mode."""
    rows = [row for row in rows if tells(row, vocabulary)]
    modes = dict.fromkeys(row.mode for row in rows)
    return [
        printable(f"Control failed in mode {mode}: {sentence}.")
        for mode in modes
        for sentence in _failures([row for row in rows if row.mode == mode], vocabulary)
    ]


def must_lose(row: Row, vocabulary: Vocabulary) -> bool:
    """Whether a file must be wrong after a crash like that of this run, with a fault or without one."""
    return vocabulary.must_lose or (row.mode in vocabulary.losing and row.promise != "synced")


def deceives(row: Row, vocabulary: Vocabulary) -> str:
    """Say how this control shows that files are judged wrongly; empty if it does not.

    What else can fail in a control (a checksum, the class of a corruption) does not change whether a file is
    found to differ. Where a file has to be lost, one run says nothing: only all of them do.
    """
    if not tells(row, vocabulary) or must_lose(row, vocabulary):
        return ""
    if row.fault_class in _SOUND:
        return "" if row.corruption == "none" else "a file differs without a fault"
    return "" if found_by(row, vocabulary) else f"a planted change ({kind(row)}) was not found"


def _failures(rows: list[Row], vocabulary: Vocabulary) -> Iterator[str]:
    loses = any(must_lose(row, vocabulary) for row in rows)
    for name, ends in _SOUND.items():
        if name == "none" and any(row.restart in LOSSES_OF_POWER for row in rows):
            ends = "losses of power without a fault"
        yield from _sound_failures(loses, [row for row in rows if row.fault_class == name], ends)
    boots = [row for row in rows if row.production is not None]
    if down := how_many(row for row in boots if not row.production):
        yield f"the production kernel did not come up after {down} of {how_many(boots)} recoveries"
    changed = [row for row in rows if row.fault_class == "planted"]
    found = [row for row in changed if found_by(row, vocabulary)]
    if missed := how_many(changed) - how_many(found):
        yield f"{missed} of {how_many(changed)} planted changes were not found"
    if wrong := how_many(row for row in found if row.corruption != expected(row, vocabulary)):
        yield f"{wrong} of {how_many(found)} planted changes were found but wrongly classed"


def on_request(row: Row) -> bool:
    """Whether the harness brought this sound kernel down."""
    if row.outcome != "crash":
        return row.outcome == "survived"
    return row.panic_by is not None if row.fault_class == "panic" else row.crash_kind == "reset"


def lost_something(row: Row) -> bool:
    """Whether a file is wrong, or newest steps are not there that were promised."""
    return row.corruption != "none" or (row.lost_steps and row.promise != "synced")


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
    vocabulary = results.campaign.vocabulary
    ran = {(row.fault_class, row.mode) for row in results.trials if tells(row, vocabulary)}
    faulty = dict.fromkeys(
        row.mode for row in results.trials if is_counted_crash(row) and row.fault_class not in CONTROLS
    )
    missing = {
        "none": [mode for mode in faulty if ("none", mode) not in ran],
        "planted": [
            mode
            for mode in faulty
            if plants and mode not in vocabulary.losing and ("planted", mode) not in ran
        ],
    }
    said = [
        f"class {name} in {'mode' if len(modes) == 1 else 'modes'} {', '.join(modes)}"
        for name, modes in missing.items()
        if modes
    ]
    return [printable(f"Controls that have not run: {'; '.join(said)}.")] if said else []


def control_rates(spec: Mapping[str, Any]) -> dict[str, float]:
    """Return the controls that a stored spec adds to its classes, with their number per wanted crash."""
    controls = spec.get("controls")
    rates = controls.items() if isinstance(controls, dict) else ()
    return {str(name): rate for name, rate in rates if isinstance(rate, int | float) and rate}
