# SPDX-License-Identifier: Apache-2.0
"""Console logs that rows name: compressed files in a folder, or members of the folder's archive.

Names and archives are untrusted. A name is checked before it is followed; a member is read but never
unpacked; every read is bounded.
"""

import gzip
import io
import lzma
import os
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from riobed_results.errors import StoreError

# In a published folder. Logs of a campaign are similar, so one archive takes a third of their separate sizes.
ARCHIVE = "logs.tar.xz"
MAX_LOG = 64 << 20  # bytes; a longer log is truncated
_MAX_ARCHIVE = 1 << 30  # bytes, uncompressed
_MAX_MEMBERS = 100_000
_DAMAGE = (OSError, EOFError, ValueError, RecursionError, zlib.error, lzma.LZMAError, tarfile.TarError)


def inside(logs: Path, log: str) -> bool:
    """Whether `log` is a file inside the folder `logs`."""
    try:
        path = (logs / log).resolve()
        return ".." not in Path(log).parts and path.is_file() and path.is_relative_to(logs.resolve())
    except (OSError, ValueError):  # the name is too long or contains a NUL
        return False


def member_name(log: str) -> str:
    """Return a log's member name in an archive, whose members are not compressed on their own."""
    return log.removesuffix(".gz")


def label(log: str) -> str:
    """Return the short name of a log, which tables and `riobed log` use."""
    return PurePosixPath(member_name(log)).name.removesuffix(".log")


class Logs:
    """The console logs of a folder, by the names in rows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.archive = folder / ARCHIVE

    def __contains__(self, log: str) -> bool:
        return inside(self.folder, log) or member_name(log) in self.members

    def read(self, log: str) -> bytes:
        """Return the first MAX_LOG bytes of a log; StoreError if it is missing or damaged."""
        if log not in self:
            raise StoreError(f"{self.folder}: has no log {log!r}; give the folder of the logs with --logs")
        if not inside(self.folder, log):
            return self._read_member(member_name(log))
        path = self.folder / log
        with _explained(path), gzip.open(path) as file:
            return file.read(MAX_LOG)

    @cached_property
    def members(self) -> frozenset[str]:
        """The names of the archive's members; empty without an archive."""
        if not self.archive.is_file():
            return frozenset()
        with _opened(self.archive) as archive:
            return frozenset(member.name for member in _files(archive))

    def _read_member(self, name: str) -> bytes:
        with _opened(self.archive) as archive:
            member = next(member for member in _files(archive) if member.name == name)
            file = archive.extractfile(member)
            return file.read(MAX_LOG) if file else b""


def pack(logs: Logs, names: Iterable[str], path: Path) -> None:
    """Write an archive of these logs, deterministically: equal logs give equal bytes (with the same liblzma).

    StoreError if a log is missing or damaged; OSError if the archive cannot be written.
    """
    with tarfile.open(path, "w:xz", format=tarfile.USTAR_FORMAT) as archive:
        for name in sorted(set(names)):
            text = logs.read(name)
            member = tarfile.TarInfo(member_name(name))
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        raise StoreError(f"log {path}: {error}; restore it from a copy") from error


@contextmanager
def _opened(path: Path) -> Iterator[tarfile.TarFile]:
    """Open an archive for one sequential read."""
    with (
        _explained(path),
        lzma.open(path) as text,
        tarfile.open(fileobj=_Bounded(text, _MAX_ARCHIVE), mode="r|") as archive,
    ):
        yield archive


def _files(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    return (member for member in islice(archive, _MAX_MEMBERS) if member.isreg())


class _Bounded(io.RawIOBase):
    """A file from which at most `limit` bytes can be read."""

    def __init__(self, file: Any, limit: int) -> None:
        self._file = file
        self._left = limit

    def read(self, size: int = -1) -> bytes:
        if size < 0 or size > self._left:
            raise ValueError("more text than an archive of logs may have")
        data: bytes = self._file.read(size)
        self._left -= len(data)
        return data


@dataclass(frozen=True)
class Link:
    """A link to a log: the address of the log or of its archive, and the log's short name."""

    address: str
    label: str


class Links:
    """Makes links from a page in `folder` to logs, whose names are relative to `logs`."""

    def __init__(self, logs: Path, folder: Path) -> None:
        self._logs = Logs(logs)
        self._folder = folder

    def __call__(self, log: str | None) -> Link | None:
        """Return the link to a log; None if there is no such log."""
        if not log or log not in self._logs:
            return None
        path = self._logs.folder / log if inside(self._logs.folder, log) else self._logs.archive
        return Link(quote(os.path.relpath(path.resolve(), self._folder.resolve())), label(log))

    @property
    def archive(self) -> str | None:
        """The name of the archive that contains the logs; None if they are files."""
        return ARCHIVE if self._logs.archive.is_file() else None
