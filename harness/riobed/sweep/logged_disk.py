# SPDX-License-Identifier: Apache-2.0
"""A loop device whose writes are logged in their order, by QEMU's filter blklogwrites."""

import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from riobed.errors import InfraError
from riobed.sweep.host import run, tool

SECTOR = 512
_MAGIC = 0x6A736677736872
# struct log_write_entry
_ENTRY = struct.Struct("<QQQQ")
_DISCARD = 4


@dataclass(frozen=True)
class Write:
    """What a request wrote, from `offset` on, in bytes."""

    offset: int
    data: bytes


@dataclass(frozen=True)
class Logged:
    """The writes of a log in their order, and where each one ends in it; flushes are left out.

    Format: Documentation/admin-guide/device-mapper/log-writes.rst; drivers/md/dm-log-writes.c of the kernel.
    """

    writes: list[Write]
    ends: list[int]

    @classmethod
    def read(cls, log: Path) -> Self:
        """Read a log; InfraError if it is none."""
        raw, at = log.read_bytes(), SECTOR
        if struct.unpack_from("<Q", raw) != (_MAGIC,):
            raise InfraError(f"{log}: is no log of a disk's writes")
        found = cls([], [])
        while at + SECTOR <= len(raw):
            sector, count, flags, _ = _ENTRY.unpack_from(raw, at)
            at += SECTOR
            if count and not flags & _DISCARD:
                found.writes.append(Write(sector * SECTOR, raw[at : at + count * SECTOR]))
                at += count * SECTOR
                found.ends.append(at)
        return found

    def end(self, number: int) -> int:
        """How many bytes the log has after so many writes; more than any has, if there are not so many."""
        if not number:
            return 0
        return self.ends[number - 1] if number <= len(self.ends) else 1 << 62


@contextmanager
def logged(image: Path, log: Path) -> Iterator[Path]:
    """The loop device of an image. What is written to it is in `log` when it has been left."""
    place = log.with_suffix(".place")
    log.write_bytes(b"")
    place.write_bytes(b"")
    nodes = [
        f"driver=file,node-name=image,filename={image}",
        f"driver=file,node-name=log,filename={log}",
        f"driver=blklogwrites,node-name=logged,file=image,log=log,log-sector-size={SECTOR}",
    ]
    command = [tool("qemu-storage-daemon"), *(word for node in nodes for word in ("--blockdev", node))]
    export = f"type=fuse,id=export,node-name=logged,mountpoint={place},writable=on"
    with subprocess.Popen([*command, "--export", export]) as daemon:
        try:
            _wait_for(lambda: place.stat().st_size == image.stat().st_size)
            # Without direct I/O there is one request at a time. QEMU 7.2 mixes up the data of several.
            device = Path(run("losetup", "-f", "--show", "--direct-io=off", place).decode().strip())
            try:
                yield device
            finally:
                run("losetup", "-d", device)
        finally:
            daemon.terminate()
            daemon.wait()


def _wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(6000):
        if condition():
            return
        time.sleep(0.01)
    raise InfraError("qemu-storage-daemon exports nothing")
