# SPDX-License-Identifier: Apache-2.0
"""Does it matter that most trials start from a snapshot? Those that began with a boot beside them."""

from riobed_results.by_mode import Design, Value
from riobed_results.controls import CONTROLS
from riobed_results.models import TrialRow

# The phase of a restore after which memory was compared with the snapshot's (riobed.trial).
_CHECKED = "restore_checked"


def _crashed(rows: list[TrialRow]) -> int:
    return sum(row.outcome == "crash" for row in rows)


def difference_p(rows: list[TrialRow]) -> float | None:
    """Return the p-value of the Cochran-Mantel-Haenszel test: do crashes depend on the start?

    Within fault classes, because classes that crash rarely have more trials, and so more from power-on.
    Mantel and Haenszel, J. Natl. Cancer Inst. 22, 1959, with continuity correction. None if no class has
    trials of both kinds and of both outcomes.
    """
    tables = []
    for name in {row.fault_class for row in rows}:
        starts = [
            [row for row in rows if row.fault_class == name and row.fresh_boot == fresh]
            for fresh in (False, True)
        ]
        table = [[_crashed(some), len(some) - _crashed(some)] for some in starts]
        if all(map(sum, table)) and all(map(sum, zip(*table, strict=True))):
            tables.append(table)
    if not tables:
        return None
    import numpy as np
    from statsmodels.stats.contingency_tables import StratifiedTable

    return float(
        StratifiedTable([np.array(table) for table in tables]).test_null_odds(correction=True).pvalue
    )


def _lines(rows: list[TrialRow]) -> dict[str, Value]:
    restored = [row for row in rows if not row.fresh_boot]
    booted = [row for row in rows if row.fresh_boot]
    p = difference_p(rows)
    return {
        "From the snapshot": len(restored),
        "Memory compared with the snapshot's": sum(_CHECKED in row.phases for row in restored),
        "From the snapshot: crashed": _crashed(restored),
        "From power-on": len(booted),
        "From power-on: crashed": _crashed(booted),
        "Crashed, within fault classes: p": None if p is None else round(p, 3),
    }


STARTS = Design(
    name="starts",
    title="Starts of trials",
    note="Trials with faults that crashed or were discarded, by where they started: from the snapshot of a "
    "booted guest, or from power-on, drawn at random. Compared: the hash of the restored memory was that of "
    "the memory when the snapshot was taken; if it is not, the trial is an infra error. The "
    "Cochran-Mantel-Haenszel test says whether the shares that crashed differ within fault classes; - where "
    "no class has both.",
    wants=lambda row: row.outcome in ("crash", "discard") and row.fault_class not in CONTROLS,
    lines=_lines,
    needs=lambda row: row.fresh_boot,
)
