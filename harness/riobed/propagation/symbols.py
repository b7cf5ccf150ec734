# SPDX-License-Identifier: Apache-2.0
"""Maps return addresses to function names."""

from bisect import bisect_right
from itertools import takewhile

from riobed.faults.sites.vmlinux import Vmlinux

# Of the series' own functions only the one called from outside is informative.
_SERIES = "rio_"
_TRACING = ("__traceiter_", "trace_")


class Symbols:
    """Functions of the .text of a kernel that was booted without KASLR."""

    def __init__(self, vmlinux: Vmlinux) -> None:
        self._functions = vmlinux.functions()
        self._starts = [function.address for function in self._functions]

    def name(self, return_address: int) -> str:
        """Return the calling function, or the address itself if it lies in no function."""
        # A call may be the last instruction of its function.
        row = bisect_right(self._starts, return_address - 1) - 1
        if row >= 0 and return_address - 1 < self._functions[row].end:
            return self._functions[row].name
        return f"{return_address:#x}"

    def callers(self, addresses: tuple[int, ...]) -> list[str]:
        """Return names of return addresses, innermost first, starting at the series' hook if there is one."""
        names = [name for name in map(self.name, addresses) if not name.startswith(_TRACING)]
        inside = takewhile(lambda name: name.startswith(_SERIES), names)
        return names[max(len(list(inside)) - 1, 0) :]
