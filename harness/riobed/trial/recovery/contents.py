# SPDX-License-Identifier: Apache-2.0
"""Bytes of files compared on the host: the guest says where they lie, the host reads the disk's image.

What the guest says is not believed: it is only where to read, and what is read there must be right.
"""

import fcntl
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Timer

from riobed.errors import InfraError
from riobed.vm import ExecResult, Machine, Qcow2, qemu_user

BLOCK_MAP = "/usr/lib/riobed/block-map"
CONTENTS_S = 300.0
_EQUAL, _DIFFERS = 0, 3
# include/uapi/linux/fiemap.h: extents with these flags alone have their bytes on the disk as they are, or
# have never been written.
_LAST, _UNWRITTEN, _MERGED = 0x1, 0x800, 0x1000
_PLAIN = _LAST | _UNWRITTEN | _MERGED
_LINE = re.compile(
    rb"([0-9a-f]{1,15})((?: [0-9a-f]{1,15}:[0-9a-f]{1,15}:[0-9a-f]{1,15}:[0-9a-f]{1,8})*) - (.+)"
)
# As large as a pipe may be by default (man 7 pipe).
_PIPE = 1 << 20
_ZEROS = bytes(1 << 16)


class NotMappedError(Exception):
    """The bytes of the files cannot be found on the disk, so only the guest can read them."""


@dataclass(frozen=True)
class MappedFile:
    """A file of `size` bytes.

    `extents` has offset in the file, offset on the disk, and length of each piece that was written.
    """

    path: bytes
    size: int
    extents: tuple[tuple[int, int, int], ...]


def parse_map(text: bytes, disk: int) -> list[MappedFile]:
    """Parse what block-map prints of files on a disk of that size.

    NotMappedError if it is malformed, if extents of a file overlap or are behind the disk's end, if files are
    larger than the disk together, or if the bytes of one are not on the disk as they are read.
    """
    files = [_file(line, disk) for line in text.splitlines()]
    if text and not text.endswith(b"\n"):
        raise NotMappedError("it is cut short")
    if sum(file.size for file in files) > disk:
        raise NotMappedError("files are larger than their disk")
    return files


def _file(line: bytes, disk: int) -> MappedFile:
    match = _LINE.fullmatch(line)
    if not match:
        raise NotMappedError("it is malformed")
    size, written, end = int(match[1], 16), [], 0
    for extent in match[2].split():
        logical, physical, length, flags = (int(number, 16) for number in extent.split(b":"))
        if flags & ~_PLAIN or logical < end or not length or physical + length > disk:
            raise NotMappedError("an extent is of a kind that cannot be read")
        end = logical + length
        if not flags & _UNWRITTEN and logical < size:
            written.append((logical, physical, min(length, size - logical)))
    return MappedFile(match[3], size, tuple(written))


def pieces(image: Qcow2, file: MappedFile) -> Iterator[tuple[int | None, int]]:
    """Yield the file's bytes from first to last, as Qcow2.pieces() does."""
    at = 0
    for logical, physical, length in file.extents:
        if logical > at:
            yield None, logical - at
        yield from image.pieces(physical, length)
        at = logical + length
    if file.size > at:
        yield None, file.size - at


def wrong_files(machine: Machine, folder: str, listed: str, argv: list[str], programs: Path) -> list[str]:
    """Compare the bytes of files, and return the paths of those that differ.

    The guest's file `listed` has their paths in `folder`. `argv` compares them, in the folder `programs`.
    NotMappedError if the guest cannot say where they lie, InfraError if the comparison fails.
    """
    with Qcow2(machine.config.test_disk) as image:
        mapped = machine.run([BLOCK_MAP, folder, listed], timeout=CONTENTS_S)
        if mapped.status:
            raise NotMappedError(mapped.error)
        files = parse_map(mapped.stdout, image.size)
        result = feed(argv, programs, lambda pipe: send(image, files, pipe))
    if result.status not in (_EQUAL, _DIFFERS) or bool(result.stdout) != (result.status == _DIFFERS):
        raise InfraError(f"the comparison on the host failed with status {result.status}: {result.error}")
    return result.stdout.decode("utf-8", "backslashreplace").splitlines()


def send(image: Qcow2, files: list[MappedFile], pipe: int) -> None:
    """Write the files into a pipe as the command `contents` of a workload takes them."""
    for file in files:
        write_all(pipe, b"%d %s\n" % (file.size, file.path))
        for at, length in pieces(image, file):
            if at is None:
                for start in range(0, length, len(_ZEROS)):
                    write_all(pipe, _ZEROS[: length - start])
                continue
            while length:
                # No copy: the pages of the host's file cache.
                sent = os.splice(image.fd, pipe, length, offset_src=at)
                if not sent:
                    raise InfraError("the disk's image ends where the comparison reads")
                at, length = at + sent, length - sent


def write_all(pipe: int, data: bytes) -> None:
    """Write all of `data`."""
    while data:
        data = data[os.write(pipe, data) :]


def feed(argv: list[str], folder: Path, write: Callable[[int], None]) -> ExecResult:
    """Run a command in a folder, without privileges, with what `write` writes on its standard input.

    InfraError if it ends before it has read that, or takes over CONTENTS_S seconds.
    """
    user = qemu_user()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            argv,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=err,
            user=user and user.pw_uid,
            group=user and user.pw_gid,
            extra_groups=[] if user else None,
        )
        assert process.stdin
        late = Timer(CONTENTS_S, process.kill)
        late.start()
        refused = False
        try:
            with process.stdin:
                fcntl.fcntl(process.stdin, fcntl.F_SETPIPE_SZ, _PIPE)
                write(process.stdin.fileno())
        except BrokenPipeError:
            refused = True
        except BaseException:
            process.kill()
            raise
        finally:
            status = process.wait()
            late.cancel()
        out.seek(0)
        err.seek(0)
        result = ExecResult(status if status >= 0 else 128 - status, out.read(), err.read())
    if refused:
        raise InfraError(f"the comparison on the host ended early, status {result.status}: {result.error}")
    return result
