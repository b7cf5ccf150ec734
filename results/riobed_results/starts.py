# SPDX-License-Identifier: Apache-2.0
"""Does it matter that most trials start from a snapshot? Those that began with a boot beside them."""

from riobed_results.by_mode import Design, Value
from riobed_results.comparison import shares_p
from riobed_results.controls import CONTROLS
from riobed_results.models import TrialRow

# The phase of a restore after which memory was compared with the snapshot's (riobed.trial).
_CHECKED = "restore_checked"


def _share(rows: list[TrialRow]) -> tuple[int, int]:
    return sum(row.outcome == "crash" for row in rows), len(rows)


def _lines(rows: list[TrialRow]) -> dict[str, Value]:
    restored = [row for row in rows if not row.fresh_boot]
    booted = [row for row in rows if row.fresh_boot]
    p = shares_p(_share(restored), _share(booted))
    return {
        "From the snapshot": len(restored),
        "Memory compared with the snapshot's": sum(_CHECKED in row.phases for row in restored),
        "From the snapshot: crashed": _share(restored)[0],
        "From power-on": len(booted),
        "From power-on: crashed": _share(booted)[0],
        "Crashed, Fisher's p": None if p is None else round(p, 3),
    }


STARTS = Design(
    name="starts",
    title="Starts of trials",
    note="Trials with faults that crashed or were discarded, by where they started: from the snapshot of a "
    "booted guest, or from power-on, drawn at random. Compared: the hash of the restored memory was that of "
    "the memory when the snapshot was taken; if it is not, the trial is an infra error. Fisher's exact test "
    "says whether the shares that crashed differ.",
    wants=lambda row: row.outcome in ("crash", "discard") and row.fault_class not in CONTROLS,
    lines=_lines,
)
