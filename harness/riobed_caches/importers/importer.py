# SPDX-License-Identifier: Apache-2.0
"""Importers/Importer: what all importers share."""

from collections import Counter
from collections.abc import Hashable
from pathlib import Path
from typing import ClassVar

from riobed_caches.errors import TraceError
from riobed_caches.importers.text import lines
from riobed_caches.recording.skipped import Skipped
from riobed_caches.trace.builder import Builder
from riobed_caches.trace.check import MAX_END
from riobed_caches.trace.file import Trace
from riobed_caches.trace.header import Has, Header, Loss

# Times beyond it are nonsense: 2^61 µs are 73,000 years.
_MAX_TIME = 1 << 61


class Importer:
    """Reads one file of a format: a subclass says what the format is, and understands a line of it.

    `reads` is a line that says what the format is, `has` what a trace from it has, `clock` what its times
    are, and `sees_not` what it cannot know. `blind` counts what a single file leaves out.
    """

    name: ClassVar[str]
    reads: ClassVar[str]
    has: ClassVar[tuple[Has, ...]]
    clock: ClassVar[str]
    sees_not: ClassVar[tuple[str, ...]] = ()

    def __init__(self, path: Path) -> None:
        self.path = path
        self.events = Builder()
        self.skipped = Skipped()
        self.blind: Counter[str] = Counter()
        self.lost: list[Loss] = []
        self._last: dict[Hashable, int] = {}

    def line(self, line: bytes) -> None:
        """Add the events of a line. ValueError, IndexError or KeyError if it is not understood."""
        raise NotImplementedError

    def read(self) -> None:
        """Read the whole file; lines that are not understood are counted."""
        for number, line in enumerate(lines(self.path), 1):
            try:
                self.line(line)
            except (ValueError, IndexError, KeyError):
                self.skipped.add(number)

    def trace(self, *, keep_names: bool = False) -> Trace:
        """Return the trace of the file. TraceError if it cannot be read, or has no event."""
        self.read()
        if not len(self.events):
            what = f"no event in it; {self.skipped.count} lines are not of the format {self.name}"
            raise TraceError(self.path, what, "name its format")
        header = Header(
            recorder=f"import {self.name}",
            source=self.reads,
            clock=self.clock,
            has=list(self.has),
            blind=[*self.sees_not, *(what.format(count) for what, count in self.blind.items())],
            lost=self.lost,
            skipped=self.skipped.count,
            first_skipped=self.skipped.first,
        )
        return self.events.trace(header, keep_names=keep_names)

    def in_order(self, thread: Hashable, time: int) -> int:
        """Return a time, in µs. ValueError if it is before the last one of the thread, or no time."""
        if not self._last.get(thread, 0) <= time <= _MAX_TIME:
            raise ValueError("its clock went back")
        self._last[thread] = time
        return time


def time_of(microseconds: int) -> int:
    """Return a time, in µs. ValueError if it is none."""
    if not 0 <= microseconds <= _MAX_TIME:
        raise ValueError("no time")
    return microseconds


def place(offset: int, length: int) -> tuple[int, int]:
    """Return an offset and a length, in bytes. ValueError if a file cannot have them."""
    if offset < 0 or not 0 <= length <= MAX_END - offset:
        raise ValueError("no place of a file")
    return offset, length


def number(text: bytes, base: int = 10) -> int:
    """Return a number that is not negative, without signs, spaces and underscores, which int() takes."""
    if not text.isalnum() or len(text) > 20:
        raise ValueError("no number")
    return int(text, base)
