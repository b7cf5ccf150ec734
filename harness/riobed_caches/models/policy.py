# SPDX-License-Identifier: Apache-2.0
"""Policies of replacement: which block a memory gives up. A user adds one with a decorated function."""

from collections.abc import Callable
from typing import NamedTuple, cast

import numba
import numpy as np
from numba import types
from numba.core.errors import NumbaError

from riobed_caches.compiled import Int32s, Int64s, compiled
from riobed_caches.errors import TraceError


class View(NamedTuple):
    """What a policy sees of a full memory.

    `blocks` are those that the memory holds of one client, in no order but that the least recently accessed
    one is first. All else is by block, for those blocks. `came_in`, `last_access`, `last_write` and
    `next_access` are numbers of operations. The memory took the block in at `came_in`. A `last_write` of -1
    says that it was not written. A `next_access` of the number of operations says that it is not accessed
    again, or is deleted or invalidated before. The bytes from `begin` to before `end` are dirty.
    `now` is the number of the operation that needs room; `seed` is that of the run.
    """

    blocks: Int32s
    came_in: Int64s
    last_access: Int64s
    last_write: Int64s
    next_access: Int64s
    begin: Int32s
    end: Int32s
    now: int
    seed: int


Policy = Callable[[View], int]
POLICIES: dict[str, Policy] = {}

# Layout A: the arrays are columns of records.
_BYTES = types.Array(types.int32, 1, "A")
_NUMBERS = types.Array(types.int64, 1, "A")
_VIEW = types.NamedTuple(  # type: ignore[no-untyped-call]
    (_BYTES, *[_NUMBERS] * 4, _BYTES, _BYTES, types.int64, types.int64), View
)


def policy(name: str) -> Callable[[Policy], Policy]:
    """Decorate a function that takes a View and returns one of its `blocks`; POLICIES gets it as `name`.

    It is compiled to a C function, so that a model is compiled once for all policies. It must stand in a
    file, and must not raise: numba would print the error and go on. `unified` and `single` take it. Raises
    TraceError if the name is taken, or numba cannot compile it.
    """

    def decorate(function: Policy) -> Policy:
        if name in POLICIES:
            raise TraceError(f"policy {name}", "there is one of this name", "choose another name")
        try:
            made = cast(Policy, numba.cfunc(types.int64(_VIEW), cache=True)(function))
        except NumbaError as error:
            said = " ".join(str(error).split())[:200]
            raise TraceError(
                f"policy {name}", f"numba cannot compile it ({said})", "use plain loops"
            ) from None
        POLICIES[name] = made
        return made

    return decorate


@compiled
def _mixed(seed: int, number: int) -> np.uint64:
    """Return random number `number` of a seed: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014)."""
    mixed = np.uint64(seed) + np.uint64(number + 1) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


@policy("lru")
def lru(view: View) -> int:
    """Choose the block that was not accessed (read or written) for longest (000, 2.5)."""
    return int(view.blocks[0])


@policy("random")
def random(view: View) -> int:
    """Choose any block (000, 2.5). The same seed chooses the same blocks."""
    return int(view.blocks[_mixed(view.seed, view.now) % np.uint64(len(view.blocks))])
