# SPDX-License-Identifier: Apache-2.0
"""Class `initialization`: a local variable is not initialised (the paper, section 3.1, third category).

"We inject an initialization fault by deleting instructions responsible for initializing a variable at the
start of a procedure [Kao93, Lee93]." Here the start of a procedure is its first basic block up to the first
call: it runs exactly once, before anything else. A local variable lives on the stack or in a register, so
the instructions are:

- mov of a constant or a register to a stack slot (addressed by rsp, or by a register set from it);
- rep stos over an array on the stack;
- mov of a constant to a register, or its clearing by xor, if the register still holds it where the start
  ends, and is a variable there. Where a call ends the start, only registers that a call preserves are
  variables; the others are its arguments. Where a return or a tail call ends it, no register is.

Excluded are saved registers (push), the procedure's own parameters moved to other registers, the stack
pointer, and the stack protector's canary: every return detects its loss, which says nothing about variables.
A part of a procedure that the compiler moved elsewhere (.cold) has no start of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import Any

from capstone import x86

from riobed.faults.sites.disassembly import Instruction, details
from riobed.faults.sites.effects import effects, register_name
from riobed.faults.sites.flow import CALLER_SAVED, Function, ends_block, is_call, target
from riobed.faults.sites.nops import deleted
from riobed.faults.sites.rule import Site, TextRule

_CANARY = "gs:[0x28]"  # arch/x86/include/asm/stackprotector.h


def find(function: Function) -> Iterator[Site]:
    """Every instruction that initialises a local variable at the start of the procedure."""
    if ".cold" in function.name or not function.begins_with_a_block:
        return
    block = function.blocks[0]
    start = list(takewhile(lambda i: not is_call(i.mnemonic) and not ends_block(i.mnemonic), block))
    variables = _variables(function, block, start)
    known = _Known()
    for instruction in start:
        if why := known.initialised(instruction):
            yield Site(instruction, f"{why} at the start of the procedure")
        elif (register := _constant_in(instruction)) and variables.get(register) == instruction:
            yield Site(instruction, f"gives a constant to {register} at the start of the procedure")
        known.learn(instruction)


def _variables(
    function: Function, block: list[Instruction], start: list[Instruction]
) -> dict[str, Instruction]:
    """Return the registers that hold a variable at the end of the start, and what set each last."""
    setters: dict[str, Instruction] = {}
    for instruction in start:
        setters.update(dict.fromkeys(effects(instruction.code).written, instruction))
    if len(start) == len(block):
        return setters
    last = block[len(start)]
    if is_call(last.mnemonic):
        return {name: setter for name, setter in setters.items() if name not in CALLER_SAVED}
    to = target(last)
    return setters if to is not None and function.covers(to) else {}


class _Known:
    """Which registers hold the address of a stack slot, or the canary, at one point of the start."""

    def __init__(self) -> None:
        self._stack = {"rsp"}
        self._canary: set[str] = set()

    def initialised(self, instruction: Instruction) -> str:
        """Say which stack slot the instruction initialises and how, "" if none."""
        if instruction.mnemonic.startswith("rep stos"):
            return "fills an array on the stack" if "rdi" in self._stack else ""
        if instruction.mnemonic != "mov" or not instruction.operands.partition(",")[0].endswith("]"):
            return ""
        to, value = details(instruction.code).operands
        is_canary = value.type == x86.X86_OP_REG and register_name(value.reg) in self._canary
        return "" if is_canary or not self._on_stack(to) else "gives a value to a stack slot"

    def learn(self, instruction: Instruction) -> None:
        """Update the state for an executed instruction."""
        does = effects(instruction.code)
        stack = canary = False
        if does.result and instruction.mnemonic in ("mov", "lea"):
            value = details(instruction.code).operands[1]
            moved = register_name(value.reg) if value.type == x86.X86_OP_REG else ""
            stack = moved in self._stack or (instruction.mnemonic == "lea" and self._on_stack(value))
            canary = moved in self._canary or _CANARY in instruction.operands
        self._stack -= does.written - {"rsp"}
        self._canary -= does.written
        if stack:
            self._stack.add(does.result)
        if canary:
            self._canary.add(does.result)

    def _on_stack(self, operand: Any) -> bool:
        place = operand.mem
        return not place.segment and not place.index and register_name(place.base) in self._stack


def _constant_in(instruction: Instruction) -> str:
    """Return the register that an instruction sets to a constant, "" if it does something else."""
    if instruction.mnemonic not in ("mov", "movabs", "xor"):
        return ""
    register, (first, _, second) = effects(instruction.code).result, instruction.operands.partition(", ")
    if not register or register == "rsp":
        return ""
    constant = second == first if instruction.mnemonic == "xor" else second[0].isdigit() or second[0] == "-"
    return register if constant else ""


INITIALIZATION = TextRule(
    name="initialization",
    category="high-level software",
    summary="a local variable is not initialised at the start of a procedure",
    find=find,
    changes=deleted,
)
