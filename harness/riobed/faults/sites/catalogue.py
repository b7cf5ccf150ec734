# SPDX-License-Identifier: Apache-2.0
"""The fault-site catalogue: what may be changed in one kernel's text, and what is known about each site."""

from __future__ import annotations

import logging
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path

from riobed.errors import EnvironmentFault
from riobed.faults.sites.disassembly import LONGEST_INSTRUCTION, render
from riobed.faults.sites.flow import Function
from riobed.faults.sites.index import SiteIndex, index_sites
from riobed.faults.sites.index_file import read_index, write_index
from riobed.faults.sites.instructions import overlaps
from riobed.faults.sites.reader import Reader
from riobed.faults.sites.rule import Site, TextRule
from riobed.faults.sites.site_filter import SiteFilter
from riobed.faults.sites.vmlinux import TEXT, Symbol, Vmlinux

log = logging.getLogger(__name__)


class Catalogue:
    """Sites of one vmlinux. Addresses are the guest's virtual addresses (the guest boots without KASLR).

    `scope` describes for error messages which functions the sites are in.
    """

    section = TEXT

    def __init__(
        self, vmlinux: Vmlinux, index: SiteIndex, rules: Mapping[str, TextRule], scope: str = "this kernel"
    ) -> None:
        self._vmlinux = vmlinux
        self._index = index
        self._rules = rules
        self.scope = scope
        self._starts = [offset for offset, *_ in index.functions]
        self._unprobeable = [offset for offset, _ in index.unprobeable]

    @classmethod
    def open(
        cls, vmlinux: Path, cache: Path, rules: Mapping[str, TextRule], build_id: str | None = None
    ) -> Catalogue:
        """Return the catalogue of a vmlinux, read from the folder `cache` or computed and kept there.

        A cached catalogue that is damaged or of another build is replaced. Raises EnvironmentFault if vmlinux
        is not an unstripped x86-64 kernel or not the requested build, or if the cache cannot be written.
        """
        kernel = Vmlinux(vmlinux)
        if build_id is not None and kernel.build_id != build_id:
            raise EnvironmentFault(
                f"{vmlinux}: build {kernel.build_id}, the guest's kernel is {build_id}; run make setup"
            )
        path = cache / "fault-sites" / kernel.build_id
        try:
            return cls(kernel, read_index(path, kernel.build_id, len(kernel.text), rules), rules)
        except EnvironmentFault as why:
            log.info("%s; sweeping the kernel text", why)
        index = index_sites(kernel, rules)
        write_index(path, kernel.build_id, index)
        return cls(kernel, index, rules)

    def filtered(self, site_filter: SiteFilter) -> Catalogue:
        """Return the catalogue of what a filter selects; UsageError if a part of it matches nothing."""
        if site_filter == SiteFilter():
            return self
        index = self._index
        wanted = site_filter.wanted([(name, index.files[file]) for *_, name, file in index.functions])
        parts = [(f[0], f[0] + f[1]) for f, use in zip(index.functions, wanted, strict=True) if use]
        ranges = site_filter.instructions(self.build_id)
        if ranges is not None:
            text = self._vmlinux.text_start
            parts = list(overlaps(parts, ((start - text, end - text) for start, end in ranges)))
        spans = ((offset, offset + size) for offset, size in index.spans)
        inside = [(low, high - low) for low, high in overlaps(spans, parts)]
        sites = {name: _inside(offsets, parts) for name, offsets in index.sites.items()}
        scope = "the part of this kernel that `sites` leaves"
        return Catalogue(self._vmlinux, replace(index, spans=inside, sites=sites), self._rules, scope)

    @property
    def build_id(self) -> str:
        """Build id of the kernel, hex."""
        return self._vmlinux.build_id

    @property
    def excluded_bytes(self) -> dict[str, int]:
        """Bytes of the executable sections that must not be changed, by reason."""
        return dict(self._index.excluded_bytes)

    def excluded_sites(self, name: str) -> dict[str, int]:
        """Instructions that a class would change but must not, by reason."""
        return dict(self._index.excluded_sites[name])

    @cached_property
    def _span_ends(self) -> list[int]:
        return list(accumulate(size for _, size in self._index.spans))

    @property
    def byte_count(self) -> int:
        """How many bytes of text may be changed."""
        return self._span_ends[-1] if self._span_ends else 0

    def byte_at(self, rank: int) -> int:
        """Address of the rank-th byte that may be changed, 0 <= rank < byte_count."""
        span = bisect_right(self._span_ends, rank)
        offset, size = self._index.spans[span]
        return self._vmlinux.text_start + offset + size - (self._span_ends[span] - rank)

    def site_count(self, name: str) -> int:
        """How many instructions a class may change."""
        return len(self._index.sites[name])

    def site(self, name: str, rank: int) -> Site:
        """The rank-th site of a class, 0 <= rank < site_count(name)."""
        address = self._vmlinux.text_start + self._index.sites[name][rank]
        for site in self._rules[name].find(self._read(address)):
            if site.instruction.address == address and site.instruction.rewritten is None:
                return site
        raise EnvironmentFault(
            f"{address:#x} is no site of {name}; the fault-site cache is damaged, delete it"
        )

    def instruction_at(self, address: int) -> tuple[int, bytes]:
        """(address, bytes) of the instruction of a catalogued function that covers an address."""
        for instruction in self._read(address).instructions:
            if instruction.address <= address < instruction.end:
                return instruction.address, instruction.code
        raise EnvironmentFault(f"{address:#x} does not decode; the fault-site cache is damaged, delete it")

    def has(self, symbol: str) -> bool:
        """Whether the kernel has a symbol of that name."""
        return self._vmlinux.address_of(symbol) is not None

    def function_at(self, address: int) -> str:
        """Name of the function that holds an address."""
        return self._function(address).name

    def symbol(self, return_address: int) -> str | None:
        """Return a return address as function and offset, `iput+0x93`; None if it is in no function."""
        # A call may be the last instruction of its function.
        row = self._row(return_address - 1)
        if row is None:
            return None
        start, _, name, _ = self._index.functions[row]
        return f"{name}+{return_address - self._vmlinux.text_start - start:#x}"

    def functions_at(self, addresses: Iterable[int]) -> set[str]:
        """Names of the functions that hold the addresses; an address outside all functions is ignored."""
        found = (self._row(address) for address in addresses)
        return {self._index.functions[row][2] for row in found if row is not None}

    @cached_property
    def _reader(self) -> Reader:
        start = self._vmlinux.text_start
        return Reader(self._vmlinux, [start + offset for offset in self._index.entries])

    def _read(self, address: int) -> Function:
        return self._reader.read(self._function(address))

    def _function(self, address: int) -> Symbol:
        row = self._row(address)
        if row is None:
            raise EnvironmentFault(
                f"{address:#x} is in no function; the fault-site cache is damaged, delete it"
            )
        start, size, name, _ = self._index.functions[row]
        return Symbol(self._vmlinux.text_start + start, size, name)

    def _row(self, address: int) -> int | None:
        offset = address - self._vmlinux.text_start
        row = bisect_right(self._starts, offset) - 1
        if row < 0:
            return None
        start, size, _, _ = self._index.functions[row]
        return row if offset < start + size else None

    def code(self, address: int, size: int) -> bytes:
        """Bytes of kernel text as linked."""
        offset = address - self._vmlinux.text_start
        return self._vmlinux.text[offset : offset + size]

    def can_probe(self, address: int) -> bool:
        """Whether an activation probe may stand at an address."""
        offset = address - self._vmlinux.text_start
        row = bisect_right(self._unprobeable, offset) - 1
        return row < 0 or offset >= sum(self._index.unprobeable[row])

    def assembly(self, address: int, code: bytes) -> str:
        """Assembly of `code` placed at an address; decoding may run on into the text behind it."""
        return render(code + self.code(address + len(code), LONGEST_INSTRUCTION), address, len(code))

    def source(self, address: int) -> str:
        """`file:line`, "" if unknown."""
        return self._vmlinux.source(address)


def _slice(offsets: array[int] | list[int], low: int, high: int) -> range:
    """Indices of the offsets in low <= offset < high."""
    return range(bisect_left(offsets, low), bisect_left(offsets, high))


def _inside(offsets: array[int], parts: list[tuple[int, int]]) -> array[int]:
    result = array("I")
    for low, high in parts:
        found = _slice(offsets, low, high)
        result.extend(offsets[found.start : found.stop])
    return result
