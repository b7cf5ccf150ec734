# SPDX-License-Identifier: Apache-2.0
"""Each class on functions of a few instructions, written for it: what is a site, and what becomes of it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from riobed.faults.classes.rules import RULES
from riobed.faults.sites.disassembly import Instruction, render
from riobed.faults.sites.encoding import Register, with_other_registers
from riobed.faults.sites.flow import Function
from riobed.faults.sites.index import index_sites
from riobed.faults.sites.reader import Reader, entries
from riobed.faults.sites.vmlinux import Vmlinux

SOURCE = """
	.intel_syntax noprefix
	.text
	.globl _stext
_stext:
	.globl {name}
	.type {name}, @function
{name}:
{body}
	.size {name}, . - {name}
	.type away, @function
away:
	ret
	.size away, . - away
	.section .note.GNU-stack, "", @progbits
"""

Found = dict[str, list[str]]
Sites = Callable[..., Found]


@pytest.fixture
def sites(link: Callable[..., Path], tmp_path: Path) -> Sites:
    """sites(class, body): assembly of each site in it, with the assembly of all that may be put there."""

    def run(rule: str, body: str, name: str = "procedure") -> Found:
        source = tmp_path / "procedure.S"
        source.write_text(SOURCE.format(body=body, name=name))
        kernel = Vmlinux(link(source=source))
        functions = kernel.functions()
        (symbol,) = (f for f in functions if f.name == name)
        found = {}
        for instruction, why in RULES[rule].find(Reader(kernel, entries(kernel, functions)).read(symbol)):
            assert why and instruction.rewritten is None
            news = RULES[rule].changes(instruction.code)
            assert all(len(new) == len(instruction.code) for new in news)
            new_texts = [render(new, instruction.address, len(new)) for new in news]
            found[instruction.text.replace("dword ptr ", "").replace("qword ptr ", "")] = new_texts
        return found

    return run


LOW_64 = ["rax", "rcx", "rdx", "rbx", "rbp", "rsi", "rdi"]
HIGH_64 = [f"r{n}" for n in range(8, 16)]
BYTES = ["al", "cl", "dl", "bl", "bpl", "sil", "dil"] + [f"r{n}b" for n in range(8, 16)]  # with REX
HIGH_32 = [f"{name}d" for name in HIGH_64]
LOW_32 = ["eax", "ecx", "edx", "ebx", "ebp", "esi", "edi"]


def without(names: list[str], name: str) -> list[str]:
    return [other for other in names if other != name]


def assert_registers(found: Found, shape: str, others: list[str]) -> None:
    """There is one site, and it becomes any of these."""
    (news,) = found.values()
    plain = [new.replace("dword ptr ", "").replace("qword ptr ", "") for new in news]
    assert sorted(plain) == sorted(shape.format(other) for other in others)


@pytest.mark.parametrize(
    ("line", "shape", "others"),
    [
        ("mov rcx, rax", "mov {}, rax", without(LOW_64 + HIGH_64, "rcx")),  # 89: r/m is the destination
        (".byte 0x48, 0x8b, 0xc8", "mov {}, rax", without(LOW_64 + HIGH_64, "rcx")),  # 8b: reg is
        ("mov r9, rax", "mov {}, rax", without(LOW_64 + HIGH_64, "r9")),  # from a high register to low ones
        ("mov ecx, eax", "mov {}, eax", without(LOW_32, "ecx")),  # no REX: eight registers
        ("mov eax, eax", "mov {}, eax", without(LOW_32, "eax")),  # only the destination changes
        ("mov cx, ax", "mov {}, ax", ["ax", "dx", "bx", "bp", "si", "di"]),
        ("mov ecx, 5", "mov {}, 5", without(LOW_32, "ecx")),  # register in the opcode
        ("mov cl, 5", "mov {}, 5", ["al", "dl", "bl"]),
        ("mov ah, 5", "mov {}, 5", ["cl", "dl", "bl"]),  # never another part of rax
        ("mov cl, ah", "mov {}, ah", ["al", "dl", "bl"]),
        ("mov rcx, 5", "mov {}, 5", without(LOW_64 + HIGH_64, "rcx")),  # c7 /0
        ("movabs rcx, 0x123456789", "movabs {}, 0x123456789", without(LOW_64 + HIGH_64, "rcx")),
        ("movzx ecx, al", "movzx {}, al", without(LOW_32, "ecx")),
        ("movsxd rcx, eax", "movsxd {}, eax", without(LOW_64 + HIGH_64, "rcx")),
        ("sete cl", "sete {}", ["al", "dl", "bl"]),
        ("sete sil", "sete {}", without(BYTES, "sil")),  # REX makes it sil, not dh; never spl
        ("sete r9b", "sete {}", without(BYTES, "r9b")),
        ("imul ecx, eax, 7", "imul {}, eax, 7", without(LOW_32, "ecx")),
        ("lea rcx, [rsp + r12*4 + 8]", "lea {}, [rsp + r12*4 + 8]", without(LOW_64 + HIGH_64, "rcx")),
        ("mov rcx, [rsp]", "mov {}, [rsp]", without(LOW_64 + HIGH_64, "rcx")),  # SIB
        ("mov rcx, [r12]", "mov {}, [r12]", without(LOW_64 + HIGH_64, "rcx")),  # SIB and REX.B
        ("mov ecx, [rbp]", "mov {}, [rbp]", without(LOW_32, "ecx")),  # a displacement of zero
        ("mov rcx, [r13]", "mov {}, [r13]", without(LOW_64 + HIGH_64, "rcx")),
        ("mov rax, [rax + 8]", "mov {}, [rax + 8]", without(LOW_64 + HIGH_64, "rax")),  # the base stays
        ("mov ecx, [rip + 0x10]", "mov {}, [rip + 0x10]", without(LOW_32, "ecx")),
        ("mov rcx, gs:[0x28]", "mov {}, gs:[0x28]", without(LOW_64 + HIGH_64, "rcx")),
    ],
)  # fmt: skip
def test_destination_reg(line: str, shape: str, others: list[str], sites: Sites) -> None:
    assert_registers(sites("destination_reg", line + "; ret"), shape, others)


@pytest.mark.parametrize(
    ("line", "shape", "others"),
    [
        ("mov rcx, rax", "mov rcx, {}", without(LOW_64 + HIGH_64, "rax")),
        (".byte 0x48, 0x8b, 0xc8", "mov rcx, {}", without(LOW_64 + HIGH_64, "rax")),
        ("mov ecx, eax", "mov ecx, {}", without(LOW_32, "eax")),
        ("mov eax, eax", "mov eax, {}", without(LOW_32, "eax")),
        ("mov [rsp], rax", "mov [rsp], {}", without(LOW_64 + HIGH_64, "rax")),
        ("mov [r12 + 8], eax", "mov [r12 + 8], {}", without(LOW_32 + HIGH_32, "eax")),
        ("mov [rbp], eax", "mov [rbp], {}", without(LOW_32, "eax")),
        ("mov [rax], rax", "mov [rax], {}", without(LOW_64 + HIGH_64, "rax")),  # the base stays
        ("mov [rip + 0x10], eax", "mov [rip + 0x10], {}", without(LOW_32, "eax")),
        ("mov [rcx], dh", "mov byte ptr [rcx], {}", ["al", "cl", "bl"]),  # never dl: the same register
        ("mov [rcx], sil", "mov byte ptr [rcx], {}", without(BYTES, "sil")),
        ("movzx ecx, ah", "movzx ecx, {}", ["cl", "dl", "bl"]),
        ("movzx ecx, dil", "movzx ecx, {}", without(BYTES, "dil")),
        ("movzx ecx, ax", "movzx ecx, {}", ["cx", "dx", "bx", "bp", "si", "di"]),
        ("add ecx, eax", "add ecx, {}", without(LOW_32, "eax")),
        ("add [rcx], eax", "add [rcx], {}", without(LOW_32, "eax")),
        (".byte 0x03, 0xc8", "add ecx, {}", without(LOW_32, "eax")),
        ("xor ecx, eax", "xor ecx, {}", without(LOW_32, "eax")),
        ("and al, bl", "and al, {}", ["al", "cl", "dl"]),
        ("add eax, eax", "add eax, {}", without(LOW_32, "eax")),
        ("imul ecx, eax", "imul ecx, {}", without(LOW_32, "eax")),
        ("imul ecx, eax, 7", "imul ecx, {}, 7", without(LOW_32, "eax")),
        ("cmovg ecx, eax", "cmovg ecx, {}", without(LOW_32, "eax")),
    ],
)  # fmt: skip
def test_source_reg(line: str, shape: str, others: list[str], sites: Sites) -> None:
    assert_registers(sites("source_reg", line + "; ret"), shape, others)


# Bytes whose lowest bits are no register: with others, more than the operand would change.
@pytest.mark.parametrize(
    ("code", "operand"),
    [
        ("00c8", 0),  # add al, cl; with other bits eax, ecx
        ("d1e0", 1),  # shl eax, 1; with other bits by cl
    ],
)
def test_nothing_but_the_register_may_change(code: str, operand: int) -> None:
    place = Register(at=0, shift=0, rex=None, rex_bit=0, narrow=False)
    assert with_other_registers(bytes.fromhex(code), place, operand) == []


NO_DESTINATION = """
mov rsp, rax; lea rsp, [rbp - 8]; mov [rcx], rax; mov dword ptr [rcx], 5; add rcx, rax; xor ecx, ecx;
cmove rcx, rax; pop rcx; xchg rcx, rax; push rcx; sete [rcx]; imul rcx, rax; cmp rcx, rax; mov cr3, rax; nop;
call away; xbegin .; bsf rcx, rax
"""
NO_SOURCE = """
mov rbp, rsp; mov [rax], rsp; add rax, rsp; mov rcx, [rax]; mov ecx, 5; add ecx, 5; xor eax, eax;
sub eax, eax; sbb eax, eax; cmp ecx, eax; test ecx, eax; push rax; lea rcx, [rax + rdx]; xchg rcx, rax;
shl ecx, cl; add rcx, [rax]; movzx ecx, byte ptr [rax]
"""
NO_SITES = [("destination_reg", line) for line in NO_DESTINATION.split(";")]
NO_SITES += [("source_reg", line) for line in NO_SOURCE.split(";")]


@pytest.mark.parametrize(("rule", "line"), NO_SITES)
def test_what_assigns_no_register_or_has_no_source_register(rule: str, line: str, sites: Sites) -> None:
    assert sites(rule, f"{line.strip()}; ret") == {}


def test_delete_random_inst_takes_all_that_does_something(sites: Sites) -> None:
    found = sites(
        "delete_random_inst",
        "nop; endbr64; push rbx; mov qword ptr gs:[rsp + 0x12345678], 0x12345678; call away; je 1f; 1: ret",
    )
    nops = {old.partition(" ")[0]: len(new[0].split("; ")) for old, new in found.items()}
    assert list(nops.items()) == [("push", 1), ("mov", 2), ("call", 1), ("je", 1), ("ret", 1)]


@pytest.mark.parametrize(("old", "new"), [("b", "be"), ("ae", "a"), ("l", "le"), ("ge", "g")])
def test_off_by_one_moves_equality_and_does_not_invert(old: str, new: str, sites: Sites) -> None:
    for one, other in ((old, new), (new, old)):
        for distance in ("nop", ".skip 200, 0x90"):
            body = f"cmp eax, ecx; j{one} 1f; {distance}; 1: ret"
            ((before, (after,)),) = sites("off_by_one", body).items()
            (jump, *target), (new_jump, *new_target) = before.split(), after.split()
            assert (jump, new_jump) == (f"j{one}", f"j{other}") and target == new_target
        found = sites("off_by_one", f"cmp eax, ecx; set{one} r9b; ret")
        assert found == {f"set{one} r9b": [f"set{other} r9b"]}


@pytest.mark.parametrize(
    ("between", "expected"),
    [
        ("mov edx, [rsi]; lea rdi, [rdx + 1]; push rax; pop rbx; not ecx", True),
        ("add edx, 1", False),  # other flags
        ("inc edx", False),
        ("shl edx, 3", False),
        ("call away", False),
        ("1:", False),  # jumped to from below
        ("test eax, eax", False),
        ("cmpxchg [rsi], ecx", False),
        ("repe cmpsb", False),
        ("bt eax, 3", False),
    ],
)
def test_off_by_one_needs_the_flags_of_a_cmp(between: str, expected: bool, sites: Sites) -> None:
    body = f"cmp eax, ecx; {between}; jl 2f; ret; 2: je 1f; nop; 1: ret"
    if between == "1:":
        body = f"cmp eax, ecx; {between}; jl 2f; ret; 2: je 1b; ret"
    assert bool(sites("off_by_one", body)) == expected


@pytest.mark.parametrize(
    "user", [*(f"{jump} 1f; nop; 1:" for jump in ("je", "jne", "js", "jo", "jp")), "cmovl eax, ecx;"]
)
def test_off_by_one_leaves_other_conditions_and_minimum_and_maximum_alone(user: str, sites: Sites) -> None:
    assert sites("off_by_one", f"cmp eax, ecx; {user} ret") == {}


@pytest.mark.parametrize(
    ("body", "deleted"),
    [
        ("mov rax, [rdi]; mov rcx, [rax + 8]; ret", ["mov rax, [rdi]"]),
        ("mov rax, [rdi]; add rax, 8; mov [rax], rcx; ret", ["add rax, 8"]),  # the latest
        ("lea r12, [rdi + 4]; mov r12, [r12]; mov rax, [r12]; ret", ["lea r12, [rdi + 4]", "mov r12, [r12]"]),
        ("mov al, 5; mov rcx, [rax]; ret", ["mov al, 5"]),  # a part of the register
        ("cmovg rax, rbx; mov rcx, [rax]; ret", ["cmovg rax, rbx"]),
        ("mov rax, [rdi]; call [rax + 8]; ret", ["mov rax, [rdi]"]),
        ("mov rdi, rbx; mov ecx, 2; rep stosq; ret", ["mov rdi, rbx"]),
        ("mov rbx, rdi; call away; mov rax, [rbx]; ret", ["mov rbx, rdi"]),  # kept by the call
        ("mov rdx, rdi; call away; mov rax, [rdx]; ret", []),  # not kept
        ("call away; mov rcx, [rax]; ret", []),  # the call sets it
        ("pop rax; mov rcx, [rax]; ret", []),
        ("mov rbp, rsp; mov rax, [rbp - 8]; ret", []),  # a frame
        ("mov rbp, rdi; mov rax, [rbp - 8]; ret", ["mov rbp, rdi"]),
        ("lea rsp, [rbp - 8]; mov rax, [rsp]; ret", []),
        ("xchg rax, rbx; mov rcx, [rax]; ret", []),  # sets rbx as well
        ("mov rax, rdi; mov rbx, rdi; xchg rax, rbx; mov rcx, [rax]; ret", []),
        ("mov rsi, rdi; lodsq; mov rcx, [rsi]; ret", ["mov rsi, rdi"]),  # base of lodsq, which then sets it
        ("mov rax, rdi; cmpxchg [rbx], rcx; mov rcx, [rax]; ret", []),  # sets rax
        ("mov rax, rdi; cpuid; mov rcx, [rax]; ret", []),
        ("mov rax, rdi; test eax, 0x20000; mov rcx, [rax]; ret", ["mov rax, rdi"]),  # test sets nothing
        ("mov rax, rdi; cmp rax, rsi; mov rcx, [rax]; ret", ["mov rax, rdi"]),
        ("mov rax, rdi; je 1f; mov rcx, [rax]; 1: ret", []),  # another block
        ("mov rax, rdi; 1: mov rcx, [rax]; jne 1b; ret", []),  # jumped to from below
        ("mov rax, rdi; lea rcx, [rax + 8]; ret", []),  # no load
        ("mov rax, rdi; nop dword ptr [rax]; prefetcht0 [rax]; ret", []),
        ("mov rax, rdi; mov rcx, [rbx + rax*8]; ret", []),  # an index is no base
        ("mov rcx, [rip + 8]; ret", []),
    ],
)  # fmt: skip
def test_pointer(body: str, deleted: list[str], sites: Sites) -> None:
    found = sites("pointer", body)
    assert list(found) == deleted
    assert all(new[0].startswith("nop") for new in found.values())


@pytest.mark.parametrize(
    ("body", "deleted"),
    [
        ("push rbx; sub rsp, 16; mov dword ptr [rsp + 8], 0; call away; ret", ["mov [rsp + 8], 0"]),
        ("mov [rsp + 8], rsi; call away; ret", ["mov [rsp + 8], rsi"]),
        ("lea rbx, [rsp + 8]; mov qword ptr [rbx], 0; call away; ret", ["mov [rbx], 0"]),
        ("push rbp; mov rbp, rsp; mov dword ptr [rbp - 4], 1; call away; ret", ["mov [rbp - 4], 1"]),
        ("mov dword ptr [rbp - 4], 1; call away; ret", []),  # rbp is no frame
        ("lea rbx, [rsp + 8]; mov rbx, rdi; mov qword ptr [rbx], 0; call away; ret", []),
        ("lea rdi, [rsp + 8]; mov ecx, 4; rep stosq; jne 1f; ret; 1: ret", ["rep stosq [rdi], rax"]),
        ("mov rdi, rsi; mov ecx, 4; rep stosq; jne 1f; ret; 1: ret", []),  # not on the stack
        ("mov dword ptr [rsp + rax*4], 0; call away; ret", []),  # not one variable
        ("mov dword ptr gs:[rsp], 0; call away; ret", []),
        ("mov dword ptr [rdi], 0; call away; ret", []),
        ("xor ebx, ebx; call away; ret", ["xor ebx, ebx"]),
        ("mov r12d, 5; call away; ret", ["mov r12d, 5"]),
        ("mov r12, -5; call away; ret", ["mov r12, 0xfffffffffffffffb"]),
        ("mov edi, 5; xor esi, esi; call away; ret", []),  # arguments
        ("mov edi, 5; jmp away", []),
        ("xor eax, eax; ret", []),  # a result
        ("xor eax, eax; test edi, edi; je 1f; inc eax; 1: ret", ["xor eax, eax"]),
        ("xor eax, eax; 1: inc eax; cmp eax, edi; jl 1b; ret", ["xor eax, eax"]),
        ("xor eax, eax; jmp 2f; 1: inc eax; 2: cmp eax, edi; jl 1b; ret", ["xor eax, eax"]),
        ("mov ebx, 5; mov rbx, rdi; call away; ret", []),  # a step on the way
        ("mov rbx, rdi; call away; ret", []),  # a parameter
        ("xor ebx, edi; call away; ret", []),
        ("call away; mov dword ptr [rsp + 8], 0; xor ebx, ebx; ret", []),  # not at the start
        ("test edi, edi; je 1f; 1: mov dword ptr [rsp + 8], 0; ret", []),
        ("mov rax, gs:[0x28]; mov [rsp + 8], rax; xor eax, eax; call away; ret", []),  # the canary
        ("mov rbx, gs:[0x28]; mov rdx, rbx; mov [rsp + 8], rdx; call away; ret", []),
        ("mov rax, gs:[0x28]; mov eax, edi; mov [rsp + 8], rax; call away; ret", ["mov [rsp + 8], rax"]),
        ("mov esp, 5; call away; ret", []),
    ],
)  # fmt: skip
def test_initialization(body: str, deleted: list[str], sites: Sites) -> None:
    assert list(sites("initialization", body)) == deleted
    assert sites("initialization", body, name="procedure.cold") == {}


TABLE = ".globl __start___{0}_table, __stop___{0}_table; __start___{0}_table: {1}; __stop___{0}_table:"
ELSEWHERE = {
    "another function": (
        '.text.other, "ax"',
        ".type other, @function; other: jmp here; .size other, .-other",
    ),
    "a jump table": ('.rodata, "a"', ".balign 8; .quad here"),
    "a fixup": ('.fixups, "a"', TABLE.format("ex", ".long 0, (here-.), 0")),
    "a jump label": ('.labels, "aw"', TABLE.format("jump", ".long away-., (here-.); .quad 0")),
}


@pytest.mark.parametrize(("section", "content"), ELSEWHERE.values(), ids=ELSEWHERE)
def test_what_is_jumped_to_from_elsewhere_begins_a_block(section: str, content: str, sites: Sites) -> None:
    body = "mov rax, rdi; here: mov rcx, [rax]; ret; "
    assert sites("pointer", body) == {"mov rax, rdi": ["nop dword ptr [rax]"]}
    assert sites("pointer", f"{body} .pushsection {section}; {content}; .popsection") == {}


def test_code_that_is_rewritten_joins_nothing(link: Callable[..., Path], tmp_path: Path) -> None:
    """What it becomes is not known: a site whose reason reaches over it is left out, and counted."""
    source = tmp_path / "rewritten.S"
    body = "mov rax, rdi\n9: lock inc dword ptr [rsi]\nmov rcx, [rax]\nret\n"
    locks = (
        '.section .locks, "a"\n.globl __smp_locks, __smp_locks_end\n'
        "__smp_locks: .long 9b - .\n__smp_locks_end:\n"
    )
    source.write_text(SOURCE.format(body=body, name="procedure") + locks)
    index = index_sites(Vmlinux(link(source=source)), RULES)
    assert len(index.sites["pointer"]) == 0
    assert index.excluded_sites["pointer"] == {"beside code that is rewritten": 1}
    assert index.excluded_sites["delete_random_inst"] == {"SMP lock prefix": 1}


def test_a_function_covers_its_instructions() -> None:
    function = Function(
        "f", [Instruction(16, b"\x90", "nop", ""), Instruction(17, b"\xc3", "ret", "")], set()
    )
    assert [address for address in range(14, 20) if function.covers(address)] == [16, 17]
