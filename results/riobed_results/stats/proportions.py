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
    """Return count / total with its exact interval (Clopper and Pearson, Biometrika 26, 1934).

    Its ends are quantiles of beta distributions, as in statsmodels' proportion_confint(method="beta").
    """
    if not total:
        return Share()
    # scipy.stats.binomtest() finds the same by steps, 300 times as slowly, and takes a second to import.
    from scipy.special import betaincinv

    tail = (1 - CONFIDENCE) / 2
    low = float(betaincinv(count, total - count + 1, tail)) if count else 0.0
    high = float(betaincinv(count + 1, total - count, 1 - tail)) if count < total else 1.0
    return Share(share=count / total, low=low, high=high)


def mean_time(share: Share) -> MeanTime:
    """Return the mean time to a corruption of a machine that crashes every two months.

    As in section 3.3 of the paper, it is the time between crashes divided by the proportion of crashes with
    corruption. The interval's ends come from those of the proportion, in reverse order.
    """
    return MeanTime(years=_years(share.share), low=_years(share.high), high=_years(share.low))


def _years(share: float | None) -> float | None:
    return YEARS_BETWEEN_CRASHES / share if share else None
