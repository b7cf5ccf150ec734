# SPDX-License-Identifier: Apache-2.0
"""Claims of a campaign's controls: resets without a fault, resets in recovery, planted changes."""

from collections import Counter
from collections.abc import Iterator

from riobed_results.report.claims.claim import Claim, count, interval, part, slug
from riobed_results.store import Results, TrialRow, counted, cut_short, is_direct, stored_spec
from riobed_results.tables.controls import LOSING_MODES, expected
from riobed_results.tables.losses import NO_FAULT, PHASES, RECOVERY_CRASH, loss_lines
from riobed_results.tables.planted import PLANTED


def resets(results: Results) -> Iterator[Claim]:
    """Return the losses of resets without a fault, in total and by mode, but not of modes that lose data."""
    rows = list(filter(NO_FAULT.wants, results.rows))
    rows = [row for row in rows if row.crash_kind == "reset" and row.mode not in LOSING_MODES]
    if not rows:
        return
    machine = stored_spec(results.campaign).get("machine")
    vcpus = machine.get("vcpus", 1) if isinstance(machine, dict) else 1
    alarms = sum(row.corruption != "none" or bool(is_direct(row.recovery)) for row in rows)
    yield count("resets", len(rows), "reset without a fault", "resets without a fault")
    yield count(f"resets_{vcpus}_vcpu{'s' * (vcpus > 1)}", len(rows), "reset")
    yield part("false_positives", alarms, len(rows))
    yield from _lost("lost", rows)
    yield from _losses(rows)
    for mode in dict.fromkeys(row.mode for row in rows):
        of_mode = [row for row in rows if row.mode == mode]
        yield count(slug("resets", mode), len(of_mode), "reset")
        yield from _lost(slug("lost", mode), of_mode)


def _lost(key: str, rows: list[TrialRow]) -> Iterator[Claim]:
    lost = sum(row.corruption != "none" for row in rows)
    yield part(key, lost, len(rows))
    yield interval(f"{key}_interval", lost, len(rows))


def _losses(rows: list[TrialRow]) -> Iterator[Claim]:
    lines = loss_lines(rows)
    for key, line, noun, plural in (
        ("files_lost", "Files lost or changed", "file lost or changed", "files lost or changed"),
        ("mismatches", "Checksum mismatches", "checksum mismatch", "checksum mismatches"),
        ("rejected", "Registry entries rejected", "registry entry rejected", "registry entries rejected"),
    ):
        if (value := lines[line]) is not None:
            yield count(key, int(value), noun, plural)


def resets_in_recovery(results: Results) -> Iterator[Claim]:
    """Return which phases resets in recovery hit, and what they lost."""
    every = list(filter(RECOVERY_CRASH.wants, results.rows))
    if not every:
        return
    hit = list(filter(counted, every))
    phases = Counter(cut_short(row.recovery) for row in hit)
    late = len(every) - len(hit)
    yield count("recovery_trials", len(every), "trial")
    yield count("resets_in_recovery", len(hit), "reset in recovery", "resets in recovery")
    yield count("resets_after_recovery", late, "reset after its end", "resets after its end")
    yield part("restored", sum(row.corruption == "none" for row in hit), len(hit))
    yield from _lost("lost", hit)
    yield from _losses(hit)
    for mode, found in Counter(row.mode for row in hit).items():
        yield count(slug("resets_in_recovery", mode), found, f"in {mode}", f"in {mode}")
    for name in PHASES:
        yield Claim(key=slug("resets_in", name), value=phases[name], text=f"{name} {phases[name]}")


def planted(results: Results) -> Iterator[Claim]:
    """Return how many planted changes were found, and how many were classified correctly."""
    rows = list(filter(PLANTED.wants, results.rows))
    if not rows:
        return
    found = [row for row in rows if row.corruption != "none"]
    missed = len(rows) - len(found)
    yield count("planted", len(rows), "planted change")
    yield part("planted_found", len(found), len(rows))
    yield part("planted_classed", sum(row.corruption == expected(row) for row in found), len(rows))
    yield count("planted_missed", missed, "planted change missed", "planted changes missed")


CONTROL_SOURCES = (resets, resets_in_recovery, planted)
