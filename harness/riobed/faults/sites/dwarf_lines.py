# SPDX-License-Identifier: Apache-2.0
"""Source file and line of one instruction, from DWARF.

pyelftools reads the headers. This module runs the line program itself, and only up to the wanted row:
building all rows of a unit costs ten times as much, and every trial looks up 20 addresses.
"""

from __future__ import annotations

import posixpath
from functools import cached_property
from typing import Any

from elftools.dwarf.dwarfinfo import DWARFInfo

# Line-number program opcodes: DWARF 5, section 6.2.5 (the same in DWARF 4).
_EXTENDED, _COPY, _ADVANCE_PC, _ADVANCE_LINE, _SET_FILE = 0, 1, 2, 3, 4
_CONST_ADD_PC, _FIXED_ADVANCE_PC = 8, 9
_END_SEQUENCE, _SET_ADDRESS = 1, 2


class SourceLines:
    """Looks up source lines in the debug information of one file."""

    def __init__(self, dwarf: DWARFInfo) -> None:
        self._dwarf = dwarf
        self._units: dict[int, str] = {}

    @cached_property
    def _aranges(self) -> Any:
        return self._dwarf.get_aranges()

    def unit(self, address: int) -> str:
        """Return the source file compiled to the address, relative to its compilation folder, or ""."""
        offset = self._aranges.cu_offset_at_addr(address) if self._aranges is not None else None
        if offset is None:
            return ""
        if offset not in self._units:
            self._units[offset] = self._unit_name(offset)
        return self._units[offset]

    def _unit_name(self, offset: int) -> str:
        attributes = self._dwarf.get_CU_at(offset).get_top_DIE().attributes
        name, folder = (
            attributes[key].value.decode(errors="replace") if key in attributes else ""
            for key in ("DW_AT_name", "DW_AT_comp_dir")
        )
        return posixpath.normpath(name.removeprefix(f"{folder}/")) if name else ""

    def find(self, address: int) -> str:
        """`file:line`, "" if the debug information does not cover the address."""
        unit = self._aranges.cu_offset_at_addr(address) if self._aranges is not None else None
        if unit is None:
            return ""
        program = self._dwarf.line_program_for_CU(self._dwarf.get_CU_at(unit))
        if program is None:
            return ""
        stream = program.stream
        stream.seek(program.program_start_offset)
        code = stream.read(program.program_end_offset - program.program_start_offset)
        row = _Machine(code, program.header).find(address)
        if row is None:
            return ""
        file, line = row
        first = (
            0 if program["version"] >= 5 else 1
        )  # files and folders count from 0 since DWARF 5, section 6.2.4
        return f"{_path(program, program['file_entry'][file - first], first)}:{line}"


def _path(program: Any, entry: Any, first: int) -> str:
    """A file as named to the compiler, without the compilation folder."""
    name = str(entry.name.decode(errors="replace"))
    if entry.dir_index == 0:
        return name
    folder = program["include_directory"][entry.dir_index - first].decode(errors="replace")
    return posixpath.normpath(f"{folder}/{name}")


class _Machine:
    """The line-number state machine (DWARF 5, section 6.2.2), without unused registers."""

    def __init__(self, code: bytes, header: Any) -> None:
        self._code = code
        self._lengths: list[int] = header["standard_opcode_lengths"]
        self._base: int = header["opcode_base"]
        self._line_base: int = header["line_base"]
        self._line_range: int = header["line_range"]
        self._reset()

    def _reset(self) -> None:
        self._address, self._file, self._line = 0, 1, 1

    def find(self, wanted: int) -> tuple[int, int] | None:
        """(file, line) of the row that covers an address; None if no sequence does."""
        code, base, line_base, line_range = self._code, self._base, self._line_base, self._line_range
        before: tuple[int, int, int] | None = None
        at = 0
        while at < len(code):
            opcode = code[at]
            at += 1
            end_of_sequence = False
            if opcode >= base:
                self._address += (opcode - base) // line_range
                self._line += line_base + (opcode - base) % line_range
            elif opcode == _EXTENDED:
                at, end_of_sequence = self._extended(at)
                if not end_of_sequence:
                    continue
            elif opcode != _COPY:
                at = self._standard(opcode, at)
                continue
            # A row is complete; the previous row of the same sequence ends here.
            if before is not None and before[0] <= wanted < self._address:
                return before[1], before[2]
            before = (self._address, self._file, self._line)
            if end_of_sequence:
                before = None
                self._reset()
        return None

    def _extended(self, at: int) -> tuple[int, bool]:
        """Run an extended opcode: (offset after it, whether it ends the sequence)."""
        size, at = _uleb(self._code, at)
        if self._code[at] == _SET_ADDRESS:
            self._address = int.from_bytes(self._code[at + 1 : at + size], "little")
        return at + size, self._code[at] == _END_SEQUENCE

    def _standard(self, opcode: int, at: int) -> int:
        """Run a standard opcode that makes no row: offset after it."""
        if opcode == _CONST_ADD_PC:
            self._address += (255 - self._base) // self._line_range
        elif opcode == _FIXED_ADVANCE_PC:
            self._address += int.from_bytes(self._code[at : at + 2], "little")
            return at + 2
        elif opcode in (_ADVANCE_PC, _SET_FILE, _ADVANCE_LINE):
            start = at
            value, at = _uleb(self._code, at)
            if opcode == _ADVANCE_PC:
                self._address += value
            elif opcode == _SET_FILE:
                self._file = value
            else:
                self._line += _signed(value, at - start)
        else:
            for _ in range(self._lengths[opcode - 1]):
                _, at = _uleb(self._code, at)
        return at


def _uleb(code: bytes, at: int) -> tuple[int, int]:
    """(value, offset after it) of an unsigned LEB128 number."""
    value = code[at]
    at += 1
    if value < 0x80:
        return value, at
    value &= 0x7F
    shift = 7
    while True:
        byte = code[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _signed(value: int, size: int) -> int:
    """An unsigned LEB128 value of `size` bytes read as signed."""
    bits = 7 * size
    return value - (1 << bits) if value >> (bits - 1) else value
