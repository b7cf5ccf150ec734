# SPDX-License-Identifier: Apache-2.0
"""x86-64 machine code as capstone reads it: instruction boundaries, and text for people."""

from __future__ import annotations

from collections.abc import Iterator

import capstone

BAD = "(bad)"
LONGEST_INSTRUCTION = 15  # bytes; Intel SDM volume 2, section 2.3.11

# Names of the 16 conditional jumps as capstone writes them (opcodes 70-7f and 0f 80-8f).
CONDITIONAL_JUMPS = frozenset(
    ["jo", "jno", "jb", "jae", "je", "jne", "jbe", "ja", "js", "jns", "jp", "jnp", "jl", "jge", "jle", "jg"]
)

_DECODER = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)


def sweep(code: bytes, address: int) -> Iterator[tuple[int, int, str]]:
    """(address, length, mnemonic) of each instruction in order; stops early at bytes that do not decode."""
    for place, size, mnemonic, _ in _DECODER.disasm_lite(code, address):
        yield place, size, mnemonic


def render(code: bytes, address: int, length: int) -> str:
    """Assembly of the instructions that begin in code[:length], joined by "; "; `(bad)` where none decodes.

    `code` may go on after `length`: a damaged instruction may have become longer than it was.
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
