# SPDX-License-Identifier: Apache-2.0
"""Class `copy_overrun`: now and then a copy goes too far (the paper, section 3.1, third category)."""

from __future__ import annotations

import random

from riobed.faults.base import Fault, FaultClass, check_count
from riobed.faults.catalogue import Catalogue

NAME = "copy_overrun"

# Section 3.1: "every 1000-4000 times it is called"; 50 % one byte, 44 % 2-1024 bytes, 6 % 2-4 KB.
CALLS = (1000, 4000)
EXTRA = ((0.50, 1, 1), (0.44, 2, 1024), (0.06, 2048, 4096))  # share, least, greatest length in bytes
MOST = 1024  # entries; the injector module takes no larger batch


def draw(catalogue: Catalogue, rng: random.Random, count: int) -> list[Fault]:
    """Draw, for each of `count` overruns, the calls since the last one and the extra bytes."""
    check_count(NAME, count, MOST)
    faults = []
    for index in range(count):
        calls = rng.randint(*CALLS)
        faults.append(Fault(index, NAME, params={"calls": calls, "extra": _extra(rng.random(), rng)}))
    return faults


def _extra(share: float, rng: random.Random) -> int:
    for part, least, greatest in EXTRA:
        if share < part:
            return rng.randint(least, greatest)
        share -= part
    return EXTRA[-1][2]


def command(fault: Fault) -> str:
    """The injector's line for one overrun."""
    return f"copy_overrun {fault.index} {fault.params['calls']} {fault.params['extra']}"


COPY_OVERRUN = FaultClass(
    name=NAME,
    category="high-level software",
    summary="every 1000-4000 calls, memcpy, memmove or a user copy runs over its end",
    draw=draw,
    command=command,
)
