# SPDX-License-Identifier: Apache-2.0
"""Recording/Calls/Moving: calls that read and write, and move the position at which they do."""

from riobed_caches.recording import arguments
from riobed_caches.recording.lines import Call
from riobed_caches.recording.tasks import Descriptor, Task
from riobed_caches.recording.tracker import Blind, Tracker
from riobed_caches.trace.check import MAX_END
from riobed_caches.trace.events import UNKNOWN, Event, Flag


def read(tracker: Tracker, task: Task, call: Call) -> None:
    """Apply read(2)."""
    entry = tracker.entry(task, call.args[0])
    if entry is not None and not entry.handle.guessed:
        _learn_end(tracker, entry, call, entry.handle.position)
    _move(tracker, task, entry, call.result, write=False)


def pread(tracker: Tracker, task: Task, call: Call) -> None:
    """Apply pread(2)."""
    entry, offset = tracker.entry(task, call.args[0]), int(call.args[3])
    if entry is not None:
        _learn_end(tracker, entry, call, offset)
    _move(tracker, task, entry, call.result, write=False, offset=offset)


def _learn_end(tracker: Tracker, entry: Descriptor, call: Call, offset: int) -> None:
    """Learn an unknown size: a read of a file that returns less than was asked for met its end (read(2))."""
    if entry.handle.file.size != UNKNOWN or call.result >= int(call.args[2]):
        return
    # A read of nothing may have been behind the end.
    if call.result or not offset:
        tracker.learn(entry.handle.file, offset + call.result)


def write(tracker: Tracker, task: Task, call: Call) -> None:
    """Apply write(2)."""
    _move(tracker, task, tracker.entry(task, call.args[0]), call.result, write=True)


def pwrite(tracker: Tracker, task: Task, call: Call) -> None:
    """Apply pwrite(2)."""
    entry = tracker.entry(task, call.args[0])
    _move(tracker, task, entry, call.result, write=True, offset=int(call.args[3]))


def vector(tracker: Tracker, task: Task, call: Call) -> None:
    """Apply readv(2), writev(2), and their like with an offset, where -1 is none, and flags."""
    offset = int(call.args[3]) if len(call.args) > 3 else -1
    flags = arguments.flags(call.args[4]) if len(call.args) > 4 else frozenset()
    _move(
        tracker,
        task,
        tracker.entry(task, call.args[0]),
        call.result,
        write="write" in call.name,
        offset=None if offset == -1 else offset,
        append=b"RWF_APPEND" in flags,
        durable=bool(flags & {b"RWF_SYNC", b"RWF_DSYNC"}),
    )


def sendfile(tracker: Tracker, task: Task, call: Call) -> None:
    """Apply sendfile(2)."""
    offset = arguments.pointed(call.args[2])
    _move(tracker, task, tracker.entry(task, call.args[1]), call.result, write=False, offset=offset)
    _move(tracker, task, tracker.entry(task, call.args[0]), call.result, write=True)


def splice(tracker: Tracker, task: Task, call: Call) -> None:
    """Apply splice(2) and copy_file_range(2)."""
    source, target = arguments.pointed(call.args[1]), arguments.pointed(call.args[3])
    _move(tracker, task, tracker.entry(task, call.args[0]), call.result, write=False, offset=source)
    _move(tracker, task, tracker.entry(task, call.args[2]), call.result, write=True, offset=target)


def _move(
    tracker: Tracker,
    task: Task,
    entry: Descriptor | None,
    count: int,
    *,
    write: bool,
    offset: int | None = None,
    append: bool = False,
    durable: bool = False,
) -> None:
    """Add a transfer of `count` bytes; at the position of the handle, which moves, if `offset` is None.

    A handle opened with O_APPEND writes at the end of the file even where an offset is given (pwrite(2)).
    """
    if entry is None or count <= 0:
        return
    handle, file = entry.handle, entry.handle.file
    append = write and (append or handle.append)
    if append and file.size == UNKNOWN:
        tracker.blind[Blind.APPENDS] += 1
    elif not append and offset is None and handle.guessed:
        tracker.blind[Blind.OFFSETS] += 1
    at = file.end if append else handle.position if offset is None else offset
    if not 0 <= at <= MAX_END - count:
        raise ValueError("no place of a file")
    flags = Flag.DURABLE if write and (durable or handle.durable) else Flag.NONE
    event = Event.WRITE if write else Event.READ
    tracker.add(task, event, file, handle, offset=at, length=count, flags=flags)
    file.end = max(file.end, at + count)
    if file.size != UNKNOWN:
        file.size = file.end
    if offset is None:
        handle.position = at + count


def lseek(tracker: Tracker, task: Task, call: Call) -> None:
    """Apply lseek(2): the result is the new position, and tells the size if it is counted from the end."""
    entry = tracker.entry(task, call.args[0])
    if entry is None or call.result > MAX_END:
        return
    if call.args[2] == b"SEEK_END" and 0 <= call.result - int(call.args[1]) <= MAX_END:
        tracker.learn(entry.handle.file, call.result - int(call.args[1]))
    entry.handle.position = call.result
    entry.handle.guessed = False
