# SPDX-License-Identifier: Apache-2.0
"""Class `copy_overrun`: a copy runs too far at intervals (the paper, section 3.1, third category)."""

from __future__ import annotations

import random
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, Field

from riobed.faults.base import Fault, FaultClass, check_count
from riobed.faults.parameters import MOST, Bytes, SpacedParameters, draw_from, spacing
from riobed.faults.sites.catalogue import Catalogue

NAME = "copy_overrun"


class Extra(NamedTuple):
    """The share of overruns whose length lies between the two bounds (bytes)."""

    share: Annotated[float, Field(gt=0, le=1)]
    length: Bytes


def _complete(distribution: tuple[Extra, ...]) -> tuple[Extra, ...]:
    if abs(sum(extra.share for extra in distribution) - 1) > 1e-9:
        raise ValueError("the shares must add up to 1")
    return distribution


class CopyOverrunParameters(SpacedParameters):
    """Calls or seconds between two overruns, and the distribution of their lengths (section 3.1)."""

    extra: Annotated[tuple[Extra, ...], AfterValidator(_complete)] = (
        Extra(0.50, (1, 1)),
        Extra(0.44, (2, 1024)),
        Extra(0.06, (2048, 4096)),
    )


_PAPER = CopyOverrunParameters()


def draw(
    catalogue: Catalogue, rng: random.Random, count: int, parameters: CopyOverrunParameters = _PAPER
) -> list[Fault]:
    """Draw the calls or the time before each of `count` overruns, and its extra bytes."""
    check_count(NAME, count, MOST)
    faults = []
    for index in range(count):
        distance = parameters.draw_spacing(rng)
        extra = _extra(rng.random(), rng, parameters.extra)
        faults.append(Fault(index, NAME, params=distance | {"extra": extra}))
    return faults


def _extra(share: float, rng: random.Random, distribution: tuple[Extra, ...]) -> int:
    for extra in distribution:
        if share < extra.share:
            break
        share -= extra.share
    return draw_from(rng, extra.length)


def command(fault: Fault) -> str:
    """Return the injector line for one overrun."""
    return f"{NAME} {fault.index} {spacing(fault.params)} {fault.params['extra']}"


COPY_OVERRUN = FaultClass(
    name=NAME,
    category="high-level software",
    summary="every 1000-4000 calls, memcpy, memmove or a user copy runs over its end",
    draw=draw,
    command=command,
    parameters=_PAPER,
    needs="kprobe_allow_ksym",
    waits=True,
)
