# SPDX-License-Identifier: Apache-2.0
"""The numbers that a fault class draws from. A spec may set them; the defaults are the paper's."""

from __future__ import annotations

import random
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

MOST = 1024  # faults: the largest batch the injector module takes (INJECT_MAX in inject.h)


class Parameters(BaseModel):
    """Base of the parameters of each class."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _ascending(bounds: tuple[int, int]) -> tuple[int, int]:
    if bounds[0] > bounds[1]:
        raise ValueError("the first number must not be larger than the second")
    return bounds


# Smallest and largest number to draw. The injector module has its limits in parse.h.
_Call = Annotated[int, Field(ge=1, le=1_000_000_000)]
_Milliseconds = Annotated[int, Field(ge=0, le=60_000)]
_Bytes = Annotated[int, Field(ge=1, le=1_048_576)]
Calls = Annotated[tuple[_Call, _Call], AfterValidator(_ascending)]
Milliseconds = Annotated[tuple[_Milliseconds, _Milliseconds], AfterValidator(_ascending)]
Bytes = Annotated[tuple[_Bytes, _Bytes], AfterValidator(_ascending)]

# The paper, section 3.1, of malloc and of bcopy: "every 1000-4000 times it is called".
EVERY: Calls = (1000, 4000)


def draw_from(rng: random.Random, bounds: tuple[int, int]) -> int:
    """Return a number drawn uniformly between the bounds, both included."""
    return rng.randint(*bounds)
