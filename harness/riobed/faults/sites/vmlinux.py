# SPDX-License-Identifier: Apache-2.0
"""What the catalogue reads from a vmlinux: text, symbols, tables, build id, source lines."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile

from riobed.errors import EnvironmentFault
from riobed.faults.sites.dwarf_lines import SourceLines

TEXT = ".text"
_ELF64_SYM = struct.Struct("<IBBHQQ")  # name, info, other, section index, value, size (ELF-64, figure 6)
_STT_FUNC = 2
_STB_GLOBAL = 1


@dataclass(frozen=True, slots=True)
class Symbol:
    """A named function of the symbol table; address and size in bytes."""

    address: int
    size: int
    name: str

    @property
    def end(self) -> int:
        """First address after the function."""
        return self.address + self.size


class Vmlinux:
    """A linked x86-64 kernel with symbols, opened for reading.

    Raises EnvironmentFault if the file is missing, is not such a kernel, or has no build id.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = path.open("rb")
            self._elf = ELFFile(self._file)
        except (OSError, ELFError) as error:
            raise EnvironmentFault(f"{path}: cannot be read as a vmlinux: {error}") from error
        if self._elf.get_machine_arch() != "x64":
            raise EnvironmentFault(f"{path}: not an x86-64 kernel; give the vmlinux the guest runs")
        text = self._section(TEXT)
        self.text_start: int = text["sh_addr"]
        self.text: bytes = text.data()
        self.build_id = self._build_id()

    @property
    def text_end(self) -> int:
        """First address after .text."""
        return self.text_start + len(self.text)

    def _section(self, name: str) -> Any:
        section = self._elf.get_section_by_name(name)
        if section is None:
            raise EnvironmentFault(f"{self.path}: no {name} section; an unstripped vmlinux is needed")
        return section

    def _build_id(self) -> str:
        for section in self._elf.iter_sections("SHT_NOTE"):
            for note in section.iter_notes():  # type: ignore[attr-defined]
                if (note["n_name"], note["n_type"]) == ("GNU", "NT_GNU_BUILD_ID"):
                    return str(note["n_desc"])
        raise EnvironmentFault(f"{self.path}: no build id note; link the kernel with --build-id")

    @cached_property
    def _symbols(self) -> list[tuple[int, int, int, int, str]]:
        """(address, size, type, binding, name) of every symbol."""
        table = self._section(".symtab")
        strings: bytes = self._elf.get_section(table["sh_link"]).data()
        return [
            (value, size, info & 15, info >> 4, strings[name : strings.index(b"\0", name)].decode())
            for name, info, _, _, value, size in _ELF64_SYM.iter_unpack(table.data())
        ]

    @cached_property
    def _addresses(self) -> dict[str, int]:
        return {name: address for address, _, _, _, name in self._symbols}

    def address_of(self, name: str) -> int | None:
        """Address of a symbol, None if there is no such symbol."""
        return self._addresses.get(name)

    def addresses_named(self, pattern: str) -> list[int]:
        """Addresses of the symbols whose whole names match a regular expression."""
        fits = re.compile(pattern).fullmatch
        return sorted({address for name, address in self._addresses.items() if fits(name)})

    def functions(self) -> list[Symbol]:
        """Functions of .text by address, one per start address: of aliases the longest, then a global one."""
        best: dict[int, tuple[tuple[int, bool, str], Symbol]] = {}
        for address, size, kind, binding, name in self._symbols:
            if kind != _STT_FUNC or size == 0 or not self.text_start <= address < self.text_end:
                continue
            rank = (-size, binding != _STB_GLOBAL, name)
            if address not in best or rank < best[address][0]:
                best[address] = (rank, Symbol(address, size, name))
        return [best[address][1] for address in sorted(best)]

    def executable_sections(self) -> Iterator[tuple[str, int]]:
        """(name, size in bytes) of every section mapped executable."""
        for section in self._elf.iter_sections():
            flags = section["sh_flags"]
            if flags & SH_FLAGS.SHF_ALLOC and flags & SH_FLAGS.SHF_EXECINSTR:
                yield section.name, section["sh_size"]

    def data_sections(self) -> Iterator[bytes]:
        """Content of every section that is loaded and not executable."""
        for section in self._elf.iter_sections("SHT_PROGBITS"):
            if section["sh_flags"] & SH_FLAGS.SHF_ALLOC and not section["sh_flags"] & SH_FLAGS.SHF_EXECINSTR:
                yield section.data()

    def sections_named(self, prefix: str) -> Iterator[tuple[int, bytes]]:
        """(address, content) of every allocated section whose name begins with prefix."""
        for section in self._elf.iter_sections():
            if section.name.startswith(prefix) and section["sh_flags"] & SH_FLAGS.SHF_ALLOC:
                yield section["sh_addr"], section.data()

    def between(self, start: str, end: str) -> tuple[int, bytes]:
        """Address and content of the table between two symbols; (0, b"") if this kernel has no such table."""
        low, high = self.address_of(start), self.address_of(end)
        if low is None or high is None or low == high:
            return 0, b""
        for section in self._elf.iter_sections():
            first = section["sh_addr"]
            if first and first <= low and high <= first + section["sh_size"]:
                return low, section.data()[low - first : high - first]
        raise EnvironmentFault(
            f"{self.path}: {start} lies in no section; the file is damaged, build it again"
        )

    @cached_property
    def _lines(self) -> SourceLines | None:
        if not self._elf.has_dwarf_info():
            return None
        return SourceLines(self._elf.get_dwarf_info(relocate_dwarf_sections=False))

    def source_file(self, address: int) -> str:
        """Source file that the code at an address was compiled from, "" if unknown."""
        return self._lines.unit(address) if self._lines is not None else ""

    def source(self, address: int) -> str:
        """`file:line` of an instruction, "" if the debug information has none."""
        return self._lines.find(address) if self._lines is not None else ""
