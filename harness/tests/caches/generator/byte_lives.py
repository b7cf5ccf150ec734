# SPDX-License-Identifier: Apache-2.0
"""The exact fate and age of each written byte of a trace, plainly."""

from collections import Counter
from typing import NamedTuple

import numpy as np
from riobed_caches.trace.events import Event, Flag
from riobed_caches.trace.file import Trace

# Plain numbers, because an IntFlag is slow.
OPEN, CLOSE, WRITE = int(Event.OPEN), int(Event.CLOSE), int(Event.WRITE)
DELETE, TRUNCATE = int(Event.DELETE), int(Event.TRUNCATE)
EMPTIED, FOR_WRITING = int(Flag.EMPTIED), int(Flag.FOR_WRITING)


class Run(NamedTuple):
    start: int
    end: int
    time: int


class Lives:
    """The fates of bytes in infinite caches under Sprite's consistency, and `dead`: ages in µs and sizes."""

    def __init__(self, trace: Trace) -> None:
        self.fates: Counter[str] = Counter()
        self.dead: list[tuple[int, int]] = []
        self._dirty: dict[int, tuple[int, list[Run]]] = {}
        # Of each file and client, whether each of its opens is for writing.
        self._open: dict[int, dict[int, list[int]]] = {}
        self._shared: set[int] = set()
        self._handles: dict[int, tuple[int, int]] = {}
        names = ("time", "client", "event", "file", "handle", "offset", "length", "size", "flags")
        for row in zip(*(trace.columns[name].tolist() for name in names), strict=True):
            self._step(*row)
        for _, runs in self._dirty.values():
            self.fates["remaining"] += sum(run.end - run.start for run in runs)

    def _step(self, now, client, event, file, handle, offset, length, size, flags) -> None:
        if event == OPEN:
            self._handles[handle] = (client, flags)
            self._opened(file, client, flags)
            if flags & EMPTIED:
                self._die(now, file, 0, None, "deleted")
            return
        if handle >= 0 and self._handles[handle][0] != client:
            before, flags = self._handles[handle]
            self._left(file, before, flags)
            self._opened(file, client, flags)
            self._handles[handle] = (client, flags)
        if event == CLOSE:
            self._left(file, client, self._handles[handle][1])
        elif event == WRITE and file in self._shared:
            self.fates["concurrent"] += length
        elif event == WRITE:
            self._die(now, file, offset, offset + length, "overwritten")
            self._dirty.setdefault(file, (client, []))[1].append(Run(offset, offset + length, now))
        elif event in (DELETE, TRUNCATE):
            self._die(now, file, max(0, size), None, "deleted")

    def _opened(self, file: int, client: int, flags: int) -> None:
        opens = self._open.setdefault(file, {})
        opens.setdefault(client, []).append(flags & FOR_WRITING)
        shared = len(opens) > 1 and any(map(any, opens.values()))
        if shared:
            self._shared.add(file)
        if file in self._dirty and (shared or self._dirty[file][0] != client):
            self.fates["called_back"] += sum(run.end - run.start for run in self._dirty.pop(file)[1])

    def _left(self, file: int, client: int, flags: int) -> None:
        opens = self._open[file]
        opens[client].remove(flags & FOR_WRITING)
        if not opens[client]:
            del opens[client]
        if not opens:
            self._shared.discard(file)

    def _die(self, now: int, file: int, low: int, high: int | None, fate: str) -> None:
        if file not in self._dirty:
            return
        client, runs = self._dirty.pop(file)
        left = []
        for run in runs:
            start, end = max(run.start, low), run.end if high is None else min(run.end, high)
            if start >= end:
                left.append(run)
                continue
            self.fates[fate] += end - start
            self.dead.append((now - run.time, end - start))
            left += [run._replace(end=start)] if run.start < start else []
            left += [run._replace(start=end)] if end < run.end else []
        if left:
            self._dirty[file] = (client, left)

    def net_traffic(self, minutes: np.ndarray) -> np.ndarray:
        """Return the percent of written bytes that are written back with each delay."""
        age, size = np.array(self.dead).T
        order = np.argsort(age)
        died = np.concatenate([[0], np.cumsum(size[order])])
        before = died[np.searchsorted(age[order], minutes * 60e6, side="right")]
        return 100 * (1 - before / self.fates.total())
