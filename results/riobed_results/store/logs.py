# SPDX-License-Identifier: Apache-2.0
"""Console logs that rows name: compressed files below a folder, or members of the archive in that folder.

Names and archives are untrusted. A name is checked before it is followed; a member is read, never
unpacked, and all that is read is bounded.
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

# In a published folder. Logs of a campaign are much alike: together they take a third of their single sizes.
ARCHIVE = "logs.tar.xz"
MAX_LOG = 64 << 20  # bytes; of a longer log the beginning counts
_MAX_ARCHIVE = 1 << 30  # bytes of text
_MAX_MEMBERS = 100_000
_DAMAGE = (OSError, EOFError, ValueError, RecursionError, zlib.error, lzma.LZMAError, tarfile.TarError)


def inside(logs: Path, log: str) -> bool:
    """Is `log` a file below the folder it should be in?"""
    try:
        path = (logs / log).resolve()
        return ".." not in Path(log).parts and path.is_file() and path.is_relative_to(logs.resolve())
    except (OSError, ValueError):  # a name too long, or with a NUL
        return False


def member_name(log: str) -> str:
    """Return what an archive calls the log; the member itself is not compressed."""
    return log.removesuffix(".gz")


def label(log: str) -> str:
    """Return the short name of a log, by which tables and `riobed log` know it."""
    return PurePosixPath(member_name(log)).name.removesuffix(".log")


class Logs:
    """The console logs of a folder, by the names that rows have for them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.archive = folder / ARCHIVE

    def __contains__(self, log: str) -> bool:
        return inside(self.folder, log) or member_name(log) in self.members

    def read(self, log: str) -> bytes:
        """Return the text of a log, at most MAX_LOG bytes; StoreError if it is missing or damaged."""
        if log not in self:
            raise StoreError(f"{self.folder}: has no log {log!r}; give the folder of the logs with --logs")
        if not inside(self.folder, log):
            return self._read_member(member_name(log))
        path = self.folder / log
        with _explained(path), gzip.open(path) as file:
            return file.read(MAX_LOG)

    @cached_property
    def members(self) -> frozenset[str]:
        """Return the names of the archive's members; none without an archive."""
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
    """Write an archive of these logs: the same logs give the same bytes (with the same liblzma).

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
    """Open an archive to be read once, from its beginning."""
    with (
        _explained(path),
        lzma.open(path) as text,
        tarfile.open(fileobj=_Bounded(text, _MAX_ARCHIVE), mode="r|") as archive,
    ):
        yield archive


def _files(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    return (member for member in islice(archive, _MAX_MEMBERS) if member.isreg())


class _Bounded(io.RawIOBase):
    """A file of which only so many bytes can be read."""

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
    """How a page leads to a log: the address of the log or of the archive it is in, and its short name."""

    address: str
    label: str


class Links:
    """From a log's name, relative to `logs`, to what a page in `folder` says to get there."""

    def __init__(self, logs: Path, folder: Path) -> None:
        self._logs = Logs(logs)
        self._folder = folder

    def __call__(self, log: str | None) -> Link | None:
        """Return the way to a log; None if there is no such log."""
        if not log or log not in self._logs:
            return None
        path = self._logs.folder / log if inside(self._logs.folder, log) else self._logs.archive
        return Link(quote(os.path.relpath(path.resolve(), self._folder.resolve())), label(log))

    @property
    def archive(self) -> str | None:
        """Return the name of the archive that the logs are in; None if they are files."""
        return ARCHIVE if self._logs.archive.is_file() else None
