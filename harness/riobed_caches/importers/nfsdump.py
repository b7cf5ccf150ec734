# SPDX-License-Identifier: Apache-2.0
"""Importers/Nfsdump: the calls of NFS clients, as Ellard's nfsdump prints them."""

import re
from collections.abc import Hashable
from pathlib import Path

from riobed_caches.importers.importer import Importer, number, place, time_of
from riobed_caches.trace.check import MAX_END
from riobed_caches.trace.events import Event, Flag
from riobed_caches.trace.header import Has

_WORD = re.compile(rb'"[^"]*"|\S+')
_UNANSWERED = "{} calls have no reply: they are left out"
_REGULAR = b"1"
Fields = dict[bytes, bytes]


class Nfsdump(Importer):
    """Time in s, from, to, U or T, C or R and version, xid, number and name of the call, pairs of fields.

    All other numbers are hexadecimal, and each field may be missing (D. Ellard, format.txt of nfsdump, 2003).
    A reply has `OK` or an error before its fields. A call counts at its time, if its reply is OK.
    """

    name = "nfsdump"
    reads = "NFS calls as nfsdump prints them (Ellard)"
    has = (Has.TIMES, Has.DIRECTIONS, Has.DELETES, Has.FSYNCS, Has.CLIENTS)
    clock = "clock of the network monitor"
    sees_not = (
        "transfers are those that the caches of the clients let through",
        "opens and closes are not part of NFS",
        "a deletion is seen only of files whose names a lookup, create or link showed before",
    )

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._calls: dict[Hashable, tuple[int, Fields]] = {}
        self._files: dict[tuple[bytes, bytes], bytes] = {}
        self._links: dict[bytes, int] = {}

    def read(self) -> None:
        """Read the file, and count the calls without a reply."""
        super().read()
        if self._calls:
            self.blind[_UNANSWERED] += len(self._calls)

    def line(self, line: bytes) -> None:
        """Keep a call, or add the events of the call that a reply answers."""
        words = _WORD.findall(line)
        seconds, source, target, _, kind, xid, _, name = words[:8]
        if kind[:1] == b"C":
            time = self.in_order(source, _microseconds(seconds))
            self._calls[source, xid, kind[1:], name] = time, _fields(words[8:])
        elif kind[:1] == b"R":
            known = self._calls.pop((target, xid, kind[1:], name), None)
            if known is None:
                raise ValueError("a reply without a call")
            if words[8] == b"OK":
                self._done(name, target.rpartition(b".")[0], *known, _fields(words[9:]))
        else:
            raise ValueError("neither a call nor a reply")

    def _done(self, name: bytes, client: bytes, time: int, call: Fields, reply: Fields) -> None:
        if name in (b"read", b"write"):
            self._move(time, client, name == b"write", call, reply)
        elif name == b"commit":
            self.events.add(time, Event.FSYNC, call[b"file"], client=client, user=call.get(b"euid"))
        elif name == b"setattr" and b"size" in call:
            self._cut(time, client, call[b"fh"], _hex(call[b"size"]), call)
        elif name in (b"lookup", b"create"):
            self._found(time, client, name == b"create", call, reply)
        elif name == b"link":
            self._link(call)
        elif name == b"remove":
            self._remove(time, client, _in_folder(call), call)
        elif name == b"rename":
            self._rename(time, client, call)

    def _move(self, time: int, client: bytes, write: bool, call: Fields, reply: Fields) -> None:
        """Add a transfer; NFS 2 gives no count in its reply, and its writes are durable (RFC 1094, 2.2.9)."""
        offset = _hex(call[b"off" if b"off" in call else b"offset"])
        asked = _hex(call[b"count" if b"count" in call else b"tcount"])
        offset, length = place(offset, _hex(reply[b"count"]) if b"count" in reply else asked)
        if length > asked:
            raise ValueError("more bytes than were asked for")
        durable = write and call.get(b"stable", b"F") != b"U"
        self.events.add(
            time,
            Event.WRITE if write else Event.READ,
            call[b"fh"],
            client=client,
            user=call.get(b"euid"),
            offset=offset,
            length=length,
            flags=Flag.DURABLE if durable else Flag.NONE,
        )

    def _cut(self, time: int, client: bytes, file: bytes, size: int, call: Fields) -> None:
        if size > MAX_END:
            raise ValueError("no size")
        self.events.add(time, Event.TRUNCATE, file, client=client, user=call.get(b"euid"), size=size)

    def _found(self, time: int, client: bytes, created: bool, call: Fields, reply: Fields) -> None:
        """Learn the file of a name; one that was created, or emptied so, is empty."""
        if reply[b"ftype"] != _REGULAR:
            return
        file = reply[b"fh"]
        self._files[_in_folder(call)] = file
        self._links[file] = _hex(reply.get(b"nlink", b"1"))
        if created and _hex(reply.get(b"size", b"0")) == 0:
            self._cut(time, client, file, 0, call)

    def _link(self, call: Fields) -> None:
        self._files[call[b"fh2"], _name(call, b"name", b"fn2")] = call[b"fh"]
        self._links[call[b"fh"]] = self._links.get(call[b"fh"], 1) + 1

    def _remove(self, time: int, client: bytes, where: tuple[bytes, bytes], call: Fields) -> None:
        """Take away a name; the file is deleted with its last one."""
        file = self._files.pop(where, None)
        if file is not None:
            self._links[file] -= 1
            if self._links[file] <= 0:
                self.events.add(time, Event.DELETE, file, client=client, user=call.get(b"euid"))

    def _rename(self, time: int, client: bytes, call: Fields) -> None:
        """Move a name; a file that had the new one loses it."""
        old, new = _in_folder(call), (call[b"fh2"], _name(call, b"name2", b"fn2"))
        if old == new:
            return
        self._remove(time, client, new, call)
        if (file := self._files.pop(old, None)) is not None:
            self._files[new] = file


def _fields(words: list[bytes]) -> Fields:
    """Return the pairs of fields; of two of one name, as of a file and its directory, the first."""
    fields: Fields = {}
    for key, value in zip(words[::2], words[1::2], strict=False):
        fields.setdefault(key, value)
    return fields


def _in_folder(call: Fields) -> tuple[bytes, bytes]:
    return call[b"fh"], _name(call, b"name", b"fn")


def _name(call: Fields, *keys: bytes) -> bytes:
    """Return the field of the first key that there is: NFS 2 has other names than NFS 3."""
    return next((call[key] for key in keys if key in call), b"") or call[keys[0]]


def _hex(text: bytes) -> int:
    return number(text, 16)


def _microseconds(seconds: bytes) -> int:
    whole, _, part = seconds.partition(b".")
    return time_of(number(whole) * 1_000_000 + number((part + b"000000")[:6]))
