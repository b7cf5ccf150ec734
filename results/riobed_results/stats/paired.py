# SPDX-License-Identifier: Apache-2.0
"""The difference of two proportions in pairs within strata, tested once at the end of a campaign."""

from typing import Any


def paired_z(only_first: Any, only_other: Any, pairs: Any, margin: float) -> Any:
    """Return how many standard errors the difference, first minus other, is below `margin`.

    The numbers are those of pairs with a hit in one of the two alone, and of all pairs, by stratum in the
    last axis; the result has their other axes. The difference is the mean of the strata's, so each weighs
    the same, and its variance follows from theirs (Fleiss, Levin and Paik, Statistical Methods for Rates and
    Proportions, 3rd edition, 13.1, for one stratum). Above the quantile of a standard normal number, the
    first is shown to be larger by less than `margin`. It is infinite where no pair differs.
    """
    import numpy as np

    first, other, runs = (np.asarray(each, dtype=float) for each in (only_first, only_other, pairs))
    means = (first - other) / runs
    variances = ((first + other) / runs - means**2) / (runs - 1)
    below = margin - means.mean(axis=-1)
    error = np.sqrt(variances.sum(axis=-1)) / means.shape[-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(error > 0, below / error, np.where(below > 0, np.inf, -np.inf))
