# SPDX-License-Identifier: Apache-2.0
"""The share of crashes that corrupted something, and how long a machine lasts until one does."""

from pydantic import BaseModel

from riobed_results.store import Counts

CONFIDENCE = 0.95
# "A somewhat pessimistic estimate for production-quality operating systems": the paper, section 3.3.
YEARS_BETWEEN_CRASHES = 2 / 12
UNKNOWN = "-"  # in the place of what rests on no crash at all


class Share(BaseModel):
    """A share, as of crashes that corrupted something, with its interval; None where nothing was counted."""

    share: float | None = None
    low: float | None = None
    high: float | None = None


class MeanTime(BaseModel):
    """Mean years to a corruption, and its interval; None: without end, or nothing is known."""

    years: float | None = None
    low: float | None = None
    high: float | None = None


def corrupted_share(counts: Counts) -> Share:
    """Return corrupted / crashes with its exact interval."""
    return share_of(counts.corrupted, counts.crashes)


def share_of(count: int, total: int) -> Share:
    """Return count / total with its exact interval (Clopper and Pearson, Biometrika 26, 1934)."""
    if not total:
        return Share()
    from scipy.stats import binomtest  # a second to import, and `riobed --help` should not pay it

    interval = binomtest(count, total).proportion_ci(confidence_level=CONFIDENCE, method="exact")
    return Share(share=count / total, low=float(interval.low), high=float(interval.high))


def mean_time(share: Share) -> MeanTime:
    """Return the mean time to a corruption of a machine that crashes every two months.

    As in section 3.3 of the paper: the time between crashes over the share of them that corrupt. The ends
    of the interval are those of the share, changed about.
    """
    return MeanTime(years=_years(share.share), low=_years(share.high), high=_years(share.low))


def _years(share: float | None) -> float | None:
    return YEARS_BETWEEN_CRASHES / share if share else None


def total_text(counts: Counts) -> str:
    """Return `n of N (p %)` over crashes, without the percentage if there was no crash."""
    return count_text(counts.corrupted, counts.crashes)


def count_text(count: int, total: int) -> str:
    """Return `n of N (p %)`, without the percentage if N is 0."""
    return f"{count} of {total}" + (f" ({percent(count, total)})" if total else "")


def percent(part: int, whole: int) -> str:
    """Return `p %`, with a digit after the point so that shares of one whole make 100; - of nothing."""
    return f"{part / whole:.1%}".replace("%", " %") if whole else UNKNOWN


def interval_text(share: Share) -> str:
    """Return an interval in per cent, e.g. `0.5 to 2.2 %`."""
    if share.low is None or share.high is None:
        return UNKNOWN
    return f"{share.low * 100:.1f} to {share.high * 100:.1f} %"


def mean_time_text(time: MeanTime) -> str:
    """Return years with their interval, e.g. `15 (8 to 38)`; only its end if no crash corrupted anything."""
    if time.low is None:
        return UNKNOWN
    if time.years is None:
        return f"more than {_years_text(time.low)}"
    low, high = (UNKNOWN if end is None else _years_text(end) for end in (time.low, time.high))
    return f"{_years_text(time.years)} ({low} to {high})"


def _years_text(years: float) -> str:
    return f"{years:.0f}" if years >= 10 else f"{years:.1f}"
