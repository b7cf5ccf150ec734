# SPDX-License-Identifier: Apache-2.0
"""An anytime-valid test of two proportions: it may be looked at after every run, and stopped at any time.

The hypothesis is that in the mean over strata the first share is larger than the other by `margin` or more.
A block has one run of each of the two in each stratum; D is the first's hit minus the other's: -1, 0 or 1.
For a bet b from 0 to 1/(1 - margin), the product of 1 + b (margin - D) over all pairs of all blocks is an
e-process. In a block its expectation is the product of 1 + b (margin - d) over the strata, d being the true
differences, which is at most (1 + b (margin - mean d)) to the power of the strata (geometric against
arithmetic mean), so at most 1 under the hypothesis. That product is the expectation only if the strata of a
block are independent of each other: `dispersion` tells whether they are. Thus the probability that it ever
reaches 1/alpha is at most alpha (Ville, 1939). A mean of such products over several bets is one, too.

Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting", Journal of the Royal
Statistical Society B 86, 2024; Ramdas, Gruenwald, Vovk and Shafer, Statistical Science 38, 2023.
"""

from collections.abc import Sequence
from typing import Any

_BETS = 24
# Bets as fractions of the largest possible one. A small one is best for a share near the margin, a large one
# for a mode that never has a hit; evenly spread ones need about as many pairs as the best for either.
_FRACTIONS = tuple((step + 0.5) / _BETS for step in range(_BETS))
# A logarithm of evidence; beyond it a number says no more, and would overflow.
_LARGEST = 200.0


def e_values(only_first: Any, only_other: Any, equal: Any, margin: float) -> Any:
    """Return the evidence against the hypothesis: 1/alpha or more rejects it at the level alpha.

    The first three are the numbers of pairs with D = 1, -1 and 0, scalars or arrays of one shape, summed over
    all blocks so far; `margin` is from -1 to 1. The result has their shape.
    """
    import numpy as np

    bets = np.array(_FRACTIONS) / (1 - margin)
    logs = (
        np.multiply.outer(only_first, np.log1p(bets * (margin - 1)))
        + np.multiply.outer(only_other, np.log1p(bets * (margin + 1)))
        + np.multiply.outer(equal, np.log1p(bets * margin))
    )
    largest = np.max(logs, axis=-1, keepdims=True)
    means = np.squeeze(largest, axis=-1) + np.log(np.mean(np.exp(logs - largest), axis=-1))
    return np.exp(np.minimum(means, _LARGEST))


def dispersion(blocks: Sequence[Sequence[int]]) -> float | None:
    """Return the variance of the sums of blocks, divided by the sum of the variances of their strata.

    `blocks` has a number for each stratum, D or a hit, the strata in one order. It is 1 if the strata of a
    block are independent, give or take sqrt(2 / blocks), and larger if they have a cause in common. None if
    no number varies.
    """
    import numpy as np

    values = np.array(blocks, dtype=float)
    alone = values.var(axis=0).sum() if len(blocks) else 0.0
    return float(values.sum(axis=1).var() / alone) if alone else None
