# SPDX-License-Identifier: Apache-2.0
"""The log: what injectors/propagation wrote into the guest's memory during a replay.

A line is an event: its number from 1, its kind, the guest's monotonic clock in nanoseconds (the same clock as
the evidence), processor, process id and task name, the words of its kind, and the callers, innermost first.
The lines are in a ring of chunks in RAM, which the kernel under test may have damaged: lines that do not
parse are counted and dropped.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_NUMBER = rb"\d{1,20}"
_HEX = rb"[0-9a-f]{1,16}"
_FLAG = rb"[01]"
# The words of each kind of line between task and callers: injectors/propagation/README.md.
_KINDS = {
    b"entry": {
        "pfn": _HEX,
        "dev": _NUMBER,
        "ino": _NUMBER,
        "index": _NUMBER,
        "state": _HEX,
        "crc": _HEX,
    },
    b"change": {"pfn": _HEX, "changes": _NUMBER},
    b"window": {"pfn": _HEX, "open": _FLAG},
    b"verify": {"pfn": _HEX, "intact": _FLAG},
    b"trap": {"ip": _HEX, "address": _HEX},
    b"write": {"sector": _NUMBER, "bytes": _NUMBER, "of": rb"[bf-]", "ino": _NUMBER, "index": _NUMBER},
    b"done": {"sector": _NUMBER, "bytes": _NUMBER, "status": _NUMBER},
}
_HEAD = rb"(\d{1,15}) %s (\d{1,19}) (\d{1,3}) (\d{1,10}) ([!-~]{1,16}) "
_CALLERS = rb"((?: [0-9a-f]{1,8}){0,6})"
_PATTERNS = {
    kind: re.compile(_HEAD % kind + b" ".join(b"(" + word + b")" for word in words.values()) + _CALLERS)
    for kind, words in _KINDS.items()
}
# A line has the lower half of a return address in the kernel image.
_IMAGE = 0xFFFFFFFF << 32


@dataclass(frozen=True, slots=True)
class Event:
    """One line; `words` are those of its kind, `callers` return addresses in the kernel's image."""

    kind: str
    ns: int
    cpu: int
    pid: int
    task: str
    words: dict[str, int]
    callers: tuple[int, ...]


class EventLog:
    """The lines of a log in order.

    `unreadable` counts lines that do not parse, `lost` those overwritten before the first line.
    """

    def __init__(self, chunks: Iterable[bytes]) -> None:
        numbered: list[tuple[int, bytes]] = []
        self.unreadable = 0
        for line in (line for chunk in chunks for line in chunk.split(b"\n")):
            if not line.strip(b"\0"):
                continue
            number = _number(line)
            if number is None:
                self.unreadable += 1
            else:
                numbered.append((number, line))
        numbered.sort()
        self.lines = [line for _, line in numbered]
        self.lost = numbered[0][0] - 1 if numbered else 0

    def text(self) -> bytes:
        """The log as a file of lines."""
        return b"".join(line + b"\n" for line in self.lines)

    def events(self) -> Iterator[Event]:
        """Every event, in order."""
        return filter(None, map(read_event, self.lines))


def _number(line: bytes) -> int | None:
    """Return the number of a line that holds an event, else None."""
    return None if read_event(line) is None else int(line.partition(b" ")[0])


def read_event(line: bytes) -> Event | None:
    """Return the event in a line, or None."""
    kind = line.partition(b" ")[2].partition(b" ")[0]
    match = _PATTERNS[kind].fullmatch(line) if kind in _PATTERNS else None
    if match is None:
        return None
    _, ns, cpu, pid, task, *words, callers = match.groups()
    return Event(
        kind.decode(),
        int(ns),
        int(cpu),
        int(pid),
        task.decode(),
        {name: _value(form, word) for (name, form), word in zip(_KINDS[kind].items(), words, strict=True)},
        tuple(_IMAGE | int(address, 16) for address in callers.split()),
    )


def _value(form: bytes, word: bytes) -> int:
    """Return a word as a number; a single character as its code."""
    if form == _HEX:
        return int(word, 16)
    return int(word) if word.isdigit() else word[0]
