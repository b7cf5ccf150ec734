# SPDX-License-Identifier: Apache-2.0
"""The emulator's plugin that counts what a guest executes (harness/emulator/counter.c).

The work to be measured lies between marks, one before it and one after each part: the guest executes
comm_write(), a function of the kernel that nothing else calls, when a shell writes to /proc/self/comm.
"""

import struct
from itertools import pairwise
from pathlib import Path

from riobed.errors import InfraError
from riobed.faults import function_address
from riobed.products import KernelPart, Manifest
from riobed.vm import Plugin, compiled

# A shell's command that executes a mark.
MARK = "echo riobed >/proc/self/comm"
_FUNCTION = "comm_write"
COUNTERS = "counters"
# struct counters of counter.c.
NAMES = ("instructions", "repetitions", "invlpg", "wrmsr")
# Of the NVDIMM, if the plugin was told where it is: struct traffic of harness/emulator/traffic.h.
NVDIMM_NAMES = ("nvdimm_loads", "nvdimm_stores", "nvdimm_lines_read", "nvdimm_lines_written")
_ALL = (*NAMES, *NVDIMM_NAMES)
_MARKS = 16
_COUNTS = struct.Struct(f"<{len(_ALL)}Q")
_NR_MARKS = struct.Struct("<Q")
# A profile follows (riobed.measure.profile).
_SIZE = 4096


def counter(manifest: Manifest, kernel: KernelPart, *more: str, qemu: Path | None = None) -> Plugin:
    """Return the plugin for guests of a kernel, compiled first if missing; EnvironmentFault if that fails.

    `more` are arguments of the plugin, `qemu` the emulator that loads it, if it is not the host's.
    """
    mark = f"mark={function_address(kernel, _FUNCTION):#x}"
    return Plugin(compiled(manifest, "counter", qemu), COUNTERS, (mark, *more))


def marks(counters: Path) -> int:
    """Return the number of marks so far."""
    return int(_NR_MARKS.unpack_from(_read(counters))[0])


def between_marks(counters: Path, since: int, parts: int = 1) -> list[dict[str, int]]:
    """Return what was counted in each part of the work, between the marks after number `since`.

    A mark begins the work, and one ends each part. InfraError if there are more or fewer.
    """
    if (found := marks(counters) - since) != parts + 1 or found > _MARKS:
        raise InfraError(f"{counters}: {found} marks of the work, not {parts + 1} (at most {_MARKS})")
    at = [_mark(counters, since + number) for number in range(parts + 1)]
    return [
        {name: after - before for name, before, after in zip(_ALL, begin, end, strict=True)}
        for begin, end in pairwise(at)
    ]


def _mark(counters: Path, number: int) -> tuple[int, ...]:
    at = _NR_MARKS.size + number % _MARKS * _COUNTS.size
    return _COUNTS.unpack_from(_read(counters), at)


def _read(counters: Path) -> bytes:
    with counters.open("rb") as file:
        return file.read(_SIZE)
