# SPDX-License-Identifier: Apache-2.0
"""Bit flips in the kernel's data. The guest draws the place, from a seed drawn here."""

from __future__ import annotations

import random
from functools import partial

from riobed.faults.base import Fault, FaultClass, check_count
from riobed.faults.parameters import MOST
from riobed.faults.sites.catalogue import Catalogue

WATCHED = 4  # debug registers of a processor: the number of flips whose activation can be observed


def draw(name: str, catalogue: Catalogue, rng: random.Random, count: int) -> list[Fault]:
    """Draw a 32-bit seed for each of `count` flips. Activation is observed for the first WATCHED."""
    check_count(name, count, MOST)
    return [
        Fault(index, name, probe=index < WATCHED, params={"seed": rng.getrandbits(32)})
        for index in range(count)
    ]


def flip_class(name: str, word: str, summary: str) -> FaultClass:
    """Return the class of flips whose injector command begins with `word`."""
    return FaultClass(
        name=name,
        category="bit flips",
        summary=summary,
        draw=partial(draw, name),
        command=lambda fault: f"{word} {fault.index} {fault.params['seed']}",
    )


# Both: the paper, section 3.1, first category.
KERNEL_HEAP = flip_class("kernel_heap", "heap", "one random bit of an allocated object flips")
KERNEL_STACK = flip_class("kernel_stack", "stack", "one random bit of a kernel stack in use flips")
