# SPDX-License-Identifier: Apache-2.0
"""Two proportions of paired runs compared within strata, each stratum with the same weight."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from riobed_results.stats.strata import Difference, inverted


@dataclass(frozen=True)
class PairedStrata:
    """Pairs by stratum: of `pairs`, in `only_first` and `only_other` one of the two has a hit.

    Each is an array-like whose last axis are the strata; no stratum may be empty.
    """

    only_first: Any
    only_other: Any
    pairs: Any


def paired_score(strata: PairedStrata, delta: float) -> Any:
    """Return the standard normal statistic of the hypothesis that the first share is `delta` more.

    The difference is the mean over the strata, and the sign is that of what was seen minus `delta`. The
    variance of a stratum is that of the likeliest proportions with this difference (Tango, Statistics in
    Medicine 17, 1998, pages 891 to 908). With one stratum and `delta` 0 this is McNemar's statistic. It is
    infinite where nothing varies, and has the axes of the strata but the last.
    """
    import numpy as np

    first, other, pairs = _arrays(strata)
    excess = ((first - other) / pairs - delta).sum(axis=-1)
    spread = np.sqrt((_variance(first, other, pairs, delta) / pairs).sum(axis=-1))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(spread > 0, excess / spread, np.where(excess == 0, 0.0, np.sign(excess) * np.inf))


def paired_difference(strata: PairedStrata, confidence: float) -> Difference:
    """Return the mean difference with the interval that `paired_score` gives, two-sided."""
    first, other, pairs = _arrays(strata)
    estimate = float(((first - other) / pairs).mean())
    return inverted(lambda delta: float(paired_score(strata, delta)), estimate, confidence)


def _arrays(strata: PairedStrata) -> Sequence[Any]:
    import numpy as np

    return [np.asarray(each, dtype=float) for each in (strata.only_first, strata.only_other, strata.pairs)]


def _variance(first: Any, other: Any, pairs: Any, delta: float) -> Any:
    """Return the variance of a pair's difference; `share` is that of hits of the other alone."""
    import numpy as np

    linear = (2 * pairs - first + other) * delta - first - other
    constant = other * delta * (1 - delta)
    root = np.sqrt(np.maximum(linear * linear + 8 * pairs * constant, 0.0))
    share = np.maximum((root - linear) / (4 * pairs), max(0.0, -delta))
    return np.maximum(2 * share + delta * (1 - delta), 0.0)
