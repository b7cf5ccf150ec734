# SPDX-License-Identifier: Apache-2.0
"""Compare trials that started from a snapshot with trials that started with a boot."""

from collections.abc import Callable, Sequence

from riobed_results.stats.strata import Stratum, exact_p
from riobed_results.store import CONTROLS, Row, Vocabulary, crashed, how_many
from riobed_results.tables.framework.by_mode import ModeCounts, Value


def _crashed(rows: Sequence[Row]) -> int:
    return how_many(filter(crashed, rows))


def difference_p(
    rows: Sequence[Row],
    group: Callable[[Row], bool] = lambda row: row.fresh_boot,
    event: Callable[[Row], bool] = crashed,
) -> float | None:
    """Return the exact p-value within fault classes (`exact_p`), two-sided: does the group matter?

    It is within fault classes, because classes that crash rarely have more trials, and so more of a drawn
    group. None if no class has trials in and outside of the group, with and without the event.
    """
    by_class: dict[str, list[int]] = {}
    for row in rows:
        counts, at = by_class.setdefault(row.fault_class, [0, 0, 0, 0]), 0 if group(row) else 2
        counts[at] += row.weight * event(row)
        counts[at + 1] += row.weight
    return exact_p([Stratum(*counts) for counts in by_class.values()])


def _lines(rows: Sequence[Row], _: Vocabulary) -> dict[str, Value]:
    restored = [row for row in rows if not row.fresh_boot]
    booted = [row for row in rows if row.fresh_boot]
    p = difference_p(rows)
    return {
        "From the snapshot": how_many(restored),
        "Memory compared with the snapshot's": how_many(row for row in restored if row.restore_checked),
        "From the snapshot: crashed": _crashed(restored),
        "From power-on": how_many(booted),
        "From power-on: crashed": _crashed(booted),
        "Crashed, within fault classes: p": None if p is None else round(p, 3),
    }


_NOTE = "by where they started: from the snapshot of a booted guest, or from power-on, drawn at random."
STARTS = ModeCounts(
    name="starts",
    title="Starts of trials",
    help="Whether trials that begin with a boot end as those from a snapshot.",
    section="corruptions",
    about_faults=True,
    note=f"Trials with faults, {_NOTE}",
    old_note=f"Trials with faults that crashed or were discarded, {_NOTE}",
    legend={
        "Memory compared": "the hash of the restored memory was that of the memory when the snapshot was "
        "taken; if it is not, the trial is an infra error.",
        "p": "of the exact conditional test, two-sided, of whether the shares that crashed differ within "
        "fault classes; -: no class has both.",
    },
    wants=lambda row: row.outcome != "infra_error" and row.fault_class not in CONTROLS,
    lines=_lines,
    needs=lambda row: row.fresh_boot,
)
