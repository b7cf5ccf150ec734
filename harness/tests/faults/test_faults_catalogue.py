# SPDX-License-Identifier: Apache-2.0
"""What the catalogue offers and what it leaves out, on a text whose every place is known."""

from collections.abc import Callable
from pathlib import Path

import capstone
import pytest
from elftools.elf.elffile import ELFFile
from riobed.errors import EnvironmentFault
from riobed.faults import Catalogue
from riobed.faults.classes.rules import RULES

Symbols = dict[str, tuple[int, int]]


@pytest.fixture(scope="module")
def symbols(vmlinux: Path) -> Symbols:
    """Name -> (address, size)."""
    with vmlinux.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".symtab")
        return {s.name: (s["st_value"], s["st_size"]) for s in table.iter_symbols()}


@pytest.fixture(scope="module")
def offered(catalogue: Catalogue) -> set[int]:
    """Address of every byte that may be changed."""
    found = {catalogue.byte_at(rank) for rank in range(catalogue.byte_count)}
    assert len(found) == catalogue.byte_count > 1000
    return found


# Offsets of the bytes that the kernel patches, or that nobody can say what they are.
LEFT_OUT = {
    **dict.fromkeys(["short_branch", "long_branch", "many_0", "no_kprobe", "outer"], range(0)),
    "ftraced": range(5),  # call
    "locked": range(3),  # lock incl (%rdi)
    "alternated": range(1, 5),  # test, jne
    "jump_labelled": range(2),  # jmp
    "static_caller": range(5),  # call
    "__SCT__target": range(7),  # the whole trampoline: jmp rel32, ud2
    "thunked": range(5),
    "undecodable": range(11),  # the whole function
    "runtime_constant": range(13),  # movabs 10 bytes, shr 3 bytes
}


@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_the_kernel_patches_is_left_out(name: str, symbols: Symbols, offered: set[int]) -> None:
    address, size = symbols[name]
    left_out = [offset for offset in range(size) if address + offset not in offered]
    assert left_out == [offset for offset in LEFT_OUT[name] if offset < size]


def test_padding_and_freed_text_are_left_out(symbols: Symbols, offered: set[int]) -> None:
    short, size = symbols["short_branch"]
    assert short + size not in offered
    assert symbols["initial"][0] not in offered


def test_offered_and_excluded_bytes_are_all_executable_bytes(vmlinux: Path, catalogue: Catalogue) -> None:
    with vmlinux.open("rb") as file:
        sections = {s.name: s["sh_size"] for s in ELFFile(file).iter_sections()}
    excluded = catalogue.excluded_bytes
    assert catalogue.byte_count + sum(excluded.values()) == sections[".text"] + sections[".init.text"]
    assert excluded["freed after boot"] == sections[".init.text"]
    reasons = {"alternative", "ftrace", "jump label", "static call", "SMP lock prefix", "return thunk"}
    others = {"runtime constant", "function does not decode", "outside functions", "freed after boot"}
    assert set(excluded) == reasons | others


def test_branches_are_exactly_the_offered_conditional_jumps(
    vmlinux: Path, catalogue: Catalogue, offered: set[int]
) -> None:
    with vmlinux.open("rb") as file:
        text = ELFFile(file).get_section_by_name(".text")
        code, base = text.data(), text["sh_addr"]
    decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    decoder.detail = True
    decoder.skipdata = True
    jumps = {
        i.address
        for i in decoder.disasm(code, base)
        if i.id and i.group(capstone.CS_GRP_JUMP) and i.mnemonic != "jmp" and i.address in offered
    }
    ranks = range(catalogue.site_count("delete_branch"))
    assert {catalogue.site("delete_branch", rank).instruction.address for rank in ranks} == jumps
    assert len(ranks) == 60 + 3  # many_*, short_branch, long_branch, no_kprobe
    assert catalogue.excluded_sites("delete_branch") == {"alternative": 1, "function does not decode": 1}


PROBED = {
    "short_branch": True,
    "no_kprobe": False,  # on the blacklist
    "no_kprobe.cold": False,  # part of a function on the blacklist
    "without_instrumentation": False,  # in .noinstr.text
    "__rcu_read_lock": False,  # run on the way to the injector's notifier, as the next
    "hw_breakpoint_exceptions_notify": False,
}


@pytest.mark.parametrize("name", PROBED)
def test_probes_stand_only_where_a_trap_is_safe(name: str, catalogue: Catalogue, symbols: Symbols) -> None:
    address, size = symbols[name]
    assert [catalogue.can_probe(address + offset) for offset in range(size)] == [PROBED[name]] * size


def test_names_of_aliases_and_nested_functions(catalogue: Catalogue, symbols: Symbols) -> None:
    assert catalogue.function_at(symbols["alias_of_short"][0]) == "short_branch"
    assert catalogue.function_at(symbols["inner"][0]) == "outer"


def test_instruction_of_any_of_its_bytes(catalogue: Catalogue, symbols: Symbols) -> None:
    start = symbols["short_branch"][0]  # test (3 bytes), je (2), mov (3), ret
    found = [catalogue.instruction_at(start + offset)[0] - start for offset in range(9)]
    assert found == [0, 0, 0, 3, 3, 5, 5, 5, 8]


def test_source_line_holds_the_instruction(catalogue: Catalogue, symbols: Symbols) -> None:
    lines = Path(__file__).with_name("victim.S").read_text().splitlines()
    for name, offset, text in [
        ("short_branch", 3, "je 1f"),
        ("long_branch", 3, "jg far_away"),
        ("long_branch", 10, "xor"),
    ]:
        path, _, line = catalogue.source(symbols[name][0] + offset).rpartition(":")
        assert path.endswith("victim.S")
        assert text in lines[int(line) - 1]
    assert catalogue.source(0x1000) == ""


def test_without_debug_information_there_is_no_source(link: Callable[..., Path], tmp_path: Path) -> None:
    bare = Catalogue.open(link("-Wl,--strip-debug"), tmp_path, RULES)
    assert bare.source(bare.byte_at(0)) == ""


def test_rejects_what_is_no_kernel(link: Callable[..., Path], tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("no kernel")
    for path, words in [
        (tmp_path / "missing", "No such file"),
        (text, "cannot be read as a vmlinux"),
        (link("-Wl,--strip-all"), ".symtab"),
        (link("-Wl,--build-id=none"), "no build id"),
    ]:
        with pytest.raises(EnvironmentFault, match=words) as caught:
            Catalogue.open(path, tmp_path / "cache", RULES)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)
    assert not (tmp_path / "cache").exists()
