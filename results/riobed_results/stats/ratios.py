# SPDX-License-Identifier: Apache-2.0
"""The median of ratios, with an interval by bootstrap or by order statistics."""

import random
import statistics

from pydantic import BaseModel

from riobed_results.stats.proportions import CONFIDENCE

RESAMPLES = 2000
FEWEST = 6  # ratios for a 95 % interval; with fewer, it is the range from smallest to largest


class Ratio(BaseModel):
    """The median of `n` ratios with its interval."""

    n: int
    median: float
    low: float
    high: float


def bootstrap_interval(values: list[float]) -> Ratio:
    """Return the median with its percentile bootstrap interval; the result is deterministic.

    For fewer than `FEWEST` values the interval is their range. It contains the median with probability
    1 - 2^(1 - n), which is less than 0.95 (order statistics: Conover, Practical Nonparametric Statistics,
    confidence intervals of quantiles).
    """
    median = statistics.median(values)
    if len(values) < FEWEST:
        return Ratio(n=len(values), median=median, low=min(values), high=max(values))
    rng = random.Random(0)
    medians = sorted(statistics.median(rng.choices(values, k=len(values))) for _ in range(RESAMPLES))
    tail = round(RESAMPLES * (1 - CONFIDENCE) / 2)
    return Ratio(n=len(values), median=median, low=medians[tail], high=medians[RESAMPLES - 1 - tail])


def order_interval(values: list[float]) -> Ratio:
    """Return the median with its 95 % interval; of fewer than FEWEST values from the smallest to the largest.

    The interval is exact whatever the distribution: it ends at order statistics.
    """
    from scipy.stats import quantile_test  # the import takes a second

    median = statistics.median(values)
    if len(values) < FEWEST:
        return Ratio(n=len(values), median=median, low=min(values), high=max(values))
    found = quantile_test(values, q=median, p=0.5).confidence_interval(CONFIDENCE)
    return Ratio(n=len(values), median=median, low=float(found.low), high=float(found.high))
