# SPDX-License-Identifier: Apache-2.0
"""Two proportions compared within strata: a fault class that is hit harder in one mode misleads no total.

Nothing here knows rows: it takes counts, and no import of it takes time.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pydantic import BaseModel


@dataclass(frozen=True)
class Stratum:
    """One fault class in two modes: `hits` of `total` in the first, and in the other."""

    hits: int
    total: int
    other_hits: int
    other_total: int


class Difference(BaseModel):
    """A difference of proportions, first minus other, with its two-sided interval; all from -1 to 1."""

    estimate: float
    low: float
    high: float


def exact_p(strata: Sequence[Stratum]) -> float | None:
    """Return the p-value of the exact conditional test for 2x2xK tables, two-sided: do the two differ?

    If they do not, a stratum's hits of the first are hypergeometric, given its sums. The p-value adds all
    sums over the strata that are no likelier than the observed one. Agresti, Categorical Data Analysis, 1990,
    pages 230 to 235. None if no stratum has both modes, hits and misses.
    """
    import numpy as np
    from scipy.stats import hypergeom

    weights, seen = np.ones(1), 0
    for each in strata:
        runs, hits = each.total + each.other_total, each.hits + each.other_hits
        mean = each.total * hits / runs
        # What is further from the mean than this has a probability below 1e-30.
        reach = 12 * math.sqrt(mean * (1 - hits / runs)) + 40
        least = max(0, hits - each.other_total, math.floor(mean - reach))
        most = min(each.total, hits, math.ceil(mean + reach))
        # pmf() is the same, but slow: 0.03 s for each class of 60,000 runs.
        logarithms = hypergeom.logpmf(range(least, most + 1), runs, each.total, hits)
        weights = np.convolve(weights, np.exp(logarithms))
        seen += each.hits - least
    if len(weights) < 2:
        return None
    if not 0 <= seen < len(weights):
        return 0.0
    # Equal probabilities may differ in the last digits, and an exact 0.1875 is rounded up in a table.
    return float(f"{min(1.0, weights[weights <= weights[seen] * (1 + 1e-7)].sum()):.10g}")


def difference(strata: Sequence[Stratum], confidence: float) -> Difference | None:
    """Return the difference with its score interval, the strata weighted as by Mantel and Haenszel.

    The interval has every difference that the test `score` does not reject. None if no stratum has both.
    """
    both = [each for each in strata if each.total and each.other_total]
    if not both:
        return None
    weights = list(map(_weight, both))
    estimate = sum(
        weight * (each.hits / each.total - each.other_hits / each.other_total)
        for weight, each in zip(weights, both, strict=True)
    ) / sum(weights)
    return inverted(lambda delta: score(both, delta), estimate, confidence)


def inverted(statistic: Callable[[float], float], estimate: float, confidence: float) -> Difference:
    """Return the interval with every difference that a test does not reject.

    `statistic` is standard normal if the difference is its argument, falls as that grows, and is 0 at
    `estimate`. `confidence` is two-sided.
    """
    from scipy.stats import norm

    z = float(norm.ppf((1 + confidence) / 2))
    return Difference(
        estimate=estimate,
        low=_crossing(lambda delta: statistic(delta) - z, -1.0, estimate),
        high=_crossing(lambda delta: statistic(delta) + z, estimate, 1.0),
    )


def score(strata: Sequence[Stratum], delta: float) -> float:
    """Return the standard normal statistic of the hypothesis that the first is `delta` more than the other.

    Its sign is that of what was seen minus `delta`. Miettinen and Nurminen, Statistics in Medicine 4, 1985,
    pages 213 to 226: the variance is that of the likeliest proportions with this difference, times N/(N-1).
    """
    both = [each for each in strata if each.total and each.other_total]
    excess = sum(
        _weight(each) * (each.hits / each.total - each.other_hits / each.other_total - delta) for each in both
    )
    spread = math.sqrt(sum(_weight(each) ** 2 * _variance(each, delta) for each in both))
    if spread > 0:
        return excess / spread
    return math.copysign(math.inf, excess) if excess else 0.0


def _weight(each: Stratum) -> float:
    return each.total * each.other_total / (each.total + each.other_total)


def _variance(each: Stratum, delta: float) -> float:
    first, other = _likeliest(each, delta)
    runs = each.total + each.other_total
    sums = first * (1 - first) / each.total + other * (1 - other) / each.other_total
    return max(sums, 0.0) * runs / max(runs - 1, 1)


def _likeliest(each: Stratum, delta: float) -> tuple[float, float]:
    """Return the likeliest two proportions that differ by `delta`: a root of a cubic (the same, appendix)."""
    runs, hits = each.total + each.other_total, each.hits + each.other_hits
    square = (each.total + 2 * each.other_total) * delta - runs - hits
    linear = (each.other_total * delta - runs - 2 * each.other_hits) * delta + hits
    constant = each.other_hits * delta * (1 - delta)
    third = square / (3 * runs)
    q = third**3 - square * linear / (6 * runs**2) + constant / (2 * runs)
    p = math.copysign(math.sqrt(max(third**2 - linear / (3 * runs), 0.0)), q)
    # The quotient leaves -1 to 1 by rounding only, where a proportion is 0 or 1.
    angle = (math.pi + math.acos(min(max(q / p**3, -1.0), 1.0))) / 3 if p else 0.0
    other = min(max(2 * p * math.cos(angle) - third, 0.0, -delta), 1.0, 1.0 - delta)
    return other + delta, other


def _crossing(function: Callable[[float], float], low: float, high: float) -> float:
    """Return where a falling function crosses 0; an end of the range if it does not."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) > 0 else (low, middle)
    return (low + high) / 2


_HALVINGS = 50  # of a range of at most 2: to the last bits of a float
