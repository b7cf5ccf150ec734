# SPDX-License-Identifier: Apache-2.0
"""The index of fault sites of one kernel: which bytes and branches of its text may be changed.

Made by one linear sweep over every function of the symbol table. Plain integers, so that it can be cached.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from riobed.faults.disassembly import CONDITIONAL_JUMPS, sweep
from riobed.faults.exclusions import Range, merged, patched_ranges, unprobeable_ranges
from riobed.faults.vmlinux import TEXT, Symbol, Vmlinux

FREED = "freed after boot"
OUTSIDE = "outside functions"
UNDECODED = "function does not decode"


@dataclass(slots=True)
class SiteIndex:
    """Sites of one kernel build. All offsets are in bytes from the start of .text.

    `functions`: (offset, size, name) by offset. `spans`: (offset, size) of runs of whole instructions that
    may be changed, by offset, none crossing a function's end. `branches`: offsets of conditional jumps within
    spans. `unprobeable`: (offset, size) where no activation probe may stand. `excluded_bytes`,
    `excluded_branches`: what is left out, by reason; spans and excluded bytes together are all executable
    bytes of the file.
    """

    functions: list[tuple[int, int, str]] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    branches: list[int] = field(default_factory=list)
    unprobeable: list[tuple[int, int]] = field(default_factory=list)
    excluded_bytes: dict[str, int] = field(default_factory=dict)
    excluded_branches: dict[str, int] = field(default_factory=dict)


def index_sites(vmlinux: Vmlinux) -> SiteIndex:
    """Sweep the whole text of a kernel (seconds). Raises EnvironmentFault if a table cannot be read."""
    functions = vmlinux.functions()
    builder = _Builder(vmlinux, patched_ranges(vmlinux))
    for function in _without_nested(functions):
        builder.add(function)
    index = builder.index
    index.unprobeable = _offsets(unprobeable_ranges(vmlinux, functions), vmlinux)
    swept = sum(size for _, size in index.spans) + builder.bytes.total()
    builder.bytes[OUTSIDE] = len(vmlinux.text) - swept
    builder.bytes[FREED] = sum(size for name, size in vmlinux.executable_sections() if name != TEXT)
    index.excluded_bytes = dict(sorted(builder.bytes.items()))
    index.excluded_branches = dict(sorted(builder.branches.items()))
    return index


def _without_nested(functions: Iterable[Symbol]) -> list[Symbol]:
    """Functions that begin inside another one are part of that one."""
    result: list[Symbol] = []
    for function in functions:
        if not result or function.address >= result[-1].end:
            result.append(function)
    return result


def _offsets(ranges: Iterable[Range], vmlinux: Vmlinux) -> list[tuple[int, int]]:
    return [
        (r.start - vmlinux.text_start, r.end - r.start)
        for r in merged(ranges)
        if vmlinux.text_start <= r.start < vmlinux.text_end
    ]


class _Builder:
    """Collects spans and branches function by function."""

    def __init__(self, vmlinux: Vmlinux, patched: Sequence[Range]) -> None:
        self.index = SiteIndex()
        self.bytes: Counter[str] = Counter()
        self.branches: Counter[str] = Counter()
        self._vmlinux = vmlinux
        self._patched = patched
        self._starts = [r.start for r in patched]
        self._longest = max((r.end - r.start for r in patched), default=0)

    def add(self, function: Symbol) -> None:
        """Sweep one function; excluded as a whole if it does not decode exactly to its end."""
        base = self._vmlinux.text_start
        code = self._vmlinux.text[function.address - base : function.end - base]
        instructions = list(sweep(code, function.address))
        if not instructions or instructions[-1][0] + instructions[-1][1] != function.end:
            self.bytes[UNDECODED] += len(code)
            self.branches[UNDECODED] += sum(mnemonic in CONDITIONAL_JUMPS for *_, mnemonic in instructions)
            return
        self.index.functions.append((function.address - base, len(code), function.name))
        patched = self._patched_in(function.address, function.end)
        span_start = function.address
        for address, size, mnemonic in instructions:
            reason = _reason(patched, address, address + size) if patched else None
            if reason is not None:
                self._span(span_start, address)
                span_start = address + size
                self.bytes[reason] += size
            if mnemonic in CONDITIONAL_JUMPS:
                if reason is None:
                    self.index.branches.append(address - base)
                else:
                    self.branches[reason] += 1
        self._span(span_start, function.end)

    def _span(self, start: int, end: int) -> None:
        if start < end:
            self.index.spans.append((start - self._vmlinux.text_start, end - start))

    def _patched_in(self, start: int, end: int) -> list[Range]:
        low = bisect_left(self._starts, start - self._longest)
        high = bisect_left(self._starts, end)
        return [r for r in self._patched[low:high] if r.end > start]


def _reason(patched: Sequence[Range], start: int, end: int) -> str | None:
    return next((r.reason for r in patched if r.start < end and start < r.end), None)
