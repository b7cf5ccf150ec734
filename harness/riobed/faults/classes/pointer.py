# SPDX-License-Identifier: Apache-2.0
"""Class `pointer`: an address is not computed before it is used (the paper, section 3.1, third category).

"1) Finding a register that is used as a base register of a load or store and 2) deleting the most recent
instruction before the load/store that modifies that register. We do not corrupt the stack pointer register."
The search stays in the basic block of the load or store, so that the instruction is the most recent one on
every path. Calls are skipped, but the registers they may change count as modified by them. The instruction
qualifies if the register's value is its only result besides flags, so that only the pointer is wrong. Calls,
push, pop, string and exchange instructions do not qualify. rbp is a register like any other, because the
kernel is built without frame pointers. Where it is a frame pointer all the same, it was set from rsp, and
that instruction is excluded.
"""

from __future__ import annotations

from collections.abc import Iterator

from riobed.faults.sites.disassembly import Instruction
from riobed.faults.sites.effects import effects
from riobed.faults.sites.flow import CALLER_SAVED, Function, is_call, target
from riobed.faults.sites.nops import deleted
from riobed.faults.sites.rule import Site, TextRule

_STACK = frozenset({"push", "pop", "leave", "enter"})


def find(function: Function) -> Iterator[Site]:
    """Find every instruction that is the last to set the base register of a load or store."""
    for block in function.blocks:
        setters: dict[str, Instruction] = {}
        for instruction in block:
            if target(instruction) is None:
                does = effects(instruction.code)
                for base in sorted(does.bases & setters.keys()):
                    where = f"{instruction.text} at {instruction.address:#x}"
                    yield Site(setters[base], f"sets {base}, base register of {where}")
                for register in does.written:
                    setters.pop(register, None)
                if does.result and _deletable(instruction, does.result):
                    setters[does.result] = instruction
            if is_call(instruction.mnemonic):
                for register in CALLER_SAVED:
                    setters.pop(register, None)


def _deletable(instruction: Instruction, register: str) -> bool:
    if register == "rsp" or instruction.mnemonic in _STACK:
        return False
    return register != "rbp" or "rsp" not in instruction.operands


POINTER = TextRule(
    name="pointer",
    category="high-level software",
    summary="the base register of a load or store is not set",
    find=find,
    changes=deleted,
)
