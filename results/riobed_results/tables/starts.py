# SPDX-License-Identifier: Apache-2.0
"""Compare trials that started from a snapshot with trials that started with a boot."""

from riobed_results.store import TrialRow
from riobed_results.tables.by_mode import Design, Value
from riobed_results.tables.controls import CONTROLS


def _crashed(rows: list[TrialRow]) -> int:
    return sum(row.outcome == "crash" for row in rows)


def difference_p(rows: list[TrialRow]) -> float | None:
    """Return the p-value of the exact conditional test for 2x2xK tables (two-sided): does the start matter?

    The test is within fault classes, because classes that crash rarely have more trials, and so more from
    power-on. If the start does not matter, the number of a class's crashes that began with a boot is
    hypergeometric. The p-value adds all sums over the classes that are no likelier than the observed one.
    Agresti, Categorical Data Analysis, 1990, pages 230 to 235. None if no class has trials of both starts and
    of both outcomes.
    """
    import numpy as np
    from scipy.stats import hypergeom

    weights, seen = np.ones(1), 0
    for name in {row.fault_class for row in rows}:
        of_class = [row for row in rows if row.fault_class == name]
        booted = [row for row in of_class if row.fresh_boot]
        of_sum = hypergeom(len(of_class), len(booted), _crashed(of_class)).pmf(range(len(booted) + 1))
        weights = np.convolve(weights, of_sum)
        seen += _crashed(booted)
    if np.count_nonzero(weights) < 2:
        return None
    # Equal probabilities may differ in the last bits.
    return float(min(1.0, weights[weights <= weights[seen] * (1 + 1e-7)].sum()))


def _lines(rows: list[TrialRow]) -> dict[str, Value]:
    restored = [row for row in rows if not row.fresh_boot]
    booted = [row for row in rows if row.fresh_boot]
    p = difference_p(rows)
    return {
        "From the snapshot": len(restored),
        "Memory compared with the snapshot's": sum(row.restore_checked for row in restored),
        "From the snapshot: crashed": _crashed(restored),
        "From power-on": len(booted),
        "From power-on: crashed": _crashed(booted),
        "Crashed, within fault classes: p": None if p is None else round(p, 3),
    }


STARTS = Design(
    name="starts",
    title="Starts of trials",
    section="corruptions",
    about_faults=True,
    note="Trials with faults that crashed or were discarded, by where they started: from the snapshot of a "
    "booted guest, or from power-on, drawn at random. Compared: the hash of the restored memory was that of "
    "the memory when the snapshot was taken; if it is not, the trial is an infra error. p: exact conditional "
    "test, two-sided, of whether the shares that crashed differ within fault classes; - where no class has "
    "both.",
    wants=lambda row: row.outcome in ("crash", "discard") and row.fault_class not in CONTROLS,
    lines=_lines,
    needs=lambda row: row.fresh_boot,
)
