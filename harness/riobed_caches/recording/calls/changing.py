# SPDX-License-Identifier: Apache-2.0
"""Recording/Calls/Changing: calls that cut, extend, map and sync files."""

from riobed_caches.recording import arguments
from riobed_caches.recording.lines import Call
from riobed_caches.recording.names import File
from riobed_caches.recording.tasks import Handle, Task
from riobed_caches.recording.tracker import Blind, Tracker
from riobed_caches.trace.check import MAX_END
from riobed_caches.trace.events import UNKNOWN, Event


def ftruncate(tracker: Tracker, task: Task, call: Call) -> None:
    """Apply ftruncate(2)."""
    entry = tracker.entry(task, call.args[0])
    if entry is not None:
        _cut(tracker, task, entry.handle.file, int(call.args[1]), entry.handle)


def truncate(tracker: Tracker, task: Task, call: Call) -> None:
    """Apply truncate(2)."""
    path = tracker.path(task, call.args[0])
    if path is not None and arguments.on_disk(path):
        _cut(tracker, task, tracker.known(path), int(call.args[1]))


def _cut(tracker: Tracker, task: Task, file: File, size: int, handle: Handle | None = None) -> None:
    """Give a file another size, in bytes, and add the TRUNCATE."""
    if not 0 <= size <= MAX_END:
        raise ValueError("no size of a file")
    tracker.add(task, Event.TRUNCATE, file, handle, size=size)
    file.size = file.end = size


def fallocate(tracker: Tracker, task: Task, call: Call) -> None:
    """Apply fallocate(2). Sizes are in bytes.

    Bytes of a hole, and zeroed ones, leave the page cache and need no write to the disk. If they reach to the
    end of the file, TRUNCATEs say so; of others no event does, and of bytes that move neither.
    """
    entry = tracker.entry(task, call.args[0])
    if entry is None:
        return
    handle, file, mode = entry.handle, entry.handle.file, call.args[1]
    first, end = int(call.args[2]), int(call.args[2]) + int(call.args[3])
    grown = file.size if b"KEEP_SIZE" in mode else max(file.size, end)
    dropped = b"PUNCH_HOLE" in mode or b"ZERO_RANGE" in mode
    if b"COLLAPSE_RANGE" in mode or b"INSERT_RANGE" in mode:
        tracker.blind[Blind.HOLES] += 1
        if file.size != UNKNOWN:
            change = first - end if b"COLLAPSE_RANGE" in mode else end - first
            file.size = file.end = min(max(file.size + change, 0), MAX_END)
        return
    if file.size == UNKNOWN or (dropped and end < file.size):
        tracker.blind[Blind.HOLES] += mode != b"FALLOC_FL_KEEP_SIZE"
        return
    if dropped and first < file.size:
        _cut(tracker, task, file, first, handle)
    if grown != file.size:
        _cut(tracker, task, file, grown, handle)


def fsync(tracker: Tracker, task: Task, call: Call) -> None:
    """Apply fsync(2) and fdatasync(2)."""
    entry = tracker.entry(task, call.args[0])
    if entry is not None:
        tracker.add(task, Event.FSYNC, entry.handle.file, entry.handle)


def msync(tracker: Tracker, task: Task, call: Call) -> None:
    """Apply msync(2) with MS_SYNC, as an fsync of the file that is mapped there."""
    at = int(call.args[0], 0)
    for first, (end, file) in task.mappings.items():
        if first <= at < end and b"MS_SYNC" in call.args[2]:
            tracker.add(task, Event.FSYNC, file)


def sync(tracker: Tracker, task: Task, call: Call) -> None:
    """Apply sync(2); syncfs(2) counts as if all files were on its file system."""
    tracker.add(task, Event.SYNC, None)


def mmap(tracker: Tracker, task: Task, call: Call) -> None:
    """Apply mmap(2), if stores into the mapping change a file."""
    _, length, access, how, fd, offset = call.args
    if b"MAP_SHARED" not in how or b"PROT_WRITE" not in access or b"MAP_ANONYMOUS" in how:
        return
    at, size = int(offset, 0), int(length)
    if not 0 <= at <= MAX_END - size:
        raise ValueError("no place of a file")
    entry = tracker.entry(task, fd)
    if entry is not None:
        tracker.add(task, Event.MAP, entry.handle.file, entry.handle, offset=at, length=size)
        tracker.blind[Blind.MAPPINGS] += 1
        task.mappings[call.result] = (call.result + size, entry.handle.file)


def io_uring(tracker: Tracker, task: Task, call: Call) -> None:
    """Count an io_uring (io_uring_setup(2))."""
    tracker.blind[Blind.IO_URING] += 1


def aio(tracker: Tracker, task: Task, call: Call) -> None:
    """Count a queue of asynchronous calls (io_setup(2))."""
    tracker.blind[Blind.AIO] += 1
