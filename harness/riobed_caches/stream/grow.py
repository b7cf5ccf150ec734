# SPDX-License-Identifier: Apache-2.0
"""Arrays that grow while they are filled."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from riobed_caches.compiled import compiled

T = TypeVar("T", bound=np.generic)


@compiled
def grown(array: NDArray[T]) -> NDArray[T]:
    """Return an array of twice the length that begins with the same values."""
    out = np.empty(2 * array.size, array.dtype)
    out[: array.size] = array
    return out
