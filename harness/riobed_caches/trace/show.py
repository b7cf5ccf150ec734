# SPDX-License-Identifier: Apache-2.0
"""Trace/Show: what a trace has in it, as numbers and as a table of its events."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from riobed_caches.trace.events import COLUMNS, Event
from riobed_caches.trace.file import Trace
from riobed_caches.trace.header import Has, Loss

_ROWS = 10_000
_NAMES = {int(event): event.name.lower() for event in Event}


class About(BaseModel):
    """Numbers of a trace: events by kind, ids that occur, bytes that programs moved, what is not in it.

    `bytes_an_event` is the size of its file over its events; None if it stands in none, or has no events.
    """

    recorder: str
    source: str
    recorded: str
    kernel: str
    has: list[Has]
    seconds: float
    events: dict[str, int]
    files: int
    clients: int
    users: int
    processes: int
    bytes_read: int
    bytes_written: int
    events_lost: int
    lost: list[Loss]
    skipped: int
    first_skipped: list[int]
    blind: list[str]
    bytes_an_event: float | None


def show(trace: Trace, path: Path | None = None) -> About:
    """Return the numbers of a trace, which stands in the file `path`. OSError if there is no such file."""
    header, event, length = trace.header, trace.event, trace.length
    kinds = np.bincount(event, minlength=len(Event)).tolist()
    return About(
        **header.model_dump(
            include={"recorder", "source", "recorded", "kernel", "has", "lost", "skipped", "first_skipped"}
        ),
        seconds=trace.seconds,
        events={_NAMES[kind]: number for kind, number in enumerate(kinds) if number},
        files=_ids(trace.file),
        clients=_ids(trace.client),
        users=_ids(trace.user),
        processes=_ids(trace.process),
        bytes_read=int(length[event == Event.READ].sum()),
        bytes_written=int(length[event == Event.WRITE].sum()),
        events_lost=header.events_lost,
        blind=header.blind,
        bytes_an_event=path.stat().st_size / len(trace) if path and len(trace) else None,
    )


def export_csv(trace: Trace, out: TextIO) -> None:
    """Write the events as CSV: a line of the names of COLUMNS, and a line for each event, with its name.

    What is not known is empty. Raises OSError if the stream cannot be written.
    """
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for first in range(0, len(trace), _ROWS):
        columns = [_shown(name, trace.columns[name][first : first + _ROWS].tolist()) for name in COLUMNS]
        writer.writerows(zip(*columns, strict=True))


def _shown(name: str, values: Sequence[int]) -> list[int | str]:
    if name == "event":
        return [_NAMES[value] for value in values]
    return ["" if value < 0 else value for value in values]


def _ids(column: NDArray[np.int64]) -> int:
    """Return how many ids occur; -1 is none."""
    return len(np.unique(column[column >= 0]))
