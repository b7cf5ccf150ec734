# SPDX-License-Identifier: Apache-2.0
"""Bit flips in the kernel's data. The guest draws the place, from a seed drawn here."""

from __future__ import annotations

import random
from functools import partial
from typing import Annotated, Literal

from pydantic import Field

from riobed.faults.base import Fault, FaultClass, check_count
from riobed.faults.parameters import MOST, Parameters
from riobed.faults.sites.catalogue import Catalogue

WATCHED = 4  # debug registers of a processor: the number of flips whose activation can be observed

HeapKind = Literal["slab", "page_table", "struct_page", "percpu", "vmalloc"]


class HeapParameters(Parameters):
    """The kinds of memory of the heap that flips hit, each as likely as any other.

    Without them a kind is hit the more often, the more bytes of it are in use.
    """

    kinds: Annotated[tuple[HeapKind, ...], Field(min_length=1)] | None = None


_ANY = HeapParameters()


def draw(
    name: str, catalogue: Catalogue, rng: random.Random, count: int, parameters: HeapParameters = _ANY
) -> list[Fault]:
    """Draw a 32-bit seed for each of `count` flips. Activation is observed for the first WATCHED."""
    check_count(name, count, MOST)
    faults = []
    for index in range(count):
        params: dict[str, int | str] = {"seed": rng.getrandbits(32)}
        if parameters.kinds:
            params["kind"] = rng.choice(parameters.kinds)
        faults.append(Fault(index, name, probe=index < WATCHED, params=params))
    return faults


def command(word: str, fault: Fault) -> str:
    """Return the injector line for one flip."""
    kind = f" {fault.params['kind']}" if "kind" in fault.params else ""
    return f"{word} {fault.index} {fault.params['seed']}{kind}"


# Both: the paper, section 3.1, first category.
KERNEL_HEAP = FaultClass(
    name="kernel_heap",
    category="bit flips",
    summary="one random bit of memory that the kernel has allocated flips",
    draw=partial(draw, "kernel_heap"),
    command=partial(command, "heap"),
    parameters=_ANY,
)
KERNEL_STACK = FaultClass(
    name="kernel_stack",
    category="bit flips",
    summary="one random bit of a kernel stack in use flips",
    draw=partial(draw, "kernel_stack"),
    command=partial(command, "stack"),
)
