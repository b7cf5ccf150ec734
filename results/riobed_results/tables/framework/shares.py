# SPDX-License-Identifier: Apache-2.0
"""Shares of counted crashes, and how shares, times and p-values are written."""

from pydantic import BaseModel

from riobed_results.stats.proportions import MeanTime, Share, share_of
from riobed_results.stats.strata import Difference, Stratum
from riobed_results.store import CellCounts

UNKNOWN = "-"  # stands for a value without any crash behind it
DISPERSION = (
    "1, give or take the root of 2/rounds, if classes of a round are independent, and larger if they have a "
    "cause in common."
)


class CountedShare(BaseModel):
    """How many of `total` runs ended so, as a share with its exact interval."""

    count: int
    total: int
    share: Share


def corrupted_share(counts: CellCounts) -> Share:
    """Return the proportion corrupted / crashes with its exact interval."""
    return share_of(counts.corrupted, counts.crashes)


def side_by_side(first: CellCounts, second: CellCounts) -> Stratum:
    """Return two proportions of crashes with corruption, to be compared."""
    return Stratum(first.corrupted, first.crashes, second.corrupted, second.crashes)


def total_text(counts: CellCounts) -> str:
    """Return `n of N (p %)` over crashes, without the percentage if there was no crash."""
    return count_text(counts.corrupted, counts.crashes)


def count_text(count: int, total: int) -> str:
    """Return `n of N (p %)`, without the percentage if N is 0."""
    return f"{count} of {total}" + (f" ({percent(count, total)})" if total else "")


def percent(part: float, whole: float) -> str:
    """Return `p %` with one digit after the point, so proportions of a whole sum to 100; - if it is 0."""
    return f"{part / whole:.1%}".replace("%", " %") if whole else UNKNOWN


def interval_text(share: Share) -> str:
    """Return an interval in per cent, e.g. `0.5 to 2.2 %`."""
    if share.low is None or share.high is None:
        return UNKNOWN
    return f"{share.low * 100:.1f} to {share.high * 100:.1f} %"


def mean_time_text(time: MeanTime) -> str:
    """Return years with interval, e.g. `15 (8 to 38)`; only the lower end if no crash corrupted anything."""
    if time.low is None:
        return UNKNOWN
    if time.years is None:
        return f"more than {_years_text(time.low)}"
    low, high = (UNKNOWN if end is None else _years_text(end) for end in (time.low, time.high))
    return f"{_years_text(time.years)} ({low} to {high})"


def _years_text(years: float) -> str:
    return f"{years:.0f}" if years >= 10 else f"{years:.1f}"


def p_text(p: float | None) -> str:
    """Format a p-value with two significant digits; - for None."""
    return UNKNOWN if p is None else "< 0.0001" if p < 0.0001 else f"{p:.2f}" if p >= 0.1 else f"{p:.2g}"


def points_text(found: Difference) -> tuple[str, str]:
    """Return a difference of shares and its interval in percentage points: `+0.52` and `-0.91 to +1.95`."""
    low, estimate, high = (f"{100 * each:+.2f}" for each in (found.low, found.estimate, found.high))
    return estimate, f"{low} to {high}"


def dispersion_text(dispersion: float | None) -> str:
    """Format a dispersion with two digits after the point; - for None."""
    return UNKNOWN if dispersion is None else f"{dispersion:.2f}"
