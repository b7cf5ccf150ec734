# SPDX-License-Identifier: Apache-2.0
"""Class `pointer`: an address is not computed before it is used (the paper, section 3.1, third category).

"1) Finding a register that is used as a base register of a load or store and 2) deleting the most recent
instruction before the load/store that modifies that register. We do not corrupt the stack pointer register."
The most recent one is searched in the basic block of the load or store, so that it is the most recent on
every way to it; calls are passed over, but what they may change counts as modified by them. It is deleted if
its value in that register is all it leaves behind besides flags, so that nothing but the pointer is wrong:
not if it is a call, push or pop, or a string or exchange instruction. rbp is a register like any other, the
kernel being built without frame pointers; where it is one all the same it was set from rsp, and that
instruction is left alone.
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
    """Every instruction that sets the base register of a load or store, and is the last to do so."""
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
