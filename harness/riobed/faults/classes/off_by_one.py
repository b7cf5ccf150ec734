# SPDX-License-Identifier: Apache-2.0
"""Class `off_by_one`: a comparison is wrong for equal operands (the paper, section 3.1, third category).

"Changing conditions such as > to >=, < to <=, and so on." Sites are conditional jumps and setcc that ask
which of the two operands of a cmp is larger, signed or unsigned. The new condition differs from the old one
only for equal operands: < becomes <= and back, >= becomes > and back; it is never inverted. The cmp must be
in the same basic block, with no call and no flag change between them. cmov is excluded: it computes minimum
and maximum, where equality makes no difference.

The conditions and what they test: Intel SDM volume 1, appendix B. After cmp, ZF set implies CF clear and SF
equal to OF, so adding "ZF or" to a condition, or removing it, matters only for equal operands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from riobed.faults.sites.disassembly import Instruction
from riobed.faults.sites.effects import effects
from riobed.faults.sites.flow import Function, ends_block, is_call
from riobed.faults.sites.rule import Site, TextRule

# Low four bits of the opcode.
_B, _AE, _BE, _A, _L, _GE, _LE, _G = 0x2, 0x3, 0x6, 0x7, 0xC, 0xD, 0xE, 0xF
_OTHER = {_B: _BE, _BE: _B, _AE: _A, _A: _AE, _L: _LE, _LE: _L, _GE: _G, _G: _GE}
_MNEMONICS = frozenset(
    kind + c for kind in ("j", "set") for c in ("b", "ae", "be", "a", "l", "ge", "le", "g")
)


def find(function: Function) -> Iterator[Site]:
    """Find every jump or setcc on an order that a cmp of its basic block established."""
    for block in function.blocks:
        compared: Instruction | None = None
        for instruction in block:
            mnemonic = instruction.mnemonic
            if mnemonic == "cmp":
                compared = instruction
            elif compared is None:
                continue
            elif mnemonic in _MNEMONICS:
                yield Site(instruction, f"its condition is that of {compared.text} at {compared.address:#x}")
            elif is_call(mnemonic) or (not ends_block(mnemonic) and effects(instruction.code).flags):
                compared = None


def changes(code: bytes) -> Sequence[bytes]:
    """Return the same jump or setcc with equality on the other side."""
    at = _condition_at(code)
    new = bytearray(code)
    new[at] = code[at] & 0xF0 | _OTHER[code[at] & 0x0F]
    return [bytes(new)]


def _condition_at(code: bytes) -> int:
    """Offset of the byte with the condition: 7x, 0f 8x or 0f 9x, after any prefixes."""
    at = next(offset for offset, byte in enumerate(code) if byte == 0x0F or byte >> 4 == 7)
    return at + (code[at] == 0x0F)


OFF_BY_ONE = TextRule(
    name="off_by_one",
    category="high-level software",
    summary="a comparison is wrong for equal operands: > for >=, < for <=, and back",
    find=find,
    changes=changes,
)
