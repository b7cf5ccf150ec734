# SPDX-License-Identifier: Apache-2.0
"""Class `synchronization`: a lock is not acquired or not released at intervals (the paper, section 3.1)."""

from __future__ import annotations

import random

from riobed.faults.base import Fault, FaultClass, check_count
from riobed.faults.parameters import MOST, SpacedParameters, spacing
from riobed.faults.sites.catalogue import Catalogue

NAME = "synchronization"


class SynchronizationParameters(SpacedParameters):
    """Calls of lock procedures, or seconds, between two faults.

    The paper says "randomly" and gives no number; the default is its number for malloc and bcopy.
    """


_PAPER = SynchronizationParameters()


def draw(
    catalogue: Catalogue, rng: random.Random, count: int, parameters: SynchronizationParameters = _PAPER
) -> list[Fault]:
    """Draw the calls or the time before each of `count` skipped procedures."""
    check_count(NAME, count, MOST)
    return [Fault(index, NAME, params=parameters.draw_spacing(rng)) for index in range(count)]


def command(fault: Fault) -> str:
    """Return the injector line for one skipped procedure."""
    return f"{NAME} {fault.index} {spacing(fault.params)}"


SYNCHRONIZATION = FaultClass(
    name=NAME,
    category="high-level software",
    summary="now and then a procedure that takes or frees a lock returns without doing so",
    draw=draw,
    command=command,
    parameters=_PAPER,
    waits=True,
)
