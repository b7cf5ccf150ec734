# SPDX-License-Identifier: Apache-2.0
"""Two proportions of paired runs compared within strata, each stratum with the same weight."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from riobed_results.stats.strata import Difference, inverted


@dataclass(frozen=True)
class PairedStratum:
    """The pairs of one fault class: of `pairs`, in `only_first` and `only_other` one of the two has a hit."""

    pairs: int
    only_first: int
    only_other: int


def paired_score(strata: Sequence[PairedStratum], delta: float) -> float:
    """Return the standard normal statistic of the hypothesis that the first share is `delta` more.

    The difference is the mean over the strata, and its sign is that of what was seen minus `delta`. The
    variance of a stratum is that of the likeliest proportions with this difference (Tango, Statistics in
    Medicine 17, 1998, pages 891 to 908). With one stratum and `delta` 0 this is McNemar's statistic. No
    stratum may be empty.
    """
    excess = sum((each.only_first - each.only_other) / each.pairs - delta for each in strata)
    spread = math.sqrt(sum(_variance(each, delta) / each.pairs for each in strata))
    if spread > 0:
        return excess / spread
    return math.copysign(math.inf, excess) if excess else 0.0


def paired_difference(strata: Sequence[PairedStratum], confidence: float) -> Difference:
    """Return the mean difference with the interval that `paired_score` gives, two-sided."""
    estimate = sum((each.only_first - each.only_other) / each.pairs for each in strata) / len(strata)
    return inverted(lambda delta: paired_score(strata, delta), estimate, confidence)


def _variance(each: PairedStratum, delta: float) -> float:
    """Return the variance of a pair's difference: twice the share of the other's hits, and of `delta`."""
    seen = each.only_first + each.only_other
    linear = (2 * each.pairs - each.only_first + each.only_other) * delta - seen
    constant = each.only_other * delta * (1 - delta)
    root = math.sqrt(max(linear * linear + 8 * each.pairs * constant, 0.0))
    other = max((root - linear) / (4 * each.pairs), 0.0, -delta)
    return max(2 * other + delta * (1 - delta), 0.0)
