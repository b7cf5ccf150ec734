# SPDX-License-Identifier: Apache-2.0
"""The controls of a campaign: an oracle that cannot fail, or that sees what is not there, proves nothing."""

from collections.abc import Iterable, Iterator

from riobed_results.models import TrialRow
from riobed_results.planted import PLANTED, expected
from riobed_results.render import printable

# Classes that inject nothing: rows of the table, but no part of its totals.
CONTROLS = frozenset({"none", "planted"})
# Here a reset without a fault must lose data: it had not been written yet.
LOSING_MODES = frozenset({"delayed"})


def failed_controls(rows: Iterable[TrialRow]) -> list[str]:
    """Return a sentence for each control that failed in a mode; none if none ran."""
    rows = [row for row in rows if row.outcome == "crash" and row.fault_class in CONTROLS]
    modes = dict.fromkeys(row.mode for row in rows)
    return [
        printable(f"Control failed in mode {mode}: {sentence}.")
        for mode in modes
        for sentence in _failures(mode, [row for row in rows if row.mode == mode])
    ]


def _failures(mode: str, rows: list[TrialRow]) -> Iterator[str]:
    resets = [row for row in rows if row.fault_class == "none"]
    lost = sum(row.corruption != "none" for row in resets)
    if mode in LOSING_MODES and resets and not lost:
        yield f"none of {len(resets)} resets without a fault lost anything, and data had not been written"
    if mode not in LOSING_MODES and lost:
        yield f"{lost} of {len(resets)} resets without a fault lost or changed a file"
    planted = [row for row in rows if PLANTED.wants(row)]
    found = [row for row in planted if row.corruption != "none"]
    if len(found) < len(planted):
        yield f"{len(planted) - len(found)} of {len(planted)} planted changes were not found"
    if wrong := sum(row.corruption != expected(row) for row in found):
        yield f"{wrong} of {len(found)} planted changes were found but wrongly classed"
