# SPDX-License-Identifier: Apache-2.0
"""Pages of the file cache that were open to stores at a crash."""

import statistics

from riobed_results.store import TrialRow, counted
from riobed_results.tables.by_mode import Design, Value


def open_pages(rows: list[TrialRow]) -> list[int]:
    """Return the number of open pages of each counted crash of which it is known."""
    found = [row.recovery.open_pages for row in rows if row.recovery and counted(row)]
    return [number for number in found if number is not None]


def _lines(rows: list[TrialRow]) -> dict[str, Value]:
    pages = open_pages(rows)
    listed = [row.recovery.entries.entries - row.recovery.entries.free for row in rows if row.recovery]
    return {
        "Crashes": len(pages),
        "Open pages, mean": round(statistics.mean(pages), 2),
        "Open pages, median": float(statistics.median(pages)),
        "Open pages, largest number": max(pages),
        "Cached pages, median": float(statistics.median(listed)),
    }


WINDOWS = Design(
    name="windows",
    title="Open pages at a crash",
    section="corruptions",
    note="Counted crashes after which the registry says which cached pages were open: somebody was changing "
    "them, or had just done so. A stray store into an open page is not trapped. Only kernels that keep "
    "checksums say it, and they do so without protection, too. Cached: all pages that the registry listed.",
    wants=lambda row: row.outcome == "crash" and bool(open_pages([row])),
    lines=_lines,
)
