# SPDX-License-Identifier: Apache-2.0
"""A profile: in which functions a guest executed instructions of its work (harness/emulator/counter.c)."""

from array import array
from bisect import bisect_right
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from riobed.faults.sites.vmlinux import Vmlinux
from riobed.products import KernelPart

# Where the counts by place begin in the file, and what comes before those of the text, as in counter.c.
_BEGIN = 4096
_BEFORE_TEXT = 2


class CodeLocation(NamedTuple):
    """A function of the kernel and its source file, `fs/ext4/inode.c`; what is no function has no file."""

    function: str
    file: str


USER = CodeLocation("user mode", "")
# Modules, and what the kernel generates while it runs.
ELSEWHERE = CodeLocation("outside the kernel's text", "")
# The ways into the kernel and out of it, in assembler.
NO_FUNCTION = CodeLocation("in no function", "")


def text_range(kernel: KernelPart) -> str:
    """Return the plugin's argument that asks for a profile."""
    vmlinux = Vmlinux(kernel.vmlinux)
    return f"text={vmlinux.text_start:x}:{vmlinux.text_end:x}"


def profile(counters: Path, kernel: KernelPart, parts: int) -> list[Counter[CodeLocation]]:
    """Return the instructions by place in each part of the first work of a guest, without repetitions."""
    vmlinux = Vmlinux(kernel.vmlinux)
    locations = _Locations(vmlinux)
    size = _BEFORE_TEXT + len(vmlinux.text)
    with counters.open("rb") as file:
        file.seek(_BEGIN)
        marks = []
        for _ in range(parts + 1):
            counts = array("Q")
            counts.fromfile(file, size)
            marks.append({at: count for at, count in enumerate(counts) if count})
    return [locations.sums(begin, end) for begin, end in pairwise(marks)]


class _Locations:
    """What is at each place of a kernel."""

    def __init__(self, vmlinux: Vmlinux) -> None:
        self._vmlinux = vmlinux
        self._functions = vmlinux.functions()
        self._starts = [function.address for function in self._functions]
        self._of_function: dict[int, CodeLocation] = {}

    def sums(self, begin: dict[int, int], end: dict[int, int]) -> Counter[CodeLocation]:
        """Return what was counted between two marks."""
        found: Counter[CodeLocation] = Counter()
        for at, count in end.items():
            if more := count - begin.get(at, 0):
                found[self._location(at)] += more
        return found

    def _location(self, at: int) -> CodeLocation:
        if at < _BEFORE_TEXT:
            return (USER, ELSEWHERE)[at]
        address = self._vmlinux.text_start + at - _BEFORE_TEXT
        number = bisect_right(self._starts, address) - 1
        if number < 0 or address >= self._functions[number].end:
            return NO_FUNCTION
        if number not in self._of_function:
            function = self._functions[number]
            self._of_function[number] = CodeLocation(
                function.name, self._vmlinux.source_file(function.address)
            )
        return self._of_function[number]
