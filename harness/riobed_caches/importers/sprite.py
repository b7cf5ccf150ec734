# SPDX-License-Identifier: Apache-2.0
"""Importers/Sprite: the traces of Sprite's file servers, of 1991."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from riobed_caches.errors import TraceError
from riobed_caches.importers.importer import Importer, place, time_of
from riobed_caches.importers.text import MAX_BYTES, opened
from riobed_caches.trace.events import UNKNOWN, Event, Flag
from riobed_caches.trace.header import Has, Loss

# A magic number, which tells the byte order, and Sys_TracelogHeader, of which nothing is needed (sysStats.h
# of the Sprite kernel).
_MAGICS = (0x44554D50, 0x44554D51)
_HEADER = 4 + 80
# A record has its type and length in bytes in one word, two words of time, and a number of words that goes
# with its type (sospRecord.h of the kernel, sosp.h). The kernel gave creations the type of deletions.
_HEAD = 12
_OPEN, _DELETE, _LSEEK, _CLOSE, _MIGRATE, _TRUNCATE, _READ = 1, 2, 7, 8, 9, 10, 12
_DELETE_DESC, _LOST = 17, 128
_WORDS = {_OPEN: 20, _DELETE: 9, _LSEEK: 7, _CLOSE: 10, _MIGRATE: 7, _TRUNCATE: 8, _READ: 14}
_WORDS |= {_DELETE_DESC: 7, _LOST: 1}
_CREATION = 6
# Names, attributes, and what the server did about consistency.
_IGNORED = frozenset((3, 4, 5, 6, 11, 13, 14, 15, 16))
# Flags of an open (user/fs.h), of what was done since (fsutil.h), of a stream that several hosts use (fs.h).
_FS_READ, _FS_WRITE, _FS_APPEND, _FS_TRUNC = 0x1, 0x2, 0x8, 0x400
_DID_READ, _DID_WRITE = 0x100, 0x200
_FS_RMT_SHARED = 0x4000000
_FS_FILE = 0
_BOTH = "{} runs of streams that both read and wrote count as a read and as a write"
_OPEN_BEFORE = "{} records are of streams that were open before, or of no files: they are left out"
_REMAINED = "{} files lost a name, and were not deleted"
_Words = tuple[int, ...]


@dataclass(slots=True)
class _Stream:
    """An open file, at a host; `position` is where its next run of bytes begins."""

    file: tuple[_Words, int]
    handle: int
    host: int
    user: int
    mode: int
    position: int


class Sprite(Importer):
    """Records of a file server's kernel: opens, closes and seeks, with the offsets between them.

    What was read and written are the bytes between the offsets of two records of a stream, at the time of
    the later one; single calls are known only of files that were write-shared (Baker et al., "Measurements
    of a Distributed File System", SOSP 1991). The layout is from the sources of Sprite; no trace was at hand
    to try it on.
    """

    name = "sprite"
    reads = "Sprite trace of one file server, SOSP 1991 (binary)"
    has = (
        Has.TIMES,
        Has.DIRECTIONS,
        Has.OPENS,
        Has.DELETES,
        Has.SIZES,
        Has.CLIENTS,
        Has.USERS,
        Has.MIGRATIONS,
    )
    clock = "time since the server started"
    sees_not = (
        "single reads and writes are not seen, but runs of bytes, at the close or seek behind them",
        "fsyncs, and the pages of programs, are not seen",
    )

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._streams: dict[_Words, _Stream] = {}
        self._lives: dict[_Words, int] = {}
        self._unlinked: dict[_Words, int] = {}
        self._handles = 0
        self._first = 0

    def read(self) -> None:
        """Read the records; those that are not understood are counted. TraceError if it is no such file."""
        with opened(self.path) as stream:
            head = stream.read(_HEADER)
            whole = len(head) == _HEADER
            order = next((o for o in "><" if whole and struct.unpack(f"{o}I", head[:4])[0] in _MAGICS), None)
            if order is None:
                raise TraceError(self.path, "it is no trace of Sprite", "name its format")
            for count, (kind, time, words) in enumerate(self._records(stream, order), 1):
                try:
                    self._record(kind, time, words)
                except ValueError:
                    self.skipped.add(count)
        if self._unlinked:
            self.blind[_REMAINED] += len(self._unlinked)

    def _records(self, stream: BinaryIO, order: str) -> Iterator[tuple[int, int, _Words]]:
        """Give the type, the time in µs and the words of each record, in this byte order."""
        left = MAX_BYTES
        while head := stream.read(_HEAD):
            what, seconds, part = struct.unpack(f"{order}Iii", head.ljust(_HEAD, b"\0"))
            size = (what & 0xFFFF) - _HEAD
            body = stream.read(max(size, 0))
            left -= _HEAD + size
            if size < 0 or size % 4 or len(body) < size or left < 0:
                raise TraceError(self.path, "it is damaged, cut, or too long", "give a whole trace")
            yield what >> 16 & 0xFFF, seconds * 1_000_000 + part, struct.unpack(f"{order}{size // 4}i", body)

    def _record(self, kind: int, time: int, words: _Words) -> None:
        """Understand a record. ValueError if its type or length is unknown, or a number is wrong."""
        if kind in _IGNORED:
            return
        wanted = (_WORDS.get(kind), _CREATION if kind == _DELETE else None)
        # sosp.h has the type once more, in front of the words.
        if len(words) - 1 in wanted and words[0] == kind:
            words = words[1:]
        if len(words) not in wanted:
            raise ValueError("another length")
        if len(words) == wanted[0]:
            _MEANINGS[kind](self, time_of(time), words)

    def _opened(self, time: int, words: _Words) -> None:
        host, user, mode, size, kind = (words[i] for i in (0, 11, 12, 16, 18))
        if kind != _FS_FILE:
            return
        if size < 0:
            raise ValueError("no size")
        self._end(time, words[7:10])
        flags = Flag.FOR_READING if mode & _FS_READ else Flag.NONE
        flags |= Flag.FOR_WRITING if mode & _FS_WRITE else Flag.NONE
        flags |= Flag.EMPTIED if mode & _FS_TRUNC else Flag.NONE
        self._handles += 1
        position = size if mode & _FS_APPEND else 0
        stream = _Stream(self._file(words[3:6]), self._handles, host, user, mode, position)
        self._streams[words[7:10]] = stream
        self._add(time, Event.OPEN, stream, size=size, flags=flags)

    def _sought(self, time: int, words: _Words) -> None:
        if stream := self._stream(words[1:4]):
            self._run(time, stream, words[4], words[6])
            stream.position = words[5]

    def _closed(self, time: int, words: _Words) -> None:
        if stream := self._stream(words[1:4]):
            self._run(time, stream, words[4], words[7])
            if not words[6] & _FS_RMT_SHARED or words[8] <= 1:
                self._end(time, words[1:4])

    def _migrated(self, time: int, words: _Words) -> None:
        if stream := self._stream(words[3:6]):
            self._run(time, stream, words[6], 0)
            self._add(time, Event.MIGRATE, stream)
            stream.host = words[1]

    def _truncated(self, time: int, words: _Words) -> None:
        if stream := self._stream(words[1:4]):
            if words[5] < 0:
                raise ValueError("no size")
            self._add(time, Event.TRUNCATE, stream, size=words[5])

    def _shared(self, time: int, words: _Words) -> None:
        """Add a single transfer of a file that several hosts have open."""
        offset, length = place(words[10], words[11])
        if stream := self._stream(words[6:9]):
            self._run(time, stream, offset, 0)
            stream.host = words[0]
            event = Event.READ if words[9] else Event.WRITE
            if length:
                self._add(time, event, stream, offset=offset, length=length)
            stream.position = max(stream.position, offset + length)

    def _lost_name(self, time: int, words: _Words) -> None:
        self._unlinked[words[3:6]] = words[0]

    def _deleted(self, time: int, words: _Words) -> None:
        """Delete a file: its descriptor goes after its last name and its last close."""
        file = words[1:4]
        host = self._unlinked.pop(file, None)
        if file in self._lives:
            self.events.add(time, Event.DELETE, self._file(file), client=host)
            self._lives[file] += 1

    def _records_lost(self, time: int, words: _Words) -> None:
        if words[0] < 1:
            raise ValueError("no number of records")
        at = max(time - self._first, 0) if len(self.events) else 0
        self.lost.append(Loss(time=at, events=words[0], why="the buffer of the kernel was full"))

    def _file(self, file: _Words) -> tuple[_Words, int]:
        """Return what an id stands for now: the server uses the ids of deleted files again."""
        return file, self._lives.setdefault(file, 0)

    def _stream(self, sid: _Words) -> _Stream | None:
        stream = self._streams.get(sid)
        if stream is None:
            self.blind[_OPEN_BEFORE] += 1
        return stream

    def _end(self, time: int, sid: _Words) -> None:
        if stream := self._streams.pop(sid, None):
            self._add(time, Event.CLOSE, stream)

    def _run(self, time: int, stream: _Stream, end: int, did: int) -> None:
        """Add what a stream moved up to the offset `end`; its mode tells how, or what was done by it."""
        offset, length = place(stream.position, max(end - stream.position, 0))
        if not length:
            return
        stream.position = end
        reads, writes = bool(stream.mode & _FS_READ), bool(stream.mode & _FS_WRITE)
        if reads and writes and did & (_DID_READ | _DID_WRITE):
            reads, writes = bool(did & _DID_READ), bool(did & _DID_WRITE)
        if reads and writes:
            self.blind[_BOTH] += 1
        if reads:
            self._add(time, Event.READ, stream, offset=offset, length=length)
        if writes:
            self._add(time, Event.WRITE, stream, offset=offset, length=length)

    def _add(
        self,
        time: int,
        event: Event,
        stream: _Stream,
        *,
        offset: int = UNKNOWN,
        length: int = UNKNOWN,
        size: int = UNKNOWN,
        flags: Flag = Flag.NONE,
    ) -> None:
        self._first = self._first if len(self.events) else time
        self.events.add(
            time,
            event,
            stream.file,
            client=stream.host,
            user=stream.user,
            handle=stream.handle,
            offset=offset,
            length=length,
            size=size,
            flags=flags,
        )


_MEANINGS = {
    _OPEN: Sprite._opened,
    _DELETE: Sprite._lost_name,
    _LSEEK: Sprite._sought,
    _CLOSE: Sprite._closed,
    _MIGRATE: Sprite._migrated,
    _TRUNCATE: Sprite._truncated,
    _READ: Sprite._shared,
    _DELETE_DESC: Sprite._deleted,
    _LOST: Sprite._records_lost,
}
