# SPDX-License-Identifier: Apache-2.0
"""Class `delete_branch`: a conditional jump is never taken (the paper, section 3.1, second category)."""

from __future__ import annotations

from collections.abc import Iterator

from riobed.faults.sites.disassembly import CONDITIONAL_JUMPS
from riobed.faults.sites.flow import Function
from riobed.faults.sites.nops import deleted
from riobed.faults.sites.rule import Site, TextRule


def find(function: Function) -> Iterator[Site]:
    """Every conditional jump."""
    for instruction in function.instructions:
        if instruction.mnemonic in CONDITIONAL_JUMPS:
            yield Site(instruction, "a conditional jump")


DELETE_BRANCH = TextRule(
    name="delete_branch",
    category="low-level software",
    summary="a conditional jump falls through always",
    find=find,
    changes=deleted,
)
