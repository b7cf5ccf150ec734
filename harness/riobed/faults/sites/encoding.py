# SPDX-License-Identifier: Apache-2.0
"""Where the register operands are in the bytes of an assignment, and how to replace one.

Opcodes and fields: Intel SDM volume 2, chapter 2 (prefixes, REX, ModRM) and appendix A (opcode maps). A
register's number has three bits in the opcode, ModRM.reg or ModRM.rm, and a fourth bit in REX. A replacement
never adds a byte: without REX it can name only the first eight registers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from capstone import x86

from riobed.faults.sites.disassembly import details

_PREFIXES = frozenset(bytes.fromhex("262e363e64656667f0f2f3"))
_RSP = 4
_REX_R, _REX_B = 2, 0  # bit numbers in REX that extend ModRM.reg, and ModRM.rm or the opcode's register


class Field(NamedTuple):
    """Where an opcode encodes a register ("opcode", "reg" or "rm"), and whether it is an 8-bit register.

    `extension`: the value ModRM.reg must have where it is part of the opcode.
    """

    where: str
    byte: bool = False
    extension: int | None = None


class Register(NamedTuple):
    """One register in the bytes of an instruction; `rex` is the offset of the REX prefix, or None.

    `narrow`: an 8-bit operand without REX, whose numbers 4 to 7 mean ah, ch, dh and bh.
    """

    at: int
    shift: int
    rex: int | None
    rex_bit: int
    narrow: bool

    def number(self, code: bytes) -> int:
        """Its number, 0 to 15, in the instruction `code`."""
        high = 0 if self.rex is None else code[self.rex] >> self.rex_bit & 1
        return high << 3 | code[self.at] >> self.shift & 7

    def replaced(self, code: bytes, number: int) -> bytes:
        """`code` with another number in its place."""
        new = bytearray(code)
        new[self.at] = new[self.at] & ~(7 << self.shift) | (number & 7) << self.shift
        if self.rex is not None:
            new[self.rex] = new[self.rex] & ~(1 << self.rex_bit) | number >> 3 << self.rex_bit
        return bytes(new)

    def others(self, code: bytes) -> Iterable[int]:
        """Numbers of the other registers that fit there; never rsp or another part of the same register."""
        number = self.number(code)
        if self.narrow:
            return (n for n in range(4) if n != number % 4)
        last = 8 if self.rex is None else 16
        return (n for n in range(last) if n not in (number, _RSP))

    def is_stack_pointer(self, code: bytes) -> bool:
        """Whether it is rsp or a part of it."""
        return not self.narrow and self.number(code) == _RSP


def find_register(code: bytes, fields: Mapping[int, Field]) -> Register | None:
    """Return the register operand of an instruction whose opcode is in `fields`, or None.

    Two-byte opcodes 0f xx have the key 0x0fxx. A field "rm" counts only where it names a register.
    """
    at = 0
    while code[at] in _PREFIXES:
        at += 1
    rex = None
    if code[at] & 0xF0 == 0x40:
        rex, at = at, at + 1
    opcode = code[at]
    if opcode == 0x0F:
        at += 1
        opcode = 0x0F00 | code[at]
    field = fields.get(opcode)
    if field is None:
        return None
    narrow = field.byte and rex is None
    if field.where == "opcode":
        return Register(at, 0, rex, _REX_B, narrow)
    at += 1
    if field.where == "reg":
        return Register(at, 3, rex, _REX_R, narrow)
    if code[at] >> 6 != 3 or field.extension not in (None, code[at] >> 3 & 7):
        return None
    return Register(at, 0, rex, _REX_B, narrow)


def with_other_registers(code: bytes, register: Register, operand: int) -> list[bytes]:
    """Return the instruction with each other register in that place.

    Each result is decoded again to verify it: only the operand of that number (from 0) may differ.
    """
    news = (register.replaced(code, number) for number in register.others(code))
    return [new for new in news if _differ_in(code, new, operand)]


def _differ_in(old: bytes, new: bytes, operand: int) -> bool:
    before, after = details(old), details(new)
    if before is None or after is None or before.mnemonic != after.mnemonic:
        return False
    pairs = list(zip(map(_value, before.operands), map(_value, after.operands), strict=True))
    kinds = {kind for kind, *_ in pairs[operand]}
    return kinds == {x86.X86_OP_REG} and all((a == b) == (i != operand) for i, (a, b) in enumerate(pairs))


def _value(operand: Any) -> tuple[Any, ...]:
    if operand.type == x86.X86_OP_MEM:
        place = operand.mem
        return operand.type, operand.size, place.segment, place.base, place.index, place.scale, place.disp
    return operand.type, operand.size, operand.reg if operand.type == x86.X86_OP_REG else operand.imm
