# SPDX-License-Identifier: Apache-2.0
"""The index of fault sites of one kernel: which bytes and instructions of its text may be changed.

It is made by a linear sweep over every function of the symbol table, and holds plain integers for the cache.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from riobed.faults.sites.disassembly import Instruction
from riobed.faults.sites.effects import effects
from riobed.faults.sites.exclusions import FTRACE, Range, merged, unprobeable_ranges
from riobed.faults.sites.flow import Function
from riobed.faults.sites.reader import Reader, entries
from riobed.faults.sites.rule import TextRule
from riobed.faults.sites.vmlinux import TEXT, Symbol, Vmlinux

FREED = "freed after boot"
OUTSIDE = "outside functions"
UNDECODED = "function does not decode"
BESIDE = "beside code that is rewritten"


@dataclass(slots=True)
class SiteIndex:
    """Sites of one kernel build. All offsets are in bytes from the start of .text, all lists sorted by them.

    `functions`: (offset, size, name, index of its source file in `files`). `spans`: (offset, size) of runs of
    whole instructions that may be changed, none crossing a function's end. `unprobeable`: (offset, size)
    where no activation probe may stand. `entries`: offsets that are jumped to from other functions or
    through pointers. `sites`: by class, offsets of the instructions that it may change. `excluded_bytes` and
    `excluded_sites` (by class): what is excluded, by reason. Spans and excluded bytes together are all
    executable bytes of the file.
    """

    functions: list[tuple[int, int, str, int]] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    unprobeable: list[tuple[int, int]] = field(default_factory=list)
    entries: array[int] = field(default_factory=lambda: array("I"))
    sites: dict[str, array[int]] = field(default_factory=dict)
    excluded_bytes: dict[str, int] = field(default_factory=dict)
    excluded_sites: dict[str, dict[str, int]] = field(default_factory=dict)


def index_sites(vmlinux: Vmlinux, rules: Mapping[str, TextRule]) -> SiteIndex:
    """Sweep the whole text of a kernel (half a minute). Raises EnvironmentFault if a table cannot be read."""
    functions = vmlinux.functions()
    outermost = _without_nested(functions)
    builder = _Builder(vmlinux, rules, entries(vmlinux, outermost))
    for symbol in outermost:
        builder.add(symbol)
    effects.cache_clear()
    index = builder.finish()
    index.unprobeable = _offsets(unprobeable_ranges(vmlinux, functions), vmlinux)
    return index


def _without_nested(functions: Iterable[Symbol]) -> list[Symbol]:
    """Drop functions that begin inside another one; they are part of that one."""
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
    """Collects spans and sites function by function."""

    def __init__(self, vmlinux: Vmlinux, rules: Mapping[str, TextRule], places: list[int]) -> None:
        self._vmlinux = vmlinux
        self._rules = rules
        self._reader = Reader(vmlinux, places)
        self._files: dict[str, int] = {}
        self._bytes: Counter[str] = Counter()
        self._excluded: dict[str, Counter[str]] = {name: Counter() for name in rules}
        self._index = SiteIndex(
            entries=array("I", (place - vmlinux.text_start for place in places)),
            sites={name: array("I") for name in rules},
        )

    def add(self, symbol: Symbol) -> None:
        """Sweep one function; exclude it as a whole if it does not decode exactly to its end."""
        function = self._reader.read(symbol)
        decodes = bool(function.instructions) and function.instructions[-1].end == symbol.end
        for name, rule in self._rules.items():
            self._add_sites(name, rule, function, decodes)
        if not decodes:
            self._bytes[UNDECODED] += symbol.size
            return
        file = self._files.setdefault(self._vmlinux.source_file(symbol.address), len(self._files))
        offset = symbol.address - self._vmlinux.text_start
        self._index.functions.append((offset, symbol.size, symbol.name, file))
        self._add_spans(function)

    def _add_spans(self, function: Function) -> None:
        start = function.instructions[0].address
        for instruction in function.instructions:
            if instruction.rewritten is not None:
                self._span(start, instruction.address)
                start = instruction.end
                self._bytes[instruction.rewritten] += len(instruction.code)
        self._span(start, function.instructions[-1].end)

    def _span(self, start: int, end: int) -> None:
        if start < end:
            self._index.spans.append((start - self._vmlinux.text_start, end - start))

    def _add_sites(self, name: str, rule: TextRule, function: Function, decodes: bool) -> None:
        found = {site.instruction for site in rule.find(function)}
        good = sorted(i.address for i in found if i.rewritten is None)
        if decodes:
            self._index.sites[name].extend(address - self._vmlinux.text_start for address in good)
            self._excluded[name].update(i.rewritten for i in found if i.rewritten is not None)
            self._excluded[name].update(_lost(rule, function, {i.address for i in found}))
        else:
            self._excluded[name].update(UNDECODED for _ in found)

    def finish(self) -> SiteIndex:
        """Return the index without the unprobeable ranges."""
        index = self._index
        text = len(self._vmlinux.text)
        self._bytes[OUTSIDE] = text - sum(size for _, size in index.spans) - self._bytes.total()
        sections = self._vmlinux.executable_sections()
        self._bytes[FREED] = sum(size for name, size in sections if name != TEXT)
        index.files = list(self._files)
        index.excluded_bytes = dict(sorted(self._bytes.items()))
        index.excluded_sites = {name: dict(sorted(counts.items())) for name, counts in self._excluded.items()}
        return index


def _lost(rule: TextRule, function: Function, found: set[int]) -> list[str]:
    """Return a reason for each site that is lost because the running kernel rewrites it."""
    if all(i.rewritten in (None, FTRACE) for i in function.instructions):
        return []
    reasons: dict[Instruction, str] = {
        i._replace(rewritten=None): i.rewritten or BESIDE for i in function.instructions
    }
    as_linked = Function(function.name, list(reasons), function.joined)
    lost = {site.instruction for site in rule.find(as_linked)}
    return [reasons[i] for i in lost if i.address not in found]
