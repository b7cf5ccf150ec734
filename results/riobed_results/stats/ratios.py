# SPDX-License-Identifier: Apache-2.0
"""The median of ratios, with an interval by order statistics; and the ratio of the means of pairs."""

import math
import statistics
from collections.abc import Sequence

from pydantic import BaseModel

from riobed_results.stats.proportions import CONFIDENCE

FEWEST = 6  # ratios for a 95 % interval; with fewer, it is the range from smallest to largest


class Ratio(BaseModel):
    """The median of `n` ratios with its interval."""

    n: int
    median: float
    low: float
    high: float


def order_interval(values: list[float]) -> Ratio:
    """Return the median with its 95 % interval; of fewer than FEWEST values from the smallest to the largest.

    The interval is exact whatever the distribution: it ends at order statistics. That of fewer values
    contains the median with probability 1 - 2^(1 - n), which is less than 0.95 (Conover, Practical
    Nonparametric Statistics, confidence intervals of quantiles).
    """
    from scipy.stats import quantile_test  # the import takes a second

    median = statistics.median(values)
    if len(values) < FEWEST:
        return Ratio(n=len(values), median=median, low=min(values), high=max(values))
    found = quantile_test(values, q=median, p=0.5).confidence_interval(CONFIDENCE)
    return Ratio(n=len(values), median=median, low=float(found.low), high=float(found.high))


class MeanRatio(BaseModel):
    """The mean of the first numbers of `pairs` pairs divided by that of the second, with its 95 % interval.

    The ends are None where the interval has none: with one pair, or if the second mean may be 0.
    """

    pairs: int
    ratio: float
    low: float | None = None
    high: float | None = None


def ratio_of_means(pairs: Sequence[tuple[float, float]]) -> MeanRatio | None:
    """Return the ratio of the means of pairs of numbers that are not negative.

    It is defined where single ratios are not, because a second number is 0. The interval is that of Fieller,
    Journal of the Royal Statistical Society B 16, 1954, for paired means. None without a pair, or if the
    second mean is 0.
    """
    first, second = [x for x, _ in pairs], [y for _, y in pairs]
    if not any(second):
        return None
    mean, over = statistics.fmean(first), statistics.fmean(second)
    found = MeanRatio(pairs=len(pairs), ratio=mean / over)
    if len(pairs) < 2:
        return found
    from scipy.stats import t  # the import takes a second

    # The ratios r for which the mean of first - r second is not significantly different from 0.
    scale = float(t.ppf((1 + CONFIDENCE) / 2, len(pairs) - 1)) ** 2 / len(pairs)
    square = over**2 - scale * statistics.variance(second)
    linear = mean * over - scale * statistics.covariance(first, second)
    constant = mean**2 - scale * statistics.variance(first)
    if square <= 0:
        return found
    # Negative by rounding only.
    root = math.sqrt(max(linear**2 - square * constant, 0.0))
    low, high = (linear - root) / square, (linear + root) / square
    return found.model_copy(update={"low": max(low, 0.0), "high": high})
