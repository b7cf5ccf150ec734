# SPDX-License-Identifier: Apache-2.0
"""A proportion with its interval, and the mean time of a machine to a corruption."""

from pydantic import BaseModel

CONFIDENCE = 0.95
# "A somewhat pessimistic estimate for production-quality operating systems": the paper, section 3.3.
YEARS_BETWEEN_CRASHES = 2 / 12


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
