# SPDX-License-Identifier: Apache-2.0
"""Class `destination_reg`: an assignment goes to another register (the paper, section 3.1, second category).

"We corrupt assignment statements by changing the source or destination register." Here an assignment is an
instruction whose only result is a register that it does not read: mov, movzx, movsx, movsxd, lea, setcc,
and imul with three operands. Changing the operand then changes one thing: the value ends up in another
register, and the old register keeps its value. Instructions that also read their destination (add, xor,
cmov, ...) are excluded: they would also compute another value. pop is excluded because it changes the
stack. The stack pointer is never a destination, old or new.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from riobed.faults.sites.encoding import Field, Register, find_register, with_other_registers
from riobed.faults.sites.flow import Function
from riobed.faults.sites.rule import Site, TextRule

# Intel SDM volume 2, appendix A.
_FIELDS = {
    0x88: Field("rm", byte=True),  # mov r/m8, r8
    0x89: Field("rm"),  # mov r/m, r
    0x8A: Field("reg", byte=True),  # mov r8, r/m8
    0x8B: Field("reg"),  # mov r, r/m
    0x8D: Field("reg"),  # lea
    0x63: Field("reg"),  # movsxd
    0x69: Field("reg"),  # imul r, r/m, imm32
    0x6B: Field("reg"),  # imul r, r/m, imm8
    0xC6: Field("rm", byte=True, extension=0),  # mov r/m8, imm8
    0xC7: Field("rm", extension=0),  # mov r/m, imm32
    **dict.fromkeys(range(0xB0, 0xB8), Field("opcode", byte=True)),  # mov r8, imm8
    **dict.fromkeys(range(0xB8, 0xC0), Field("opcode")),  # mov r, imm
    **dict.fromkeys(range(0x0F90, 0x0FA0), Field("rm", byte=True)),  # setcc
    **dict.fromkeys((0x0FB6, 0x0FB7, 0x0FBE, 0x0FBF), Field("reg")),  # movzx, movsx
}


def find(function: Function) -> Iterator[Site]:
    """Every assignment to a register."""
    for instruction in function.instructions:
        if _destination(instruction.code) is not None:
            register = instruction.operands.partition(",")[0]
            yield Site(instruction, f"{instruction.mnemonic} assigns to {register}")


def changes(code: bytes) -> Sequence[bytes]:
    """Return the assignment to each other register that its encoding can name."""
    register = _destination(code)
    return with_other_registers(code, register, 0) if register is not None else []


def _destination(code: bytes) -> Register | None:
    register = find_register(code, _FIELDS)
    return None if register is None or register.is_stack_pointer(code) else register


DESTINATION_REG = TextRule(
    name="destination_reg",
    category="low-level software",
    summary="an assignment goes to another register",
    find=find,
    changes=changes,
)
