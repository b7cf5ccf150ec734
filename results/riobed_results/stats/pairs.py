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


@dataclass(frozen=True)
class RoundMeans:
    """A difference of shares by rounds: its estimate, and the standard error with `freedom` degrees."""

    estimate: float
    error: float
    freedom: int

    def p(self, delta: float) -> float:
        """Return the p-value of a difference smaller than `delta`, one-sided, by Student's t."""
        from scipy.special import stdtr

        excess = self.estimate - delta
        return float(stdtr(self.freedom, excess / self.error)) if self.error else float(excess >= 0)

    def difference(self, confidence: float) -> Difference:
        """Return the difference with its interval, two-sided."""
        from scipy.special import stdtrit

        half = float(stdtrit(self.freedom, (1 + confidence) / 2)) * self.error
        low, high = max(-1.0, self.estimate - half), min(1.0, self.estimate + half)
        return Difference(estimate=self.estimate, low=low, high=high)


def round_means(differences: Any) -> RoundMeans:
    """Return the mean over strata of a pair's difference, where pairs of a round may depend on each other.

    `differences` has a line for each round, at least 2, and a column for each stratum: the first's hit minus
    the other's, NaN without a pair. Rounds are a sample of clusters. If each has a pair in each stratum, the
    variance of the estimate is that of the rounds' means, divided by the rounds (Cochran, Sampling
    Techniques, third edition, 1977, chapter 9). Else what a round adds to the estimate takes the place of its
    mean (Liang and Zeger, Biometrika 73, 1986, pages 13 to 22).
    """
    import numpy as np

    values = np.asarray(differences, dtype=float)
    rounds, strata = values.shape
    means = np.nanmean(values, axis=0)
    pairs = np.isfinite(values).sum(axis=0)
    added = np.nansum((values - means) / pairs, axis=1) / strata
    error = float(np.sqrt(rounds / (rounds - 1) * (added**2).sum()))
    return RoundMeans(estimate=float(means.mean()), error=error, freedom=rounds - 1)


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
