# SPDX-License-Identifier: Apache-2.0
"""Class `delete_branch`: a conditional jump is never taken (the paper, section 3.1, second category)."""

from __future__ import annotations

import random

from riobed.faults.base import Fault, FaultClass, check_count, text_command, text_fault
from riobed.faults.catalogue import Catalogue

NAME = "delete_branch"

# The recommended no-operations of 1 to 9 bytes: Intel SDM volume 2, NOP, table 4-12.
NOPS = tuple(
    bytes.fromhex(code)
    for code in (
        "90",
        "6690",
        "0f1f00",
        "0f1f4000",
        "0f1f440000",
        "660f1f440000",
        "0f1f8000000000",
        "0f1f840000000000",
        "660f1f840000000000",
    )
)


def draw(catalogue: Catalogue, rng: random.Random, count: int) -> list[Fault]:
    """Replace `count` different conditional jumps, drawn uniformly, by one no-operation of the same length.

    Raises UsageError if there are not so many.
    """
    check_count(NAME, count, catalogue.branch_count)
    faults: dict[int, Fault] = {}
    while len(faults) < count:
        address, old = catalogue.instruction_at(catalogue.branch_at(rng.randrange(catalogue.branch_count)))
        if address not in faults:
            nop = NOPS[len(old) - 1]
            faults[address] = text_fault(catalogue, NAME, len(faults), address, nop)
    return list(faults.values())


DELETE_BRANCH = FaultClass(
    name=NAME,
    category="low-level software",
    summary="a conditional jump falls through always",
    draw=draw,
    command=text_command,
)
