# SPDX-License-Identifier: Apache-2.0
"""Pages of the file cache that were open to stores at a crash."""

import statistics
from collections.abc import Sequence

from riobed_results.store import Row, Vocabulary, is_counted_crash, numbers
from riobed_results.tables.framework.by_mode import ModeCounts, Value


def open_pages(rows: Sequence[Row]) -> list[int]:
    """Return the number of open pages of each counted crash of which it is known."""
    return numbers(filter(is_counted_crash, rows), "open_pages")


def _lines(rows: Sequence[Row], _: Vocabulary) -> dict[str, Value]:
    pages = open_pages(rows)
    listed = numbers(rows, "listed_pages")
    return {
        "Crashes, controls included": len(pages),
        "Open pages, mean": round(statistics.mean(pages), 2),
        "Open pages, median": float(statistics.median(pages)),
        "Open pages, largest number": max(pages),
        "Cached pages, median": float(statistics.median(listed)),
    }


WINDOWS = ModeCounts(
    name="windows",
    title="Open pages at a crash",
    help="How many cached pages were open to stores at a crash.",
    section="corruptions",
    note="Counted crashes after which the registry says which cached pages were open. Only kernels that keep "
    "checksums say it, and they do so without protection, too.",
    legend={
        "Open pages": "somebody was changing them, or had just done so. A stray store into one is not "
        "trapped.",
        "Cached pages": "all pages that the registry listed.",
    },
    wants=lambda row: is_counted_crash(row) and row.opens,
    lines=_lines,
    numbers=("open_pages", "listed_pages"),
)
