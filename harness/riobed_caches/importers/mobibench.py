# SPDX-License-Identifier: Apache-2.0
"""Importers/Mobibench: calls of Android programs, as MobiGen records them (mobigen.out)."""

from dataclasses import dataclass
from pathlib import Path

from riobed_caches.importers.importer import Importer, number, place
from riobed_caches.importers.text import lines
from riobed_caches.trace.events import Event, Flag
from riobed_caches.trace.header import Has

_IGNORED = frozenset((b"access", b"stat64", b"lstat64", b"fstat64"))
_OUTSIDE = (b"/dev/", b"/proc/", b"/sys/", b"dev/")
_POSITIONS = "{} transfers use descriptors that were open before: their position is counted from 0"
_DELETIONS = "{} deletions are of names that were not opened: they are left out"


@dataclass(slots=True)
class _Open:
    """A descriptor: its file, its handle (None: its opening is not in the trace), and where it is."""

    file: int
    handle: int | None = None
    append: bool = False
    position: int = 0


class Mobibench(Importer):
    """Thread, µs, call, arguments (ESOS-Lab/Mobibench, MobiGen).

    open path flags fd; close fd result; read fd bytes; write fd bytes; pread and pwrite fd offset bytes;
    fsync fd result; unlink path result. The lines of a thread stand together. The recorder put one name in
    place of most names, without quotes: each open of such a name counts as a file of its own.
    """

    name = "mobibench"
    reads = "Mobibench's trace of an Android program (mobigen.out)"
    # Not DELETES: hardly a deletion can be told to be that of a file with events.
    has = (Has.TIMES, Has.DIRECTIONS, Has.OPENS, Has.FSYNCS)
    clock = "µs since the start of the recording"
    sees_not = ("most names are replaced: a file opened twice counts as two, and is not seen to be deleted",)

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._open: dict[int, _Open | None] = {}
        self._files: dict[bytes, int] = {}
        self._ends: dict[int, int] = {}
        self._nameless: set[int] = set()
        self._made = 0

    def read(self) -> None:
        """Read all lines, and go through them by time: threads share their descriptors."""
        found = []
        for count, line in enumerate(lines(self.path), 1):
            try:
                thread, time, name, *args = line.split()
                found.append((self.in_order(thread, number(time)), count, name, args))
            except ValueError:
                self.skipped.add(count)
        for at, count, name, args in sorted(found):
            try:
                self._call(at, name, args)
            except (ValueError, IndexError):
                self.skipped.add(count)
        self.skipped.first.sort()

    def _call(self, time: int, name: bytes, args: list[bytes]) -> None:
        if name == b"open":
            self._opened(time, args[0], args[1].split(b"|"), _result(args[2]))
        elif name == b"close":
            self._close(time, number(args[0]))
        elif name in (b"read", b"write"):
            self._move(time, name, number(args[0]), None, _result(args[1]))
        elif name in (b"pread", b"pwrite"):
            self._move(time, name, number(args[0]), number(args[1]), _result(args[2]))
        elif name == b"fsync":
            if (entry := self._entry(number(args[0]))) and _result(args[1]) == 0:
                self.events.add(time, Event.FSYNC, entry.file, client=0, handle=entry.handle)
        elif name == b"unlink":
            if _result(args[1]) == 0:
                self._unlink(time, args[0])
        elif name not in _IGNORED:
            raise ValueError("an unknown call")

    def _opened(self, time: int, path: bytes, how: list[bytes], fd: int) -> None:
        if fd < 0:
            return
        self._close(time, fd)
        quoted = path.startswith(b'"')
        if path.strip(b'"').startswith(_OUTSIDE) or b"O_DIRECTORY" in how:
            self._open[fd] = None
            return
        self._made += 1
        file = self._files.setdefault(path, self._made) if quoted else self._made
        flags = Flag.NONE if b"O_WRONLY" in how else Flag.FOR_READING
        flags |= Flag.NONE if b"O_RDONLY" in how else Flag.FOR_WRITING
        flags |= Flag.CREATED if b"O_EXCL" in how else Flag.EMPTIED if b"O_TRUNC" in how else Flag.NONE
        flags |= Flag.DURABLE if b"O_SYNC" in how or b"O_DSYNC" in how else Flag.NONE
        name = path.strip(b'"').decode(errors="surrogateescape") if quoted else None
        self.events.add(time, Event.OPEN, file, client=0, handle=self._made, flags=flags, name=name)
        self._open[fd] = _Open(file, self._made, b"O_APPEND" in how)

    def _entry(self, fd: int) -> _Open | None:
        """Return what a descriptor stands for, a file that was open before if nothing else is known."""
        if fd not in self._open:
            self._made += 1
            self._open[fd] = _Open(self._made)
        return self._open[fd]

    def _close(self, time: int, fd: int) -> None:
        entry = self._open.pop(fd, None)
        if entry is None or entry.handle is None:
            return
        self.events.add(time, Event.CLOSE, entry.file, client=0, handle=entry.handle)
        self._end(time, entry.file)

    def _move(self, time: int, name: bytes, fd: int, offset: int | None, count: int) -> None:
        entry = self._entry(fd)
        if entry is None or count <= 0:
            return
        write = name.endswith(b"write")
        end = self._ends.get(entry.file, 0)
        at = end if write and entry.append else entry.position if offset is None else offset
        at, count = place(at, count)
        if offset is None:
            if entry.handle is None:
                self.blind[_POSITIONS] += 1
            entry.position = at + count
        self._ends[entry.file] = max(end, at + count)
        event = Event.WRITE if write else Event.READ
        self.events.add(time, event, entry.file, client=0, handle=entry.handle, offset=at, length=count)

    def _unlink(self, time: int, path: bytes) -> None:
        file = self._files.pop(path, None)
        if file is None:
            self.blind[_DELETIONS] += 1
        else:
            self._nameless.add(file)
            self._end(time, file)

    def _end(self, time: int, file: int) -> None:
        """Delete a file that has neither a name nor a handle."""
        if file in self._nameless and not any(entry and entry.file == file for entry in self._open.values()):
            self._nameless.discard(file)
            self.events.add(time, Event.DELETE, file, client=0)


def _result(text: bytes) -> int:
    """Return the result of a call, which is negative if it failed."""
    return -number(text[1:]) if text.startswith(b"-") else number(text)
