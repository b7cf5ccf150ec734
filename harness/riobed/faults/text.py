# SPDX-License-Identifier: Apache-2.0
"""Class `kernel_text`: one random bit of the kernel's code flips (the paper, section 3.1, first category)."""

from __future__ import annotations

import random

from riobed.faults.base import Fault, FaultClass, check_count, text_command, text_fault
from riobed.faults.catalogue import Catalogue

NAME = "kernel_text"


def draw(catalogue: Catalogue, rng: random.Random, count: int) -> list[Fault]:
    """Flip one bit in each of `count` bytes drawn uniformly; no two in one instruction.

    The unit that is replaced is the instruction around the byte, so that its first execution can be seen.
    Raises UsageError if there are not so many sites.
    """
    check_count(NAME, count, catalogue.byte_count // 15)  # at worst all instructions have the greatest length
    faults: dict[int, Fault] = {}
    while len(faults) < count:
        byte = catalogue.byte_at(rng.randrange(catalogue.byte_count))
        bit = rng.randrange(8)
        address, old = catalogue.instruction_at(byte)
        if address in faults:
            continue
        new = bytearray(old)
        new[byte - address] ^= 1 << bit
        faults[address] = text_fault(catalogue, NAME, len(faults), address, bytes(new))
    return list(faults.values())


KERNEL_TEXT = FaultClass(
    name=NAME,
    category="bit flips",
    summary="one random bit of the kernel's code flips",
    draw=draw,
    command=text_command,
)
