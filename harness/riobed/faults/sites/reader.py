# SPDX-License-Identifier: Apache-2.0
"""Reads functions of a kernel, with what their bytes do not show: rewritten places and outside entries."""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from riobed.faults.sites.disassembly import Instruction, sweep
from riobed.faults.sites.exclusions import Range, patched_ranges
from riobed.faults.sites.flow import Function, target
from riobed.faults.sites.vmlinux import Symbol, Vmlinux

_JUMP_ENTRY = struct.Struct("<iiq")  # struct jump_entry: code and target, each relative to itself; key
_EX_ENTRY = struct.Struct(
    "<iii"
)  # struct exception_table_entry: insn and fixup, each relative to itself; type


class Reader:
    """Reads functions of one kernel. `entries`: what entries() returned, sorted addresses."""

    def __init__(self, vmlinux: Vmlinux, entries: Sequence[int]) -> None:
        self._vmlinux = vmlinux
        self._entries = entries
        self._patched = patched_ranges(vmlinux)
        self._starts = [r.start for r in self._patched]
        self._longest = max((r.end - r.start for r in self._patched), default=0)

    def read(self, symbol: Symbol) -> Function:
        """Return a function, up to where it decodes."""
        instructions = list(_sweep(self._vmlinux, symbol))
        if patched := self._patched_in(symbol):
            instructions = [i._replace(rewritten=_reason(patched, i)) for i in instructions]
        joined = {to for i in instructions if (to := target(i)) is not None}
        low, high = (bisect_left(self._entries, place) for place in (symbol.address, symbol.end))
        joined.update(self._entries[low:high])
        return Function(symbol.name, instructions, joined)

    def _patched_in(self, symbol: Symbol) -> list[Range]:
        low = bisect_left(self._starts, symbol.address - self._longest)
        high = bisect_left(self._starts, symbol.end)
        return [r for r in self._patched[low:high] if r.end > symbol.address]


def _sweep(vmlinux: Vmlinux, symbol: Symbol) -> Iterator[Instruction]:
    start = symbol.address - vmlinux.text_start
    return sweep(vmlinux.text[start : start + symbol.size], symbol.address)


def _reason(patched: Sequence[Range], instruction: Instruction) -> str | None:
    start, end = instruction.address, instruction.end
    return next((r.reason for r in patched if r.start < end and start < r.end), None)


def entries(vmlinux: Vmlinux, functions: Iterable[Symbol]) -> list[int]:
    """Return the places inside functions that can be reached from outside the function, by address.

    These are targets of jumps and calls of other functions, of jump tables and other pointers in data, of
    fixups of the exception table, and of jump labels. A number mistaken for a pointer costs only a few
    sites. Addresses that code computes are not found.
    """
    found = {*_pointers(vmlinux), *_targets(vmlinux)}
    starts = set()
    for symbol in functions:
        starts.add(symbol.address)
        for instruction in _sweep(vmlinux, symbol):
            to = target(instruction)
            if to is not None and not symbol.address <= to < symbol.end:
                found.add(to)
    return sorted(to for to in found - starts if vmlinux.text_start <= to < vmlinux.text_end)


def _pointers(vmlinux: Vmlinux) -> Iterator[int]:
    """Every aligned 64-bit word of data that points into the text."""
    for data in vmlinux.data_sections():
        words = struct.unpack_from(f"<{len(data) // 8}Q", data)
        yield from (word for word in words if vmlinux.text_start <= word < vmlinux.text_end)


def _targets(vmlinux: Vmlinux) -> Iterator[int]:
    """Second places of the entries of jump labels and exceptions."""
    for entry, start, end in (
        (_JUMP_ENTRY, "__start___jump_table", "__stop___jump_table"),
        (_EX_ENTRY, "__start___ex_table", "__stop___ex_table"),
    ):
        address, data = vmlinux.between(start, end)
        for offset in range(0, len(data) - entry.size + 1, entry.size):
            yield address + offset + 4 + entry.unpack_from(data, offset)[1]
