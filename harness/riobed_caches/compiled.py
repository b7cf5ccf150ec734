# SPDX-License-Identifier: Apache-2.0
"""Compiles loops over events with numba, and keeps the compiled code."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

F = TypeVar("F", bound=Callable[..., object])
Int8s = NDArray[np.int8]
Int16s = NDArray[np.int16]
Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def compiled(function: F) -> F:
    """Decorate a function of numbers and arrays; it is compiled at its first call, and kept.

    The compiled code is kept in $NUMBA_CACHE_DIR, which the command line sets to a folder of riobed's cache.
    """
    return cast(F, numba.njit(cache=True)(function))


def kernel(function: F) -> F:
    """As `compiled`, for functions that make no arrays: references to those they get are not counted.

    Counting them takes most of the time of a loop that calls such functions.
    """
    options: dict[str, Any] = {"cache": True, "_nrt": False, "forceinline": True}
    return cast(F, numba.njit(**options)(function))
