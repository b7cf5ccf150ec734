# SPDX-License-Identifier: Apache-2.0
"""What the kernel itself says of its file cache: /proc/meminfo (proc_meminfo(5))."""

import re
from dataclasses import dataclass

from riobed.errors import BootError

_LINE = re.compile(rb"^(\w+): +(\d{1,12}) kB$", re.MULTILINE)
_KIB = 1024


@dataclass(frozen=True)
class CacheUse:
    """The file cache as shares of the machine's RAM: all of it, and its dirty pages."""

    share: float
    dirty_share: float


def cache_use(meminfo: bytes, ram: int) -> CacheUse:
    """Read the file cache's shares of `ram` bytes from /proc/meminfo; BootError if a line is missing.

    It has files of all file systems and block devices, programs included, but no shared memory (tmpfs).
    """
    kib = {name.decode(): int(number) for name, number in _LINE.findall(meminfo)}
    try:
        cached = kib["Cached"] + kib["Buffers"] - kib["Shmem"]
        return CacheUse(cached * _KIB / ram, kib["Dirty"] * _KIB / ram)
    except KeyError as error:
        raise BootError(f"/proc/meminfo has no line {error}") from None
