# SPDX-License-Identifier: Apache-2.0
"""A function as the fault classes see it: its instructions, and its basic blocks."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache, cached_property

from riobed.faults.sites.disassembly import CONDITIONAL_JUMPS, Instruction
from riobed.faults.sites.exclusions import FTRACE

# What a call may change: System V ABI for x86-64, section 3.2.1.
CALLER_SAVED = frozenset(["rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11"])

_LAST = CONDITIONAL_JUMPS | {
    "jmp",
    "jrcxz",
    "jecxz",
    "loop",
    "loope",
    "loopne",
    "ret",
    "retf",
    "retfq",
    "iretq",
}


@dataclass(frozen=True)
class Function:
    """One function of the text.

    `joined`: addresses that control can reach other than from the preceding instruction.
    """

    name: str
    instructions: list[Instruction]
    joined: AbstractSet[int]

    @cached_property
    def blocks(self) -> list[list[Instruction]]:
        """Its basic blocks in order of address: entered only at the first instruction, left only at the last.

        A call does not end a block. A place that the running kernel rewrites ends a block and is in none,
        because its bytes are unknown. Only ftrace's call at the start of a function is skipped.
        """
        return list(self._blocks())

    @property
    def begins_with_a_block(self) -> bool:
        """Whether its first instruction, after ftrace's call, is in the first block."""
        skipped = (i for i in self.instructions if i.rewritten != FTRACE)
        return bool(self.blocks) and self.blocks[0][0] is next(skipped)

    def covers(self, address: int) -> bool:
        """Whether an address is within the function."""
        return self.instructions[0].address <= address < self.instructions[-1].end

    def _blocks(self) -> Iterator[list[Instruction]]:
        block: list[Instruction] = []
        for instruction in self.instructions:
            if block and (instruction.address in self.joined or _unknown(instruction)):
                yield block
                block = []
            if instruction.rewritten is None:
                block.append(instruction)
                if ends_block(instruction.mnemonic):
                    yield block
                    block = []
        if block:
            yield block


def _unknown(instruction: Instruction) -> bool:
    return instruction.rewritten not in (None, FTRACE)


@cache
def ends_block(mnemonic: str) -> bool:
    """Whether control may leave after an instruction without returning."""
    return mnemonic.split(" ")[-1] in _LAST


def is_call(mnemonic: str) -> bool:
    """Whether an instruction is a call, with any prefix."""
    return mnemonic.endswith("call")


def target(instruction: Instruction) -> int | None:
    """Return the target of a direct jump or call, None for any other instruction."""
    if not (ends_block(instruction.mnemonic) or is_call(instruction.mnemonic)):
        return None
    return int(instruction.operands, 16) if instruction.operands.startswith("0x") else None
