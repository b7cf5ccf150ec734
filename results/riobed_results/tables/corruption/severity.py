# SPDX-License-Identifier: Apache-2.0
"""Severity: how much a corruption cost, from one wrong byte to a whole file system."""

import statistics
from collections.abc import Callable, Sequence

from riobed_results.store import CONTROLS, Row, Vocabulary, how_many, is_counted_crash, judged, numbers
from riobed_results.tables.framework.by_mode import ModeCounts, Value

_GROUPS: dict[str, Callable[[Row], bool]] = {
    "Crashes": is_counted_crash,
    "Stuck, survived": lambda row: not is_counted_crash(row),
}


def weighed(row: Row) -> bool:
    """Whether this is a corruption by faults whose severity is known."""
    bad = judged(row) and row.corruption != "none" and row.fault_class not in CONTROLS
    return bad and row.total_loss is not None


def severity_lines(rows: Sequence[Row]) -> dict[str, Value]:
    """Return how much these corruptions cost; None where it could not be counted."""
    found: dict[str, Value] = {
        "Corruptions": how_many(rows),
        "Total losses": how_many(row for row in rows if row.total_loss),
    }
    for what, column in (("Files", "files_lost"), ("Bytes", "bytes_lost")):
        known = numbers(rows, column)
        found[f"{what} lost, median"] = round(statistics.median(known)) if known else None
        found[f"{what} lost, largest"] = max(known, default=None)
    return found


def _lines(rows: Sequence[Row], _: Vocabulary) -> dict[str, Value]:
    return {
        f"{group}: {name[0].lower()}{name[1:]}": value
        for group, belongs in _GROUPS.items()
        for name, value in severity_lines(list(filter(belongs, rows))).items()
    }


SEVERITY = ModeCounts(
    name="severity",
    title="Severity of corruptions",
    help="What corruptions cost in files and bytes, and how many were total losses.",
    section="corruptions",
    about_faults=True,
    note="Corruptions by faults.",
    legend={
        "Files, bytes lost": "of those that the workload's model has, not there or wrong after recovery; "
        "what is there too much is in neither.",
        "Total losses": "no file was right, or the file system could not be mounted. Files and "
        "bytes of the latter could not be counted, so they are in no median.",
    },
    wants=weighed,
    lines=_lines,
    numbers=("files_lost", "bytes_lost"),
)
