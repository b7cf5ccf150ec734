# SPDX-License-Identifier: Apache-2.0
"""Class `kernel_text`: one random bit of the kernel's code flips (the paper, section 3.1, first category)."""

from __future__ import annotations

import random

from riobed.faults.base import Fault, FaultClass, Sites, check_count
from riobed.faults.classes.text import text_command, text_fault
from riobed.faults.sites.catalogue import Catalogue
from riobed.faults.sites.disassembly import LONGEST_INSTRUCTION

NAME = "kernel_text"


def draw(catalogue: Catalogue, rng: random.Random, count: int) -> list[Fault]:
    """Flip one bit in each of `count` bytes drawn uniformly, at most one per instruction.

    The whole instruction around the byte is replaced, so that its first execution can be observed.
    Raises UsageError if there are too few sites.
    """
    # In the worst case all instructions have the maximum length.
    check_count(NAME, count, catalogue.byte_count // LONGEST_INSTRUCTION, catalogue.scope)
    faults: dict[int, Fault] = {}
    while len(faults) < count:
        byte = catalogue.byte_at(rng.randrange(catalogue.byte_count))
        bit = rng.randrange(8)
        address, old = catalogue.instruction_at(byte)
        if address in faults:
            continue
        new = bytearray(old)
        new[byte - address] ^= 1 << bit
        why = f"bit {bit} of byte {byte - address} of an instruction"
        faults[address] = text_fault(catalogue, NAME, len(faults), address, bytes(new), why)
    return list(faults.values())


def sites(catalogue: Catalogue) -> Sites:
    """Count every byte; each has eight bits."""
    return Sites("bytes", catalogue.byte_count, catalogue.excluded_bytes)


KERNEL_TEXT = FaultClass(
    name=NAME,
    category="bit flips",
    summary="one random bit of the kernel's code flips",
    draw=draw,
    command=text_command,
    sites=sites,
)
