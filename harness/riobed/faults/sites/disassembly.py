# SPDX-License-Identifier: Apache-2.0
"""x86-64 machine code as capstone reads it: instructions, and text for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import capstone

BAD = "(bad)"
LONGEST_INSTRUCTION = 15  # bytes; Intel SDM volume 2, section 2.3.11

# Names of the 16 conditional jumps as capstone writes them (opcodes 70-7f and 0f 80-8f).
CONDITIONAL_JUMPS = frozenset(
    ["jo", "jno", "jb", "jae", "je", "jne", "jbe", "ja", "js", "jns", "jp", "jnp", "jl", "jge", "jle", "jg"]
)

_DECODER = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
_DETAILS = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
_DETAILS.detail = True


class Instruction(NamedTuple):
    """An instruction of a function, with capstone's text of it.

    `rewritten` says why its bytes in the running kernel are not those of vmlinux, None if they are.
    """

    address: int
    code: bytes
    mnemonic: str
    operands: str
    rewritten: str | None = None

    @property
    def end(self) -> int:
        """First address after it."""
        return self.address + len(self.code)

    @property
    def text(self) -> str:
        """Its assembly."""
        return f"{self.mnemonic} {self.operands}".rstrip()


def sweep(code: bytes, address: int) -> Iterator[Instruction]:
    """Yield each instruction in order; stop at bytes that do not decode."""
    for place, size, mnemonic, operands in _DECODER.disasm_lite(code, address):
        yield Instruction(place, code[place - address : place - address + size], mnemonic, operands)


def details(code: bytes) -> Any:
    """Return the single instruction in `code` with its operands, as a CsInsn at address 0, or None."""
    decoded = next(_DETAILS.disasm(code, 0, count=1), None)
    return decoded if decoded is not None and decoded.size == len(code) else None


def render(code: bytes, address: int, length: int) -> str:
    """Return the assembly of the instructions that begin in code[:length], `(bad)` if none decodes.

    `code` may be longer than `length`: a fault may have made an instruction longer.
    """
    lines: list[str] = []
    offset = 0
    while offset < length:
        window = code[offset : offset + LONGEST_INSTRUCTION]
        decoded = next(_DECODER.disasm_lite(window, address + offset, count=1), None)
        if decoded is None:
            return "; ".join([*lines, BAD])
        _, size, mnemonic, operands = decoded
        lines.append(f"{mnemonic} {operands}".rstrip())
        offset += size
    return "; ".join(lines)
