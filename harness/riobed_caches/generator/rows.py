# SPDX-License-Identifier: Apache-2.0
"""Generator/Rows: collects events in any order of time, many at once, and makes a trace of them."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from riobed_caches.compiled import Bools, Floats, Int8s, Int16s, Int32s, Int64s, compiled
from riobed_caches.trace.events import COLUMNS, IDS, UNKNOWN, Event
from riobed_caches.trace.file import Trace
from riobed_caches.trace.header import Header

# Seconds between an open and its first transfer.
_FIRST = 0.0005
# µs. The time of day that Sprite's kernel kept went on at interrupts of its timer (timerClock.c), every 20 ms
# (timerMach.h). The shortest time that anything is fitted to is 0.6 s (Figure 2 of Baker et al. 1992).
_STEP = 20_000


class Who(NamedTuple):
    """The clients, users and processes of many events, in arrays of one length."""

    client: Int64s
    user: Int64s
    process: Int64s

    def at(self, index: NDArray[np.generic]) -> "Who":
        """Return those at an index or under a mask."""
        return Who(self.client[index], self.user[index], self.process[index])


class Rows:
    """Events that are collected. It gives out ids of files, handles and processes."""

    def __init__(self) -> None:
        self._parts: dict[str, list[NDArray[np.generic]]] = {name: [] for name in COLUMNS}
        self._sizes: list[Int64s] = []
        self._given = dict.fromkeys(("file", "handle", "process"), 0)

    def add(
        self,
        time: Floats,
        event: Event,
        who: Who,
        *,
        file: Int64s | int = UNKNOWN,
        handle: Int64s | int = UNKNOWN,
        offset: Int64s | int = UNKNOWN,
        length: Int64s | int = UNKNOWN,
        size: int = UNKNOWN,
        flags: Int64s | int = 0,
    ) -> None:
        """Add an event at each `time`, in seconds; events of one time stay in the order of their adding."""
        values = {"time": np.rint(time * 1e6), "event": int(event), "file": file, "handle": handle}
        values |= {"offset": offset, "length": length, "size": size, "flags": flags} | who._asdict()
        for name, kind in COLUMNS.items():
            self._parts[name].append(np.broadcast_to(np.asarray(values[name]).astype(kind), time.shape))

    def files(self, sizes: Int64s) -> Int64s:
        """Return ids of new files, which have these sizes before the trace begins; 0 for one it creates."""
        self._sizes.append(sizes)
        return self._next("file", len(sizes))

    def processes(self, number: int) -> Int64s:
        """Return ids of new processes."""
        return self._next("process", number)

    def _next(self, name: str, number: int) -> Int64s:
        first = self._given[name]
        self._given[name] += number
        return np.arange(first, first + number)

    def open(self, time: Floats, who: Who, file: Int64s, flags: Int64s | int) -> Int64s:
        """Add opens, and return their handles."""
        handle = self._next("handle", len(time))
        self.add(time, Event.OPEN, who, file=file, handle=handle, flags=flags)
        return handle

    def close(self, time: Floats, who: Who, file: Int64s, handle: Int64s) -> None:
        """Add closes."""
        self.add(time, Event.CLOSE, who, file=file, handle=handle)

    def move(
        self,
        time: Floats,
        event: Event,
        who: Who,
        file: Int64s,
        handle: Int64s,
        offset: Int64s | int,
        length: Int64s | int,
    ) -> None:
        """Add reads or writes."""
        self.add(time, event, who, file=file, handle=handle, offset=offset, length=length)

    def access(
        self,
        time: Floats,
        event: Event,
        who: Who,
        file: Int64s,
        length: Int64s,
        held: Floats,
        flags: Int64s | int,
        offset: Int64s | int = 0,
        synced: Bools | None = None,
    ) -> None:
        """Add opens with one transfer each, at `time`, an fsync where `synced`, and closes `held` later."""
        handle = self.open(time - _FIRST, who, file, flags)
        self.move(time, event, who, file, handle, offset, length)
        if synced is not None:
            self.add(time[synced], Event.FSYNC, who.at(synced), file=file[synced], handle=handle[synced])
        self.close(time + held, who, file, handle)

    def column(self, name: str) -> NDArray[np.generic]:
        """Return a column of all events so far, in the order of their adding."""
        return np.concatenate(self._parts[name])

    def trace(self, header: Header, end: float) -> Trace:
        """Return the trace of the events before `end` seconds, with dense ids and the sizes at opens.

        Events keep the order of their exact times, which are then rounded down to whole steps.
        """
        time = self.column("time")
        order = np.argsort(time, kind="stable")
        order = order[time[order] < end * 1e6]  # type: ignore[operator]
        columns = {name: self.column(name)[order] for name in COLUMNS}
        time = columns["time"]
        columns["time"] = (time - time[:1]) // _STEP * _STEP  # type: ignore[operator]
        _fill_sizes(
            columns["event"],  # type: ignore[arg-type]
            columns["file"],  # type: ignore[arg-type]
            columns["offset"],  # type: ignore[arg-type]
            columns["length"],  # type: ignore[arg-type]
            columns["size"],  # type: ignore[arg-type]
            columns["flags"],  # type: ignore[arg-type]
            np.concatenate(self._sizes),
        )
        for name in IDS:
            columns[name] = _dense(columns[name])
        return Trace(header, columns)


def _dense(ids: NDArray[np.generic]) -> Int32s:
    """Return ids that are numbered without gaps in the order of their first use; UNKNOWN stays."""
    known, first, place = np.unique(ids, return_index=True, return_inverse=True)
    number = np.empty(len(known), np.int32)
    used = np.argsort(np.where(known == UNKNOWN, -1, first))
    number[used] = np.arange(len(known)) - int(known[0] == UNKNOWN)
    return number[place]


@compiled
def _fill_sizes(
    event: Int8s, file: Int32s, offset: Int64s, length: Int64s, size: Int64s, flags: Int16s, sizes: Int64s
) -> None:
    """Set the size of each OPEN (0): that of the file before it. A WRITE is 3, a TRUNCATE 4, EMPTIED 8."""
    for i in range(event.size):
        f = file[i]
        if event[i] == 0:
            size[i] = sizes[f]
            if flags[i] & 8:
                sizes[f] = 0
        elif event[i] == 3:
            sizes[f] = max(sizes[f], offset[i] + length[i])
        elif event[i] == 4:
            sizes[f] = size[i]
