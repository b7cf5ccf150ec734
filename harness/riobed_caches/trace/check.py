# SPDX-License-Identifier: Apache-2.0
"""What must hold of the events of a trace, because models use them as indices and lengths."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from riobed_caches.compiled import compiled
from riobed_caches.errors import TraceError
from riobed_caches.trace.events import COLUMNS, IDS, UNKNOWN, Event

# Ends of transfers and sizes of files; a file of Linux may be as large.
MAX_END = 2**63 - 1
# 142 years in µs, so that sums of times and delays stay far from 64 bits.
MAX_TIME = 1 << 52
_KINDS = int(max(Event)) + 1


def check_events(columns: Mapping[str, NDArray[np.generic]], where: Path | str) -> None:
    """Raise TraceError with the first event that is wrong."""
    if any(len(columns[name]) != len(columns["time"]) for name in COLUMNS):
        raise TraceError(where, "its columns differ in length")
    refuse = partial(_refuse, where)

    time, event, file, handle = (columns[name] for name in ("time", "event", "file", "handle"))
    offset, length, size = (columns[name] for name in ("offset", "length", "size"))
    refuse(time < 0, "its time is negative")  # type: ignore[operator]
    refuse(time > MAX_TIME, "its time is more than a century")  # type: ignore[operator]
    refuse(np.diff(time, prepend=time[:1]) < 0, "its time is before that of the event before it")
    refuse((event < 0) | (event >= _KINDS), "its kind is unknown")  # type: ignore[operator]
    check_ids(columns, where)
    moves = (event == Event.READ) | (event == Event.WRITE)
    refuse(moves & ((offset < 0) | (length < 0)), "a transfer's offset or length is negative")  # type: ignore[operator]
    refuse(moves & (length > MAX_END - offset), "a transfer ends behind the largest file")  # type: ignore[operator]
    refuse((event == Event.TRUNCATE) & (size < 0), "a truncation has no size")  # type: ignore[operator]
    whole = (event == Event.SYNC) | (event == Event.MIGRATE)
    refuse(~whole & (file < 0), "it has no file")  # type: ignore[operator]
    wrong = _first_unopened(event, file, handle)  # type: ignore[arg-type]
    if wrong >= 0:
        raise TraceError(where, f"event {wrong}: its handle is not open, or of another file")


def check_ids(columns: Mapping[str, NDArray[np.generic]], where: Path | str) -> None:
    """Raise TraceError with the first event that has an id which is not dense: as large as their number."""
    for name in IDS:
        _refuse(where, columns[name] < UNKNOWN, f"its {name} is negative")  # type: ignore[operator]
        too_large = columns[name] >= len(columns[name])  # type: ignore[operator]
        _refuse(where, too_large, f"its {name} is too large for a dense id")


def _refuse(where: Path | str, wrong: NDArray[np.bool_], what: str) -> None:
    if wrong.any():
        raise TraceError(where, f"event {int(np.argmax(wrong))}: {what}")


@compiled
def _first_unopened(event: NDArray[np.int8], file: NDArray[np.int32], handle: NDArray[np.int32]) -> int:
    """Return the first event whose handle is not open on its file, or -1. OPEN is 0, CLOSE 1."""
    of = np.full(event.size + 1, -1, np.int32)
    for i in range(event.size):
        h = handle[i]
        if h < 0:
            continue
        if event[i] == 0:
            if of[h] != -1:
                return i
            of[h] = file[i]
        elif of[h] != file[i]:
            return i
        elif event[i] == 1:
            of[h] = -2
    return -1
