# SPDX-License-Identifier: Apache-2.0
"""The fault-site catalogue: what may be changed in one kernel's text, and everything known about a site."""

from __future__ import annotations

import logging
from bisect import bisect_right
from functools import cached_property
from itertools import accumulate
from pathlib import Path

from riobed.errors import EnvironmentFault
from riobed.faults.cachefile import read_index, write_index
from riobed.faults.disassembly import LONGEST_INSTRUCTION, render, sweep
from riobed.faults.sites import SiteIndex, index_sites
from riobed.faults.vmlinux import TEXT, Vmlinux

log = logging.getLogger(__name__)


class Catalogue:
    """Sites of one vmlinux. Addresses are the guest's virtual addresses (the guest boots without KASLR)."""

    section = TEXT

    def __init__(self, vmlinux: Vmlinux, index: SiteIndex) -> None:
        self._vmlinux = vmlinux
        self._index = index
        self._starts = [offset for offset, _, _ in index.functions]
        self._unprobeable = [offset for offset, _ in index.unprobeable]

    @classmethod
    def open(cls, vmlinux: Path, cache: Path) -> Catalogue:
        """The catalogue of a vmlinux, from `cache` (a folder) or made anew and kept there.

        A cached one that is damaged or of another build is replaced. Raises EnvironmentFault when vmlinux is
        no unstripped x86-64 kernel or the cache cannot be written.
        """
        kernel = Vmlinux(vmlinux)
        path = cache / "fault-sites" / kernel.build_id
        try:
            return cls(kernel, read_index(path, kernel.build_id, len(kernel.text)))
        except EnvironmentFault as why:
            log.info("%s; sweeping the kernel text", why)
        index = index_sites(kernel)
        write_index(path, kernel.build_id, index)
        return cls(kernel, index)

    @property
    def build_id(self) -> str:
        """Build id of the kernel, hex."""
        return self._vmlinux.build_id

    @property
    def excluded_bytes(self) -> dict[str, int]:
        """Bytes of executable sections that are no site of `kernel_text`, by reason."""
        return dict(self._index.excluded_bytes)

    @property
    def excluded_branches(self) -> dict[str, int]:
        """Conditional jumps that are no site of `delete_branch`, by reason."""
        return dict(self._index.excluded_branches)

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

    @property
    def branch_count(self) -> int:
        """How many conditional jumps may be changed."""
        return len(self._index.branches)

    def branch_at(self, rank: int) -> int:
        """Address of the rank-th conditional jump that may be changed."""
        return self._vmlinux.text_start + self._index.branches[rank]

    def instruction_at(self, address: int) -> tuple[int, bytes]:
        """(address, bytes) of the instruction of a catalogued function that covers an address."""
        start, size, _ = self._function(address)
        code = self.code(start, size)
        for place, length, _ in sweep(code, start):
            if place <= address < place + length:
                return place, code[place - start : place - start + length]
        raise EnvironmentFault(f"{address:#x} does not decode; the fault-site cache is damaged, delete it")

    def function_at(self, address: int) -> str:
        """Name of the function that holds an address."""
        return self._function(address)[2]

    def _function(self, address: int) -> tuple[int, int, str]:
        """(address, size, name)."""
        offset = address - self._vmlinux.text_start
        row = bisect_right(self._starts, offset) - 1
        if row >= 0:
            start, size, name = self._index.functions[row]
            if offset < start + size:
                return self._vmlinux.text_start + start, size, name
        raise EnvironmentFault(f"{address:#x} is in no function; the fault-site cache is damaged, delete it")

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
        """Assembly of `code` if it stood at an address, read on into the text behind it where needed."""
        return render(code + self.code(address + len(code), LONGEST_INSTRUCTION), address, len(code))

    def source(self, address: int) -> str:
        """`file:line`, "" if unknown."""
        return self._vmlinux.source(address)
