# SPDX-License-Identifier: Apache-2.0
"""Values that follow from the events before, which the file of a trace leaves out."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from riobed_caches.compiled import Bools, Int8s, Int16s, Int32s, Int64s, kernel
from riobed_caches.trace.events import UNKNOWN, Event, Flag

# As numbers, which are compiled sooner than enumerations.
_OPEN, _CLOSE, _READ, _WRITE = int(Event.OPEN), int(Event.CLOSE), int(Event.READ), int(Event.WRITE)
_TRUNCATE, _DELETE = int(Event.TRUNCATE), int(Event.DELETE)
_WHOLE = (int(Event.SYNC), int(Event.MIGRATE))
_EMPTY = int(Flag.CREATED | Flag.EMPTIED)


class _Values(NamedTuple):
    """Columns of a trace."""

    event: Int8s
    process: Int32s
    flags: Int16s
    client: Int32s
    user: Int32s
    handle: Int32s
    file: Int32s
    offset: Int64s
    length: Int64s
    size: Int64s


class _Follows(NamedTuple):
    """Which values are those that follow, by column, in the order in which they follow from each other."""

    client: Bools
    user: Bools
    handle: Bools
    file: Bools
    offset: Bools
    length: Bools
    size: Bools


class _Known(NamedTuple):
    """What is known before an event. The last field of an array is that of the id -1.

    By process: `client`, `user`, `file` and `handle` of its last event; the last fields of the first two are
    of the last event of all. By handle: its file `of`, and the handle `under` it, which its process used
    before. `end` and `moved` say where the last transfer of a handle ended, and how long it was; behind the
    handles, they say so by file, for transfers without a handle. `size` is by file. `new` has the first ids
    of handles and files that were not used.
    """

    client: Int32s
    user: Int32s
    file: Int32s
    handle: Int32s
    of: Int32s
    under: Int32s
    end: Int64s
    moved: Int64s
    size: Int64s
    new: Int64s


# Columns that may have empty fields.
FOLLOWS = _Follows._fields


def following(columns: Mapping[str, NDArray[np.generic]]) -> dict[str, Bools]:
    """Return, for each column of FOLLOWS, which values of a right trace are those that follow."""
    found = _Follows(*np.zeros((len(FOLLOWS), len(columns["time"])), np.bool_))
    _follow(_values(columns), found, _nothing(len(columns["time"])), False)
    return found._asdict()


def fill(columns: Mapping[str, NDArray[np.generic]], empty: Mapping[str, Bools]) -> None:
    """Set the values that follow, in place, where `empty` says so.

    All ids elsewhere must be right (`check_ids`). In a wrong trace what follows may be wrong, too.
    """
    follows = _Follows(*np.stack([empty[name] for name in FOLLOWS]))
    _follow(_values(columns), follows, _nothing(len(columns["time"])), True)


def _values(columns: Mapping[str, NDArray[np.generic]]) -> _Values:
    return _Values(*(columns[name] for name in _Values._fields))  # type: ignore[arg-type]


def _nothing(n: int) -> _Known:
    """Return what is known before the first of `n` events."""
    (client, user, file), (handle, of, under) = np.full((2, 3, n + 1), UNKNOWN, np.int32)
    end, moved = np.zeros((2, 2 * n + 2), np.int64)
    size, new = np.full(n + 1, UNKNOWN, np.int64), np.zeros(2, np.int64)
    return _Known(client, user, file, handle, of, under, end, moved, size, new)


@kernel
def _follow(values: _Values, follows: _Follows, known: _Known, filling: bool) -> None:
    """Set `follows`, or, if `filling`, the values where it is set."""
    n = values.event.size
    for i in range(n):
        kind, p = values.event[i], values.process[i]
        _settle(values.client, _owner(known.client, p), follows.client, i, filling)
        _settle(values.user, _owner(known.user, p), follows.user, i, filling)
        _settle(values.handle, _handle(known, kind, p, n), follows.handle, i, filling)
        h = values.handle[i]
        _settle(values.file, _file(known, kind, p, h, n), follows.file, i, filling)
        f = values.file[i]
        place = h if h >= 0 else n + 1 + f
        moves = kind in (_READ, _WRITE)
        _settle(values.offset, known.end[place] if moves else UNKNOWN, follows.offset, i, filling)
        offset = values.offset[i]
        _settle(values.length, _length(known, kind, f, place, offset), follows.length, i, filling)
        _settle(values.size, _size(known, kind, f), follows.size, i, filling)
        end = offset + values.length[i]
        if moves:
            known.end[place], known.moved[place] = end, values.length[i]
        _learn_owner(known, p, values.client[i], values.user[i])
        _learn_handle(known, kind, p, h, f)
        _learn_size(known, kind, f, end, values.size[i], values.flags[i])


@kernel
def _settle(column: Int32s | Int64s, value: int, follows: Bools, i: int, filling: bool) -> None:
    if not filling:
        follows[i] = column[i] == value
    elif follows[i]:
        column[i] = value


@kernel
def _owner(known: Int32s, p: int) -> int:
    """Return what the process had at its last event; that of the event before, if it had none."""
    return int(known[p] if known[p] != UNKNOWN else known[-1])


@kernel
def _handle(known: _Known, kind: int, p: int, n: int) -> int:
    """Return a new handle, or the one that the process used last."""
    if kind == _OPEN:
        return int(known.new[0]) if known.new[0] < n else UNKNOWN
    return UNKNOWN if kind == _DELETE or kind in _WHOLE else int(known.handle[p])


@kernel
def _file(known: _Known, kind: int, p: int, h: int, n: int) -> int:
    """Return a new file, that of the handle, or the one that the process used last."""
    if kind == _OPEN:
        return int(known.new[1]) if known.new[1] < n else UNKNOWN
    if kind in _WHOLE:
        return UNKNOWN
    return int(known.of[h] if h >= 0 else known.file[p])


@kernel
def _length(known: _Known, kind: int, f: int, place: int, offset: int) -> int:
    """Return the length of the transfer before; a read ends at the end of the file."""
    if kind == _WRITE:
        return int(known.moved[place])
    if kind != _READ:
        return UNKNOWN
    usual, size = int(known.moved[place]), int(known.size[f])
    if size == UNKNOWN:
        return usual
    rest = max(size - offset, 0)
    return min(usual, rest) if usual else rest


@kernel
def _size(known: _Known, kind: int, f: int) -> int:
    if kind == _TRUNCATE:
        return 0
    return int(known.size[f]) if kind == _OPEN else UNKNOWN


@kernel
def _learn_owner(known: _Known, p: int, client: int, user: int) -> None:
    last = known.client.size - 1
    known.client[p] = known.client[last] = client
    known.user[p] = known.user[last] = user


@kernel
def _learn_handle(known: _Known, kind: int, p: int, h: int, f: int) -> None:
    known.file[p] = f
    if kind == _OPEN:
        known.new[1] = max(known.new[1], f + 1)
    if h < 0:
        return
    if kind == _OPEN:
        known.new[0] = max(known.new[0], h + 1)
        known.of[h], known.under[h] = f, known.handle[p]
    known.handle[p] = known.under[h] if kind == _CLOSE else h


@kernel
def _learn_size(known: _Known, kind: int, f: int, end: int, size: int, flags: int) -> None:
    """Keep the size of the file behind an event; a transfer ended at `end`."""
    if kind == _WRITE:
        known.size[f] = max(known.size[f], end)
    elif kind == _TRUNCATE:
        known.size[f] = size
    elif kind == _OPEN:
        if flags & _EMPTY:
            known.size[f] = 0
        elif size != UNKNOWN:
            known.size[f] = size
