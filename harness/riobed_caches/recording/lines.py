# SPDX-License-Identifier: Apache-2.0
"""Recording/Lines: splits the lines of a strace log into calls, whole or in two parts."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from riobed_caches.recording.skipped import Skipped

# The process, which is not there without -f; the time of -ttt; the rest.
_LINE = re.compile(rb"(?:(?:\[pid +)?(\d{1,10})\]? +)?(\d{1,11})\.(\d{1,9}) +(.*)", re.DOTALL)
_CALL = re.compile(rb"(\w+)\((.*)", re.DOTALL)
_RESUMED = re.compile(rb"<\.\.\. (\w+) resumed> ?(.*)", re.DOTALL)
_ENDED = re.compile(rb"\+\+\+ (?:exited with|killed by) ")
_SUPERSEDED = re.compile(rb"\+\+\+ superseded by execve in pid (\d{1,10}) \+\+\+")
_IGNORED = (b"--- ", b"+++ ")
_CUT = b"<unfinished ...>"
# A string, a path that -y shows behind a descriptor, or what separates arguments. A string that does not
# end reaches to the end of the line, so that the time to split a line grows with its length.
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|$)|(?<=[0-9D])</[^<>]*(?:<[^<>]*>)?>|[\[\]{}(),]', re.DOTALL)
_RESULT = re.compile(rb"\s*= (0x[0-9a-f]{1,16}|-?\d{1,20}|\?)(.*)", re.DOTALL)


@dataclass(slots=True)
class Call:
    """A system call: its arguments as they stand in the log, its result (-1: it failed, or did not return).

    `shown` is what the log has behind the result: the path of a descriptor, or the error. `resumed` says that
    a Began came before it.
    """

    number: int
    time: int
    task: int
    name: str
    args: list[bytes] = field(default_factory=list)
    result: int = -1
    shown: bytes = b""
    resumed: bool = False


@dataclass(slots=True)
class Began:
    """The first part of a call that strace shows in two; `text` are the arguments known so far."""

    number: int
    time: int
    task: int
    name: str
    text: bytes


@dataclass(slots=True)
class Ended:
    """A task exited or was killed."""

    number: int
    time: int
    task: int


@dataclass(slots=True)
class Superseded:
    """A task that led its process ended, as another task of it ran execve, and takes its number."""

    number: int
    time: int
    task: int
    by: int


Item = Call | Began | Ended | Superseded


class Lines:
    """Splits lines that end with a line feed or not; those that are not understood are counted.

    Times are in µs. Only calls of `wanted` are split and given out.
    """

    def __init__(self, lines: Iterable[bytes], wanted: frozenset[str], skipped: Skipped) -> None:
        self._lines = lines
        self._wanted = wanted
        self._skipped = skipped
        self._begun: dict[int, Began] = {}

    def __iter__(self) -> Iterator[Item]:
        for number, line in enumerate(self._lines, 1):
            try:
                item = self._item(number, line.rstrip(b"\r\n"))
            except ValueError:
                self._skipped.add(number)
            else:
                if item is not None:
                    yield item

    def _item(self, number: int, line: bytes) -> Item | None:
        head = _LINE.fullmatch(line)
        if head is None:
            raise ValueError("no line of strace")
        task = int(head[1] or 0)
        time = int(head[2]) * 1_000_000 + int(head[3][:6].ljust(6, b"0"))
        rest = head[4]
        if found := _CALL.match(rest):
            return self._call(number, time, task, found[1].decode(), found[2])
        if found := _RESUMED.match(rest):
            return self._resumed(number, time, task, found[1].decode(), found[2])
        self._begun.pop(task, None)
        if _ENDED.match(rest):
            return Ended(number, time, task)
        if found := _SUPERSEDED.match(rest):
            return Superseded(number, time, task, int(found[1]))
        if rest.startswith(_IGNORED):
            return None
        raise ValueError("no call")

    def _call(self, number: int, time: int, task: int, name: str, text: bytes) -> Item | None:
        self._begun.pop(task, None)
        if text.endswith(_CUT):
            began = Began(number, time, task, name, text.removesuffix(_CUT).rstrip(b" "))
            self._begun[task] = began
            return began if name in self._wanted else None
        if name not in self._wanted or text.endswith(b" ...>"):
            return None
        return _whole(Call(number, time, task, name), text)

    def _resumed(self, number: int, time: int, task: int, name: str, text: bytes) -> Call | None:
        began = self._begun.pop(task, None)
        if began is None and name.startswith("exec"):
            return None  # Superseded said it
        if began is None or began.name != name:
            raise ValueError("its first part is missing")
        if name not in self._wanted:
            return None
        return _whole(Call(number, time, task, name, resumed=True), began.text + text)


def _whole(call: Call, text: bytes) -> Call:
    """Split the arguments and the result of a call. ValueError if they are none."""
    args, rest = _split(text)
    found = _RESULT.fullmatch(rest)
    if found is None:
        raise ValueError("no result")
    call.args = args
    call.result = -1 if found[1] == b"?" else int(found[1], 0)
    call.shown = found[2]
    return call


def _split(text: bytes) -> tuple[list[bytes], bytes]:
    """Return the arguments before the parenthesis that closes a call, and what stands behind it."""
    args: list[bytes] = []
    depth = start = 0
    for token in _TOKEN.finditer(text):
        at, kind = token.start(), token[0]
        if kind in (b"(", b"[", b"{"):
            depth += 1
        elif kind == b"," and depth == 0:
            args.append(text[start:at].strip())
            start = token.end()
        elif kind in (b")", b"]", b"}"):
            if depth == 0:
                last = text[start:at].strip()
                return [*args, last] if last or args else [], text[token.end() :]
            depth -= 1
    raise ValueError("its arguments do not end")
