# SPDX-License-Identifier: Apache-2.0
"""What an instruction does to registers, flags and memory, from capstone's tables."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import capstone
from capstone import x86

from riobed.faults.sites.disassembly import details

# 64-bit name of every part of a general-purpose register.
_FULL = {
    part: f"r{letter}x"
    for letter in "abcd"
    for part in (f"r{letter}x", f"e{letter}x", f"{letter}x", f"{letter}l", f"{letter}h")
}
_FULL |= {
    part: f"r{name}"
    for name in ("si", "di", "bp", "sp")
    for part in (f"r{name}", f"e{name}", name, f"{name}l")
}
_FULL |= {f"r{n}{suffix}": f"r{n}" for n in range(8, 16) for suffix in ("", "d", "w", "b")}
_NAMES = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)

_FLAGS = ("AF", "CF", "SF", "ZF", "PF", "OF")
_FLAG_CHANGES = 0
for _how in ("MODIFY", "RESET", "SET", "UNDEFINED"):
    for _flag in _FLAGS:
        _FLAG_CHANGES |= getattr(x86, f"X86_EFLAGS_{_how}_{_flag}", 0)

# Corrections of capstone 5, from Intel SDM volume 2: registers it fails to report as written, or reports
# wrongly.
_ALSO_WRITTEN = {
    "cmpxchg": frozenset({"rax"}),
    "rdpkru": frozenset({"rax", "rdx"}),
    "rdtscp": frozenset({"rax", "rcx", "rdx"}),
    "vmcall": frozenset({"rax"}),
    "vmmcall": frozenset({"rax"}),
}
_ONLY_FLAGS = frozenset({"cmp", "test", "bt"})

# They have a memory operand but do not access it, or not visibly.
_NO_ACCESS = ("lea", "nop", "prefetch", "clflush", "clwb", "invlpg")


@dataclass(frozen=True, slots=True)
class Effects:
    """Registers are general-purpose ones by their 64-bit names.

    `written`: registers written, explicitly or implicitly, wholly or in part. `result`: the register whose
    value is the only result besides flags; "" if there are other results. `bases`: base registers of its
    loads and stores. `flags`: whether a status flag is changed.
    """

    written: frozenset[str]
    result: str
    bases: frozenset[str]
    flags: bool


@lru_cache(maxsize=1 << 18)
def effects(code: bytes) -> Effects:
    """Return the effects of one instruction; ValueError if the bytes are not a single instruction."""
    decoded = details(code)
    if decoded is None:
        raise ValueError(f"{code.hex()} is not one instruction")
    _, touched = decoded.regs_access()
    verb = decoded.mnemonic.rpartition(" ")[2]
    written = frozenset(name for register in touched if (name := register_name(register)))
    written = frozenset() if verb in _ONLY_FLAGS else written | _ALSO_WRITTEN.get(verb, frozenset())
    flags = x86.X86_REG_EFLAGS in touched or bool(decoded.eflags & _FLAG_CHANGES)
    return Effects(written, _result(decoded, written), _bases(decoded), flags)


@lru_cache
def register_name(number: int) -> str:
    """Return the 64-bit name for capstone's number of a general-purpose register, "" for other registers."""
    return _FULL.get(_NAMES.reg_name(number) or "", "")


def _result(decoded: Any, written: frozenset[str]) -> str:
    operands = decoded.operands
    if len(written) != 1 or not operands or operands[0].type != x86.X86_OP_REG:
        return ""
    name = register_name(operands[0].reg)
    stores = any(o.type == x86.X86_OP_MEM and o.access & capstone.CS_AC_WRITE for o in operands)
    return name if name in written and not stores else ""


def _bases(decoded: Any) -> frozenset[str]:
    if decoded.mnemonic.startswith(_NO_ACCESS):
        return frozenset()
    bases = (o.mem.base for o in decoded.operands if o.type == x86.X86_OP_MEM)
    return frozenset(name for base in bases if (name := register_name(base)))
