# SPDX-License-Identifier: Apache-2.0
"""Class `allocation`: a block is freed too early at intervals (the paper, section 3.1, third category)."""

from __future__ import annotations

import random

from riobed.faults.base import Fault, FaultClass, check_count
from riobed.faults.parameters import MOST, Milliseconds, SpacedParameters, draw_from, spacing
from riobed.faults.sites.catalogue import Catalogue

NAME = "allocation"


class AllocationParameters(SpacedParameters):
    """Allocations or seconds between two faults, and milliseconds from the allocation to the free."""

    ms: Milliseconds = (0, 256)  # section 3.1: "sleeps 0-256 ms, then prematurely frees"


_PAPER = AllocationParameters()


def draw(
    catalogue: Catalogue, rng: random.Random, count: int, parameters: AllocationParameters = _PAPER
) -> list[Fault]:
    """Draw the allocations or the time before each of `count` early frees, and its delay in ms."""
    check_count(NAME, count, MOST)
    return [
        Fault(
            index,
            NAME,
            params=parameters.draw_spacing(rng) | {"ms": draw_from(rng, parameters.ms)},
        )
        for index in range(count)
    ]


def command(fault: Fault) -> str:
    """Return the injector line for one early free."""
    return f"{NAME} {fault.index} {spacing(fault.params)} {fault.params['ms']}"


ALLOCATION = FaultClass(
    name=NAME,
    category="high-level software",
    summary="every 1000-4000 allocations, the new block is freed after 0-256 ms",
    draw=draw,
    command=command,
    parameters=_PAPER,
    waits=True,
)
