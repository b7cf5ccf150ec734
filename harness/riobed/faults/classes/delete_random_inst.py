# SPDX-License-Identifier: Apache-2.0
"""Class `delete_random_inst`: any instruction is deleted (the paper, section 3.1, second category).

"We also delete random instructions (both branch and non-branch)." Instructions that do nothing on this
machine are excluded, because deleting them is no fault: no-operations, and the landing pads of indirect
branches (`endbr64` is a no-operation without CET).
"""

from __future__ import annotations

from collections.abc import Iterator

from riobed.faults.sites.flow import Function
from riobed.faults.sites.nops import deleted
from riobed.faults.sites.rule import Site, TextRule

_NOTHING = frozenset({"nop", "endbr64", "endbr32"})


def find(function: Function) -> Iterator[Site]:
    """Every instruction that does something."""
    for instruction in function.instructions:
        if instruction.mnemonic not in _NOTHING:
            yield Site(instruction, "an instruction like any other")


DELETE_RANDOM_INST = TextRule(
    name="delete_random_inst",
    category="low-level software",
    summary="an instruction, branch or not, is gone",
    find=find,
    changes=deleted,
)
