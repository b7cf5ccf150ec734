# SPDX-License-Identifier: Apache-2.0
"""Sprite's consistency protocol: opens of shared files become recalls, invalidations and passed transfers.

A server sees each open and close (004, 2; 000, 2.1). If a client opens a file, the dirty bytes of another
client that wrote it last are recalled, and the opener drops what it has of an older version. If two clients
have it open and one of them for writing, none caches it until all have closed it.
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from riobed_caches.compiled import Bools, Int8s, Int16s, Int32s, Int64s, compiled, kernel
from riobed_caches.stream.grow import grown
from riobed_caches.stream.ops import Actions, Op
from riobed_caches.trace.events import Event, Flag
from riobed_caches.trace.file import Trace

# Sprite writes dirty data after 30 s (004, 2), so a later recall finds none.
DELAY = 30_000_000


class Consistency(IntEnum):
    """What is counted of opens (004, Tables 4 and 5), in the order of the array.

    UNCACHED: the file was write-shared at that moment. READ_SHARED: another handle was open for reading.
    LAST_WRITER: by the client that wrote it last, within DELAY. RECALLS: another client had dirty bytes;
    LATE_RECALLS: it wrote them longer ago than DELAY. STOPPED: clients that had to stop caching.
    """

    OPENS = 0
    UNCACHED = 1
    READ_SHARED = 2
    LAST_WRITER = 3
    RECALLS = 4
    LATE_RECALLS = 5
    STOPPED = 6


class _Out(NamedTuple):
    time: Int64s
    op: Int8s
    pair: Int32s
    start: Int64s
    end: Int64s
    used: Int64s


class _Pairs(NamedTuple):
    """Of each pair of a client and a file; `next` is the pair of the same file with another client."""

    file: Int32s
    next: Int32s
    open: Int32s
    writing: Int32s
    version: Int64s
    wrote: Int64s


class _Files(NamedTuple):
    """Of each file: pairs, the first, version, the pair that wrote it last, how many clients have it open."""

    pairs: Int32s
    first: Int32s
    version: Int64s
    writer: Int32s
    clients: Int32s
    writers: Int32s
    readers: Int32s
    shared: Bools


class _Events(NamedTuple):
    """The columns of a trace that the protocol looks at, and the pair and client of each event."""

    time: Int64s
    event: Int8s
    handle: Int32s
    offset: Int64s
    length: Int64s
    size: Int64s
    flags: Int16s
    pair: Int32s
    client: Int32s


class _Handles(NamedTuple):
    pair: Int32s
    flags: Int16s
    wrote: Bools


def actions_of(trace: Trace, client: Int32s) -> tuple[Actions, Int64s]:
    """Return what the clients of a trace did to files, and the counts of `Consistency`.

    `client` has the client of each event. A handle that is used by another client than before has moved with
    its process: it is closed there and opened here.
    """
    file = trace.columns["file"].astype(np.int32)
    files, clients = int(file.max(initial=-1)) + 1, int(client.max(initial=-1)) + 1
    # An event of no file (a sync) gets the pair of a file behind the last.
    file = np.where(file < 0, np.int32(files), file)
    order = _sorted(client, clients, _sorted(file, files + 1, np.arange(len(file), dtype=np.int32)))
    new = np.ones(len(file), np.bool_)
    new[1:] = (np.diff(client[order]) != 0) | (np.diff(file[order]) != 0)
    of_client, of_file = client[order[new]], file[order[new]]
    pair = np.empty(len(file), np.int32)
    pair[order] = np.cumsum(new) - 1
    columns = {name: trace.columns[name] for name in _Events._fields if name in trace.columns}
    events = _Events(**columns | {"pair": pair, "client": client})
    handles = int(trace.columns["handle"].max(initial=-1)) + 1
    out, counts = _run(events, of_file, files + 1, handles)
    last = max(round(trace.seconds * 1e6), int(trace.columns["time"][-1]) if len(trace) else 0)
    whole = Actions(
        out.time, out.op, out.pair, out.start, out.end, of_client, of_file, clients, files + 1, last
    )
    return whole.first(int(out.used[0])), counts


_OPEN, _CLOSE, _READ, _WRITE = int(Event.OPEN), int(Event.CLOSE), int(Event.READ), int(Event.WRITE)
_TRUNCATE, _DELETE, _FSYNC, _SYNC = map(int, (Event.TRUNCATE, Event.DELETE, Event.FSYNC, Event.SYNC))
_FOR_WRITING, _FOR_READING = int(Flag.FOR_WRITING), int(Flag.FOR_READING)
_EMPTIED, _DURABLE = int(Flag.EMPTIED), int(Flag.DURABLE)
_ACTS = tuple(int(op) for op in Op)
(_A_READ, _A_WRITE, _A_DELETE, _A_CUT, _A_FSYNC, _A_RECALL, _A_INVALIDATE, _A_CLOSE) = _ACTS[:8]
(_A_PASSED_READ, _A_PASSED_WRITE, _A_SAFE_WRITE, _A_SYNC) = _ACTS[8:]
_OPENS, _UNCACHED, _READ_SHARED, _LAST_WRITER, _RECALLS, _LATE, _STOPPED = (int(c) for c in Consistency)
_COUNTED = len(Consistency)


@compiled
def _sorted(ids: Int32s, number: int, order: Int32s) -> Int32s:
    """Return an order of dense ids, in which equal ones stay in the order that they had."""
    at = np.zeros(number + 1, np.int32)
    for i in ids:
        at[i + 1] += 1
    at = np.cumsum(at)
    out = np.empty_like(order)
    for i in order:
        out[at[ids[i]]] = i
        at[ids[i]] += 1
    return out


@compiled
def _room(out: _Out, more: int) -> _Out:
    """Return arrays that have room for more actions."""
    while out.used[0] + more > out.time.size:
        out = _Out(
            grown(out.time), grown(out.op), grown(out.pair), grown(out.start), grown(out.end), out.used
        )
    return out


@kernel
def _emit(out: _Out, time: int, op: int, pair: int, start: int, end: int) -> None:
    """Add an action; there is room for it."""
    n = out.used[0]
    out.time[n] = time
    out.op[n] = op
    out.pair[n] = pair
    out.start[n] = start
    out.end[n] = end
    out.used[0] = n + 1


@compiled
def _run(events: _Events, of_file: Int32s, number: int, handles: int) -> tuple[_Out, Int64s]:
    """Run the events of a trace through the protocol."""
    time, event, handle, offset, length, size, flags, pair, client = events
    n = max(16, 2 * time.size)
    out = _Out(
        np.empty(n, np.int64),
        np.empty(n, np.int8),
        np.empty(n, np.int32),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.zeros(1, np.int64),
    )
    counts = np.zeros(_COUNTED, np.int64)
    pairs, files = _state(of_file, number)
    held = _Handles(np.full(handles, -1, np.int32), np.zeros(handles, np.int16), np.zeros(handles, np.bool_))
    for i in range(time.size):
        now, kind, at, h = time[i], event[i], pair[i], handle[i]
        file = of_file[at]
        if out.used[0] + 4 + 2 * files.pairs[file] > out.time.size:
            # An open adds the most: a recall, an invalidation, a cut, and two for each client.
            out = _room(out, 4 + 2 * files.pairs[file])
        if kind == _OPEN:
            _opened(out, now, at, flags[i], pairs, files, counts)
            if h >= 0:
                held.pair[h], held.flags[h], held.wrote[h] = at, flags[i], False
            else:
                _left(at, flags[i], pairs, files)
            if flags[i] & _EMPTIED:
                _emit(out, now, _A_CUT, file, 0, 0)
            continue
        if h >= 0 and held.pair[h] >= 0 and held.pair[h] != at:
            _left(held.pair[h], held.flags[h], pairs, files)
            _opened(out, now, at, held.flags[h], pairs, files, counts)
            counts[_OPENS] -= 1
            held.pair[h] = at
        if kind == _CLOSE and h < 0:
            # Which open it ends is not known; a file that was not written has nothing to write back.
            _emit(out, now, _A_CLOSE, at, 0, 0)
        elif kind == _CLOSE:
            if held.wrote[h]:
                _emit(out, now, _A_CLOSE, at, 0, 0)
            _left(at, held.flags[h], pairs, files)
            held.pair[h] = -1
        elif kind in (_READ, _WRITE):
            _moved(out, now, at, kind, offset[i], length[i], flags[i], pairs, files)
            if kind == _WRITE and h >= 0:
                held.wrote[h] = True
        elif kind == _TRUNCATE:
            _emit(out, now, _A_CUT, file, size[i], size[i])
        elif kind == _DELETE:
            _emit(out, now, _A_DELETE, file, 0, 0)
        elif kind == _FSYNC:
            _emit(out, now, _A_FSYNC, at, 0, 0)
        elif kind == _SYNC:
            _emit(out, now, _A_SYNC, client[i], 0, 0)
    return out, counts


@compiled
def _state(of_file: Int32s, number: int) -> tuple[_Pairs, _Files]:
    """Return pairs and files as they are before the first event."""
    n = of_file.size
    first, following = np.full(number, -1, np.int32), np.full(n, -1, np.int32)
    known = np.zeros(number, np.int32)
    for p in range(n):
        following[p] = first[of_file[p]]
        first[of_file[p]] = p
        known[of_file[p]] += 1
    zeros = np.zeros(n, np.int32)
    pairs = _Pairs(of_file, following, zeros, zeros.copy(), np.zeros(n, np.int64), np.full(n, -1, np.int64))
    none = np.zeros(number, np.int32)
    version, writer = np.zeros(number, np.int64), np.full(number, -1, np.int32)
    files = _Files(known, first, version, writer, none, none.copy(), none.copy(), np.zeros(number, np.bool_))
    return pairs, files


@kernel
def _opened(out: _Out, now: int, at: int, flags: int, pairs: _Pairs, files: _Files, counts: Int64s) -> None:
    """Open a file at a client: recall, drop an old version, stop caching if it is write-shared now."""
    file, writing = pairs.file[at], (flags & _FOR_WRITING) != 0
    writer = files.writer[file]
    counts[_OPENS] += 1
    if files.readers[file]:
        counts[_READ_SHARED] += 1
    if writer == at and pairs.wrote[at] >= 0 and now - pairs.wrote[at] <= DELAY:
        counts[_LAST_WRITER] += 1
    if writer >= 0 and writer != at and pairs.wrote[writer] >= 0:
        counts[_RECALLS] += 1
        if now - pairs.wrote[writer] > DELAY:
            counts[_LATE] += 1
        _emit(out, now, _A_RECALL, writer, 0, 0)
        pairs.wrote[writer] = -1
    if pairs.version[at] != files.version[file]:
        _emit(out, now, _A_INVALIDATE, at, 0, 0)
    if writing:
        files.version[file] += 1
    pairs.version[at] = files.version[file]
    if pairs.open[at] == 0:
        files.clients[file] += 1
    pairs.open[at] += 1
    if writing:
        if pairs.writing[at] == 0:
            files.writers[file] += 1
        pairs.writing[at] += 1
    if flags & _FOR_READING:
        files.readers[file] += 1
    if not files.shared[file] and files.clients[file] > 1 and files.writers[file] > 0:
        files.shared[file] = True
        p = files.first[file]
        while p >= 0:
            if pairs.open[p]:
                if p != at:
                    counts[_STOPPED] += 1
                _emit(out, now, _A_RECALL, p, 0, 0)
                _emit(out, now, _A_INVALIDATE, p, 0, 0)
                pairs.wrote[p] = -1
            p = pairs.next[p]
    if files.shared[file]:
        counts[_UNCACHED] += 1


@kernel
def _left(at: int, flags: int, pairs: _Pairs, files: _Files) -> None:
    """Close a file at a client."""
    file = pairs.file[at]
    pairs.open[at] -= 1
    if pairs.open[at] == 0:
        files.clients[file] -= 1
    if flags & _FOR_WRITING:
        pairs.writing[at] -= 1
        if pairs.writing[at] == 0:
            files.writers[file] -= 1
    if flags & _FOR_READING:
        files.readers[file] -= 1
    if files.clients[file] == 0:
        files.shared[file] = False


@kernel
def _moved(
    out: _Out, now: int, at: int, kind: int, start: int, length: int, flags: int, pairs: _Pairs, files: _Files
) -> None:
    """Read or write bytes of a file at a client."""
    file = pairs.file[at]
    if files.shared[file]:
        op = _A_PASSED_READ if kind == _READ else _A_PASSED_WRITE
    elif kind == _READ:
        op = _A_READ
    else:
        op = _A_SAFE_WRITE if flags & _DURABLE else _A_WRITE
        files.writer[file] = at
        pairs.wrote[at] = now
    if length > 0:
        _emit(out, now, op, at, start, start + length)
