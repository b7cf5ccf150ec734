# SPDX-License-Identifier: Apache-2.0
"""The median of ratios, with an interval by order statistics."""

import statistics

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
