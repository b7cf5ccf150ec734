# SPDX-License-Identifier: Apache-2.0
"""Every change of every class in the text of the kernel that is built, judged by other means than made.

By default a part of the functions, spread evenly; --everything takes all (ten minutes). Judges
decode with capstone themselves and use nothing of what finds sites or makes changes.
"""

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import capstone
import pytest
from capstone import x86
from riobed.errors import EnvironmentFault
from riobed.faults import Catalogue, catalogue_of
from riobed.faults.classes.rules import RULES
from riobed.faults.sites.vmlinux import Symbol
from riobed.products import load_manifest

pytestmark = pytest.mark.slow

# The least a kernel of this project has; a class that lost most of its sites was broken.
FLOORS = {
    "destination_reg": 300_000,
    "source_reg": 150_000,
    "delete_branch": 100_000,
    "delete_random_inst": 900_000,
    "initialization": 8_000,
    "pointer": 20_000,
    "off_by_one": 10_000,
}

DECODER = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
DECODER.detail = True

FAMILIES = [
    *({f"r{n}x", f"e{n}x", f"{n}x", f"{n}l", f"{n}h"} for n in "abcd"),
    *({f"r{n}", f"e{n}", n, f"{n}l"} for n in ("si", "di", "bp", "sp")),
    *({f"r{n}", f"r{n}d", f"r{n}w", f"r{n}b"} for n in range(8, 16)),
]
FAMILY = {name: number for number, names in enumerate(FAMILIES) for name in names}
STACK = FAMILY["rsp"]


@dataclass
class Place:
    """A site with the instructions of its function around it."""

    code: list[capstone.CsInsn]
    number: int
    targets: set[int]
    name: str

    @property
    def old(self) -> capstone.CsInsn:
        return self.code[self.number]


def family(insn: capstone.CsInsn, register: int) -> int | None:
    return FAMILY.get(insn.reg_name(register))


def written(insn: capstone.CsInsn) -> set[int]:
    return {number for r in insn.regs_access()[1] if (number := family(insn, r)) is not None}


def value(o: Any) -> tuple[Any, ...]:
    if o.type == x86.X86_OP_MEM:
        return o.type, o.size, (o.mem.segment, o.mem.base, o.mem.index, o.mem.scale, o.mem.disp)
    return o.type, o.size, o.reg if o.type == x86.X86_OP_REG else o.imm


def one_register_differs(place: Place, new: capstone.CsInsn, number: int) -> tuple[int | None, ...]:
    """Register families, old and new, of the only operand that may differ."""
    old = place.old
    assert (new.id, new.mnemonic, new.size) == (old.id, old.mnemonic, old.size)
    before, after = [value(o) for o in old.operands], [value(o) for o in new.operands]
    assert [i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b] == [number]
    (kind, size, register), (new_kind, new_size, new_register) = before[number], after[number]
    assert kind == new_kind == x86.X86_OP_REG and size == new_size
    assert sum((a ^ b).bit_count() for a, b in zip(old.bytes, new.bytes, strict=True)) <= 4
    names = family(old, register), family(new, new_register)
    assert None not in names and STACK not in names and names[0] != names[1]
    return names


def destination_reg(place: Place, news: list[capstone.CsInsn]) -> None:
    (new,) = news
    old_name, new_name = one_register_differs(place, new, 0)
    assert (written(place.old), written(new)) == ({old_name}, {new_name})
    assert place.old.operands[0].access == new.operands[0].access == capstone.CS_AC_WRITE


def source_reg(place: Place, news: list[capstone.CsInsn]) -> None:
    (new,) = news
    old_name, new_name = one_register_differs(place, new, 1)
    assert written(place.old) == written(new)
    for insn, name in ((place.old, old_name), (new, new_name)):
        assert insn.operands[1].access == capstone.CS_AC_READ
        assert name in {family(insn, r) for r in insn.regs_access()[0]}
    assert place.old.operands[0].access & capstone.CS_AC_WRITE or place.old.operands[0].type == x86.X86_OP_MEM


def nothing_left(place: Place, news: list[capstone.CsInsn]) -> None:
    assert {new.id for new in news} == {x86.X86_INS_NOP}
    assert len(news) == (1 if place.old.size <= 9 else 2)


def delete_branch(place: Place, news: list[capstone.CsInsn]) -> None:
    nothing_left(place, news)
    assert place.old.group(capstone.CS_GRP_JUMP) and place.old.id != x86.X86_INS_JMP
    assert x86.X86_REG_EFLAGS in place.old.regs_access()[0]


def delete_random_inst(place: Place, news: list[capstone.CsInsn]) -> None:
    nothing_left(place, news)
    assert place.old.id not in (x86.X86_INS_NOP, x86.X86_INS_ENDBR64)


CONDITIONS: dict[str, Callable[[bool, bool, bool, bool], bool]] = {  # of carry, zero, sign, overflow
    "b": lambda c, z, s, o: c,
    "ae": lambda c, z, s, o: not c,
    "be": lambda c, z, s, o: c or z,
    "a": lambda c, z, s, o: not c and not z,
    "l": lambda c, z, s, o: s != o,
    "ge": lambda c, z, s, o: s == o,
    "le": lambda c, z, s, o: z or s != o,
    "g": lambda c, z, s, o: not z and s == o,
}
KEEP_FLAGS = re.compile(
    r"mov(zx|sx|sxd|abs|nti)?|lea|push|pop|nop|not|bswap|xchg|cdqe?|cqo|cwde|set\w+|cmov\w+|crc32|prefetch\w+"
    r"|(rep )?(stos|movs)[bwdq]|pause|[lms]fence|sti|cli|rdtsc|rdmsr|wrmsr|cpuid|in|out"
)


def flags_of_cmp(left: int, right: int) -> tuple[bool, bool, bool, bool]:
    """Carry, zero, sign and overflow after cmp of two bytes: Intel SDM volume 2, CMP and SUB."""
    result = (left - right) & 0xFF
    signed = (left ^ 0x80) - 0x80, (right ^ 0x80) - 0x80
    return left < right, result == 0, result >= 0x80, not -128 <= signed[0] - signed[1] <= 127


COMPARED = {(a, b): flags_of_cmp(a, b) for a in range(256) for b in range(256)}


@functools.cache
def differ_where_equal(one: str, other: str) -> bool:
    """Whether two conditions differ for equal operands, and for no others."""
    first, second = CONDITIONS[one], CONDITIONS[other]
    return all((a == b) == (first(*f) != second(*f)) for (a, b), f in COMPARED.items())


def off_by_one(place: Place, news: list[capstone.CsInsn]) -> None:
    (new,) = news
    kind = "set" if place.old.mnemonic.startswith("set") else "j"
    assert new.mnemonic.startswith(kind) and new.op_str == place.old.op_str and new.size == place.old.size
    pair = place.old.mnemonic.removeprefix(kind), new.mnemonic.removeprefix(kind)
    assert differ_where_equal(*pair), "differs for operands that are not equal, or not for all that are"
    number = place.number
    while place.code[number].id != x86.X86_INS_CMP:
        assert place.code[number].address not in place.targets
        number -= 1
        insn = place.code[number]
        assert insn.id == x86.X86_INS_CMP or KEEP_FLAGS.fullmatch(insn.mnemonic), insn.mnemonic


KEPT_BY_CALLS = {FAMILY[name] for name in ("rbx", "rbp", "r12", "r13", "r14", "r15")}


def pointer(place: Place, news: list[capstone.CsInsn]) -> None:
    nothing_left(place, news)
    old = place.old
    assert old.id not in (x86.X86_INS_PUSH, x86.X86_INS_POP, x86.X86_INS_LEAVE, x86.X86_INS_CALL)
    assert old.operands[0].type == x86.X86_OP_REG and old.operands[0].access & capstone.CS_AC_WRITE
    base = family(old, old.operands[0].reg)
    assert base is not None and base != STACK
    number = place.number
    while True:
        number += 1
        insn = place.code[number]
        assert insn.address not in place.targets
        bases = {family(insn, o.mem.base) for o in insn.operands if o.type == x86.X86_OP_MEM and o.mem.base}
        if base in bases and insn.id not in (x86.X86_INS_LEA, x86.X86_INS_NOP):
            return
        assert insn.id == x86.X86_INS_TEST or base not in written(insn)  # capstone 5 says that test writes
        assert not insn.group(capstone.CS_GRP_JUMP) and not insn.group(capstone.CS_GRP_RET)
        assert not insn.group(capstone.CS_GRP_CALL) or base in KEPT_BY_CALLS


def initialization(place: Place, news: list[capstone.CsInsn]) -> None:
    nothing_left(place, news)
    old, before = place.old, place.code[: place.number]
    for insn in before:
        called = insn.group(capstone.CS_GRP_CALL) and insn is not place.code[0]  # the first one is ftrace's
        assert not called and not insn.group(capstone.CS_GRP_JUMP) and not insn.group(capstone.CS_GRP_RET)
    assert not place.targets & {insn.address for insn in place.code[1 : place.number + 1]}
    assert ".cold" not in place.name and STACK not in written(old)
    if old.operands[0].type == x86.X86_OP_MEM:
        assert old.id == x86.X86_INS_MOV or old.mnemonic.startswith("rep stos")
        source = old.operands[1].reg
        loads = [insn for insn in before if source and written(insn) == {family(old, source)}]
        assert not loads or old.id != x86.X86_INS_MOV or "gs:[0x28]" not in loads[-1].op_str
    else:
        constant = old.operands[1].type == x86.X86_OP_IMM
        assert constant or (old.id == x86.X86_INS_XOR and old.operands[0].reg == old.operands[1].reg)


JUDGES: dict[str, Callable[..., None]] = {name: globals()[name] for name in FLOORS}
# Judged by their bytes alone: the same bytes need it once.
WHEREVER = {"destination_reg", "source_reg", "delete_branch", "delete_random_inst"}


@pytest.fixture(scope="module")
def kernel() -> Catalogue:
    try:
        built = load_manifest().kernel
    except EnvironmentFault as why:
        pytest.skip(str(why))
    return catalogue_of(built)


@pytest.fixture
def stride(longer: int) -> int:
    """One of so many functions is judged."""
    return 1 if longer > 1 else 60


def functions(kernel: Catalogue, stride: int) -> Iterator[tuple[Symbol, list[capstone.CsInsn], set[int]]]:
    """Functions of the catalogue with their instructions and the targets of their jumps."""
    start = kernel._vmlinux.text_start
    for offset, size, name, _ in kernel._index.functions[::stride]:
        code = list(DECODER.disasm(kernel.code(start + offset, size), start + offset))
        jumps = (i.operands[0] for i in code if i.group(capstone.CS_GRP_JUMP))
        targets = {o.imm for o in jumps if o.type == x86.X86_OP_IMM}
        yield Symbol(start + offset, size, name), code, targets


def test_every_change_is_what_its_class_says(kernel: Catalogue, stride: int) -> None:
    text = bytearray(kernel.code(kernel._vmlinux.text_start, len(kernel._vmlinux.text)))
    start = kernel._vmlinux.text_start
    catalogued = {name: set(kernel._index.sites[name]) for name in RULES}
    found: Counter[str] = Counter()
    judged: set[tuple[str, bytes]] = set()
    for symbol, code, targets in functions(kernel, stride):
        numbers = {insn.address: number for number, insn in enumerate(code)}
        function = kernel._reader.read(symbol)
        for name, rule in RULES.items():
            sites = {s.instruction.address for s in rule.find(function) if s.instruction.rewritten is None}
            assert sites == {a for a in numbers if a - start in catalogued[name]}
            found[name] += len(sites)
            for address in sites:
                place = Place(code, numbers[address], targets, symbol.name)
                key = name, bytes(place.old.bytes)
                if key not in judged:
                    judge(place, name, text, address - start)
                    judged.update({key} if name in WHEREVER else ())
    counts = {name: kernel.site_count(name) for name in RULES}
    print(f"\nsites judged: {dict(found)}\nin the catalogue: {counts}")
    assert stride > 1 or found == counts
    assert all(found[name] > FLOORS[name] / stride / 2 for name in RULES)
    assert all(counts[name] > FLOORS[name] for name in RULES)


def judge(place: Place, name: str, text: bytearray, offset: int) -> None:
    """Put each change over the old bytes, judge it where it stands, and take it back."""
    old = bytes(place.old.bytes)
    end = offset + len(old)
    assert text[offset:end] == old
    changes = RULES[name].changes(old)
    assert len(changes) == len(set(changes)) > 0 and old not in changes
    before = bytes(text[offset - 16 : offset] + text[end : end + 16])
    for new in changes:
        text[offset:end] = new
        decoded = list(DECODER.disasm(bytes(text[offset:end]), place.old.address))
        assert sum(insn.size for insn in decoded) == len(old), "does not decode to the same length"
        try:
            JUDGES[name](place, decoded)
        except AssertionError as why:
            old_text, new_text = ([f"{i.mnemonic} {i.op_str}" for i in c] for c in ([place.old], decoded))
            at = f"{name}: {place.name} {place.old.address:#x}"
            raise AssertionError(f"{at} {old_text} -> {new_text}: {why}") from why
        text[offset:end] = old
    assert bytes(text[offset - 16 : offset] + text[end : end + 16]) == before
    assert text[offset:end] == old


def test_sites_of_every_class_are_left_out_only_with_a_reason(kernel: Catalogue) -> None:
    """Candidates and exclusions of the branches add up to what a plain sweep of the text finds."""
    jumps = 0
    start = kernel._vmlinux.text_start
    plain = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    for offset, size, _, _ in kernel._index.functions:
        for _, _, mnemonic, _ in plain.disasm_lite(kernel.code(start + offset, size), start + offset):
            jumps += mnemonic[0] == "j" and mnemonic not in ("jmp", "jrcxz", "jecxz")
    excluded = kernel.excluded_sites("delete_branch")
    excluded.pop("function does not decode", None)
    assert kernel.site_count("delete_branch") + sum(excluded.values()) == jumps
