# SPDX-License-Identifier: Apache-2.0
"""The numbers that a fault class draws from. A spec may set them; the defaults are the paper's."""

from __future__ import annotations

import random
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

MOST = 1024  # faults: the largest batch the injector module takes (INJECT_MAX in inject.h)


class Parameters(BaseModel):
    """Base of the parameters of each class."""

    model_config = ConfigDict(extra="forbid", frozen=True)


Number = TypeVar("Number", int, float)


def _ascending(bounds: tuple[Number, Number]) -> tuple[Number, Number]:
    if bounds[0] > bounds[1]:
        raise ValueError("the first number must not be larger than the second")
    return bounds


# Smallest and largest number to draw. The injector module has its limits in parse.h.
_Call = Annotated[int, Field(ge=1, le=1_000_000_000)]
_Milliseconds = Annotated[int, Field(ge=0, le=60_000)]
_Seconds = Annotated[float, Field(ge=0.001, le=3600)]
_Bytes = Annotated[int, Field(ge=1, le=1_048_576)]
Calls = Annotated[tuple[_Call, _Call], AfterValidator(_ascending)]
Seconds = Annotated[tuple[_Seconds, _Seconds], AfterValidator(_ascending)]
Milliseconds = Annotated[tuple[_Milliseconds, _Milliseconds], AfterValidator(_ascending)]
Bytes = Annotated[tuple[_Bytes, _Bytes], AfterValidator(_ascending)]

# The paper, section 3.1, of malloc and of bcopy: "every 1000-4000 times it is called".
EVERY: Calls = (1000, 4000)


class SpacedParameters(Parameters):
    """How far a fault is from the previous one: `seconds` of the guest if they are given, else `calls`.

    With seconds, the fault is at the first call after them.
    """

    calls: Calls = EVERY
    seconds: Seconds | None = None

    def draw_spacing(self, rng: random.Random) -> dict[str, int | str]:
        """Draw the distance of one fault: `calls`, or `wait_ms` in milliseconds."""
        if self.seconds is None:
            return {"calls": draw_from(rng, self.calls)}
        return {"wait_ms": round(1000 * rng.uniform(*self.seconds))}


def spacing(params: dict[str, int | str]) -> str:
    """Return the word CALLS of the injector's command for a fault with these params."""
    return f"{params['wait_ms']}ms" if "wait_ms" in params else str(params["calls"])


def draw_from(rng: random.Random, bounds: tuple[int, int]) -> int:
    """Return a number drawn uniformly between the bounds, both included."""
    return rng.randint(*bounds)
