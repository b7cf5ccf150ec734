# SPDX-License-Identifier: Apache-2.0
"""Builds a trace event by event: gives dense ids, sorts by time, hashes names."""

import hashlib
import secrets
from array import array
from collections.abc import Hashable

import numpy as np

from riobed_caches.trace.events import COLUMNS, IDS, UNKNOWN, Event, Flag
from riobed_caches.trace.file import Trace
from riobed_caches.trace.header import Header

_CODES = {8: "q", 4: "i", 2: "h", 1: "b"}


class Builder:
    """Collects events in any order of time.

    A file, client, user, process or handle is any hashable value; it gets a dense id when it is first seen.
    """

    def __init__(self) -> None:
        self._columns = {name: array(_CODES[np.dtype(kind).itemsize]) for name, kind in COLUMNS.items()}
        self._ids: dict[str, dict[Hashable, int]] = {name: {} for name in IDS}
        self._names: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._columns["time"])

    def add(
        self,
        time: int,
        event: Event,
        file: Hashable | None = None,
        *,
        client: Hashable | None = None,
        user: Hashable | None = None,
        process: Hashable | None = None,
        handle: Hashable | None = None,
        offset: int = UNKNOWN,
        length: int = UNKNOWN,
        size: int = UNKNOWN,
        flags: Flag = Flag.NONE,
        name: str | None = None,
    ) -> None:
        """Add an event at `time` (µs of any clock); `name` is the file's, if this is the first that is known.

        A handle stands for one open: a handle of the same value that is opened again needs another value.
        Raises OverflowError if a number does not fit into its column.
        """
        columns = self._columns
        ids = (client, user, process, file, handle)
        for column, value in zip(IDS, ids, strict=True):
            known = self._ids[column]
            columns[column].append(UNKNOWN if value is None else known.setdefault(value, len(known)))
        if name is not None and file is not None:
            self._names.setdefault(self._ids["file"][file], name)
        columns["time"].append(time)
        columns["event"].append(event)
        columns["offset"].append(offset)
        columns["length"].append(length)
        columns["size"].append(size)
        columns["flags"].append(flags)

    def trace(self, header: Header, *, keep_names: bool = False) -> Trace:
        """Return the trace: events of one time in the order in which they were added, times from 0.

        Names are hashed with a key that is thrown away, unless they are to be kept: equal names stay equal,
        and a guess cannot be tried. Hashes are cut to what tells all of them apart.
        """
        columns = {name: np.array(self._columns[name], COLUMNS[name]) for name in COLUMNS}
        order = np.argsort(columns["time"], kind="stable")
        columns = {name: values[order] for name, values in columns.items()}
        if len(self):
            columns["time"] -= columns["time"][0]
        key = secrets.token_bytes(32)

        def shown(name: str) -> str:
            hashed = hashlib.blake2b(name.encode(errors="surrogateescape"), digest_size=8, key=key)
            return printable(name) if keep_names else hashed.hexdigest()

        names = [shown(self._names[n]) if n in self._names else "" for n in range(len(self._ids["file"]))]
        names = names if keep_names else shortest(names)
        of_names = {"names": names if self._names else [], "names_are_hashes": not keep_names}
        return Trace(header.model_copy(update=of_names), columns)


def shortest(hashes: list[str]) -> list[str]:
    """Return the hashes, cut to as many digits as tell them apart."""
    different = len(set(hashes))
    longest = max(map(len, hashes), default=0)
    digits = next(n for n in range(longest + 1) if len({name[:n] for name in hashes}) == different)
    return [name[:digits] for name in hashes]


def printable(name: str) -> str:
    """Return a name without lone surrogates, which neither JSON nor a terminal takes."""
    return name.encode(errors="surrogateescape").decode(errors="backslashreplace")
