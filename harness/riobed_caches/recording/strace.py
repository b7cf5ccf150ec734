# SPDX-License-Identifier: Apache-2.0
"""Recording/Strace: makes a trace of the log of `strace -f -ttt -y`."""

from collections import deque
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice

from riobed_caches.recording import arguments
from riobed_caches.recording.calls.table import MEANINGS, apply
from riobed_caches.recording.lines import Began, Call, Ended, Item, Lines, Superseded
from riobed_caches.recording.skipped import Skipped
from riobed_caches.recording.tracker import Start, Tracker
from riobed_caches.trace.file import Trace
from riobed_caches.trace.header import Has, Header

# How far the end of a clone(2) is looked for, to tell which of several running ones made a new task.
_AHEAD = 20_000
HAS = (Has.TIMES, Has.DIRECTIONS, Has.OPENS, Has.DELETES, Has.FSYNCS, Has.SIZES, Has.PROCESSES)
_ALWAYS_BLIND = [
    "reads of mapped files (programs, libraries) are not seen",
    "what the kernel does by itself (read-ahead, write-back, the page cache) is not seen",
]
# The last second that a date of ISO 8601 has.
_LAST_SECOND = 253402300799


def parse_strace(lines: Iterable[bytes], *, keep_names: bool = False, start: Start | None = None) -> Trace:
    """Make a trace of the lines of `strace -f -ttt -y` (or -yy), with any -s; strace(1).

    Its times are those of the clock of the log, at which a call returned. A process is one of the system, a
    handle an open file description. Reads and writes of nothing are left out, and so are directories, pipes
    and files of pseudo file systems. Lines that are not understood are counted in the header.
    """
    start = start or Start()
    skipped = Skipped()
    tracker = Tracker(start)
    first = _follow(tracker, Lines(lines, frozenset(MEANINGS), skipped), skipped)
    tracker.finish()
    blind = [what.format(count) for what, count in tracker.blind.items()]
    header = Header(
        recorder="strace",
        source="log of strace",
        clock="CLOCK_REALTIME",
        recorded=_date(first),
        has=[*HAS, *([] if start.user is None else [Has.USERS])],
        blind=_ALWAYS_BLIND + blind,
        skipped=skipped.count,
        first_skipped=skipped.first,
        seconds=0.0 if tracker.first is None else (tracker.time - tracker.first) / 1e6,
    )
    return tracker.events.trace(header, keep_names=keep_names)


def _follow(tracker: Tracker, lines: Iterable[Item], skipped: Skipped) -> int:
    """Apply all lines, and return the time of the first one, in µs."""
    ahead: deque[Item] = deque()
    rest = iter(lines)
    first = None
    while (item := ahead.popleft() if ahead else next(rest, None)) is not None:
        first = item.time if first is None else first
        tracker.at(item.time)
        if isinstance(item, Call | Began) and not tracker.knows(item.task):
            tracker.task(item.task, _parent(tracker, item.task, ahead, rest))
        try:
            _apply(tracker, item)
        except (ValueError, IndexError):
            skipped.add(item.number)
    return first or 0


def _apply(tracker: Tracker, item: Item) -> None:
    if isinstance(item, Ended):
        tracker.ended(item)
    elif isinstance(item, Superseded):
        tracker.superseded(item)
    elif isinstance(item, Began):
        task = tracker.task(item.task)
        if item.name == "close":
            tracker.close(task, arguments.descriptor(item.text).fd)
        else:
            tracker.began(task, item)
    else:
        task = tracker.task(item.task)
        try:
            apply(tracker, task, item)
        finally:
            tracker.returned(task)


def _parent(tracker: Tracker, task: int, ahead: deque[Item], rest: Iterator[Item]) -> int | None:
    """Return the task that made a new one; a child may run before the clone(2) of its parent returns.

    If several clone(2) run, the lines to come say which of them returns the task. They are read ahead.
    """
    running = tracker.cloning()
    if len(running) < 2:
        return running[0] if running else None
    ahead.extend(islice(rest, max(_AHEAD - len(ahead), 0)))
    for item in ahead:
        if isinstance(item, Call) and item.result == task and item.task in running and item.resumed:
            return item.task
    return None


def _date(time: int) -> str:
    """Return a time of the log in ISO 8601, UTC."""
    seconds = time // 1_000_000
    return datetime.fromtimestamp(seconds, UTC).isoformat() if seconds <= _LAST_SECOND else ""
