# SPDX-License-Identifier: Apache-2.0
"""The proportion of crashes with corruption, and the mean time of a machine to a corruption."""

from pydantic import BaseModel

from riobed_results.store import Counts

CONFIDENCE = 0.95
# "A somewhat pessimistic estimate for production-quality operating systems": the paper, section 3.3.
YEARS_BETWEEN_CRASHES = 2 / 12
UNKNOWN = "-"  # stands for a value without any crash behind it


class Share(BaseModel):
    """A proportion from 0 to 1 with its interval; None if nothing was counted."""

    share: float | None = None
    low: float | None = None
    high: float | None = None


class MeanTime(BaseModel):
    """The mean time to a corruption in years, with its interval; None if infinite or unknown."""

    years: float | None = None
    low: float | None = None
    high: float | None = None


def corrupted_share(counts: Counts) -> Share:
    """Return the proportion corrupted / crashes with its exact interval."""
    return share_of(counts.corrupted, counts.crashes)


def share_of(count: int, total: int) -> Share:
    """Return count / total with its exact interval (Clopper and Pearson, Biometrika 26, 1934)."""
    if not total:
        return Share()
    from scipy.stats import binomtest  # the import takes a second, which `riobed --help` should not pay

    interval = binomtest(count, total).proportion_ci(confidence_level=CONFIDENCE, method="exact")
    return Share(share=count / total, low=float(interval.low), high=float(interval.high))


def mean_time(share: Share) -> MeanTime:
    """Return the mean time to a corruption of a machine that crashes every two months.

    As in section 3.3 of the paper, it is the time between crashes divided by the proportion of crashes with
    corruption. The interval's ends come from those of the proportion, in reverse order.
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
