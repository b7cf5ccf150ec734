# SPDX-License-Identifier: Apache-2.0
"""Class `source_reg`: an assignment takes another register's value (the paper, section 3.1, second category).

"We corrupt assignment statements by changing the source or destination register." Sites are instructions
that assign to a register or to memory and only read one register operand: mov (also a store), movzx, movsx,
movsxd, cmov, imul, add, adc, sub, sbb, and, or, xor. Registers inside an address are excluded: they select a
place, not a value, which is what class `pointer` changes. xor, sub and sbb of a register with itself are
excluded too: they do not depend on its value. The stack pointer is never a source, old or new.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from riobed.faults.sites.encoding import Field, Register, find_register, with_other_registers
from riobed.faults.sites.flow import Function
from riobed.faults.sites.rule import Site, TextRule

_ARITHMETIC = {"add": 0x00, "or": 0x08, "adc": 0x10, "sbb": 0x18, "and": 0x20, "sub": 0x28, "xor": 0x30}
_OF_ITSELF = frozenset({"xor", "sub", "sbb"})

# Intel SDM volume 2, appendix A. The source is always the second operand.
_FIELDS = {
    0x88: Field("reg", byte=True),  # mov r/m8, r8
    0x89: Field("reg"),  # mov r/m, r
    0x8A: Field("rm", byte=True),  # mov r8, r/m8
    0x8B: Field("rm"),  # mov r, r/m
    0x63: Field("rm"),  # movsxd
    0x69: Field("rm"),  # imul r, r/m, imm32
    0x6B: Field("rm"),  # imul r, r/m, imm8
    0x0FAF: Field("rm"),  # imul r, r/m
    **dict.fromkeys((0x0FB6, 0x0FBE), Field("rm", byte=True)),  # movzx, movsx r, r/m8
    **dict.fromkeys((0x0FB7, 0x0FBF), Field("rm")),  # movzx, movsx r, r/m16
    **dict.fromkeys(range(0x0F40, 0x0F50), Field("rm")),  # cmovcc
    **{base: Field("reg", byte=True) for base in _ARITHMETIC.values()},  # op r/m8, r8
    **{base + 1: Field("reg") for base in _ARITHMETIC.values()},  # op r/m, r
    **{base + 2: Field("rm", byte=True) for base in _ARITHMETIC.values()},  # op r8, r/m8
    **{base + 3: Field("rm") for base in _ARITHMETIC.values()},  # op r, r/m
}


def find(function: Function) -> Iterator[Site]:
    """Every assignment from a register."""
    for instruction in function.instructions:
        if _source(instruction.code) is None:
            continue
        destination, _, rest = instruction.operands.partition(", ")
        source = rest.partition(",")[0]
        if instruction.mnemonic not in _OF_ITSELF or source != destination:
            yield Site(instruction, f"{instruction.mnemonic} takes the value of {source}")


def changes(code: bytes) -> Sequence[bytes]:
    """Return the assignment from each other register that its encoding can name."""
    register = _source(code)
    return with_other_registers(code, register, 1) if register is not None else []


def _source(code: bytes) -> Register | None:
    register = find_register(code, _FIELDS)
    return None if register is None or register.is_stack_pointer(code) else register


SOURCE_REG = TextRule(
    name="source_reg",
    category="low-level software",
    summary="an assignment takes another register's value",
    find=find,
    changes=changes,
)
