# SPDX-License-Identifier: Apache-2.0
"""Recording/Calls/Opening: calls that make, copy and close descriptors, and processes."""

import re

from riobed_caches.recording import arguments
from riobed_caches.recording.arguments import Shown
from riobed_caches.recording.lines import Call
from riobed_caches.recording.names import File
from riobed_caches.recording.tasks import Task
from riobed_caches.recording.tracker import Blind, Tracker, clone_flags
from riobed_caches.trace.events import Flag

_HOW = re.compile(rb"\bflags=([\w|]+)")


def open_(tracker: Tracker, task: Task, call: Call) -> None:
    """Apply open(2)."""
    _open(tracker, task, call, tracker.path(task, call.args[0]), call.args[1])


def openat(tracker: Tracker, task: Task, call: Call) -> None:
    """Apply openat(2)."""
    _open(tracker, task, call, tracker.path(task, call.args[1], call.args[0]), call.args[2])


def openat2(tracker: Tracker, task: Task, call: Call) -> None:
    """Apply openat2(2), whose flags stand in a struct."""
    how = _HOW.search(call.args[2])
    if how is None:
        raise ValueError("no flags")
    _open(tracker, task, call, tracker.path(task, call.args[1], call.args[0]), how[1])


def creat(tracker: Tracker, task: Task, call: Call) -> None:
    """Apply creat(2)."""
    _open(tracker, task, call, tracker.path(task, call.args[0]), b"O_WRONLY|O_CREAT|O_TRUNC")


def _open(tracker: Tracker, task: Task, call: Call, asked: bytes | None, how: bytes) -> None:
    """Open what strace shows behind the result; `asked` is the path of the arguments."""
    shown, flags = arguments.opened(call.result, call.shown), arguments.flags(how)
    tracker.close(task, shown.fd)
    if shown.path is None or not arguments.on_disk(shown.path) or b"O_PATH" in flags:
        return
    if asked is not None:
        _learn_alias(tracker, asked, shown.path, flags)
    if _is_folder(tracker, shown.path, flags):
        return
    file, created = _file(tracker, task, shown, flags)
    size = 0 if created else file.size
    emptied = b"O_TRUNC" in flags and size != 0
    means = _means(flags) | (Flag.CREATED if created else 0) | (Flag.EMPTIED if emptied else 0)
    handle = tracker.opened(task, file, means, append=b"O_APPEND" in flags, size=size)
    if created or emptied:
        file.size = file.end = 0
    if b"O_DIRECT" in flags:
        tracker.blind[Blind.DIRECT] += 1
    tracker.install(task, shown.fd, handle, shown.path, cloexec=b"O_CLOEXEC" in flags)


def _is_folder(tracker: Tracker, path: bytes, flags: frozenset[bytes]) -> bool:
    if b"O_TMPFILE" in flags:
        return False
    return b"O_DIRECTORY" in flags or isinstance(tracker.names.find(path), dict)


def _learn_alias(tracker: Tracker, asked: bytes, real: bytes, flags: frozenset[bytes]) -> None:
    """Learn which directory a symbolic link stands for, from the path that was asked for and the real one."""
    if _is_folder(tracker, real, flags):
        tracker.names.alias(asked, real)
    elif b"O_CREAT" in flags:
        above, _, last = asked.rpartition(b"/")
        real_above, _, real_last = real.rpartition(b"/")
        # If the last parts differ, the file itself is the link, and nothing is known of the directory.
        if last == real_last:
            tracker.names.alias(above, real_above)


def _file(tracker: Tracker, task: Task, shown: Shown, flags: frozenset[bytes]) -> tuple[File, bool]:
    """Return the file that an open returned, and whether it is known that the open made it."""
    assert shown.path is not None
    if shown.deleted or b"O_TMPFILE" in flags:
        return tracker.unnamed(shown.path), True
    if b"O_CREAT" not in flags:
        return tracker.known(shown.path), False
    known = tracker.names.find(shown.path)
    if b"O_EXCL" not in flags and not tracker.names.is_absent(shown.path):
        return tracker.known(shown.path), False
    if isinstance(known, File):
        tracker.unlinked(task, known)
    return tracker.created(shown.path, 0), True


def _means(flags: frozenset[bytes]) -> Flag:
    means = Flag.NONE
    if flags & {b"O_RDONLY", b"O_RDWR"}:
        means |= Flag.FOR_READING
    if flags & {b"O_WRONLY", b"O_RDWR"}:
        means |= Flag.FOR_WRITING
    if flags & {b"O_SYNC", b"O_DSYNC"}:
        means |= Flag.DURABLE
    return means


def close(tracker: Tracker, task: Task, call: Call) -> None:
    """Apply close(2), unless its first part did: the kernel frees the descriptor before all else."""
    if not call.resumed:
        tracker.close(task, arguments.descriptor(call.args[0]).fd)


def close_range(tracker: Tracker, task: Task, call: Call) -> None:
    """Apply close_range(2)."""
    first, last = int(call.args[0]), int(call.args[1])
    if b"CLOSE_RANGE_UNSHARE" in call.args[2]:
        task.unshare()
    for fd in [fd for fd in task.table.entries if first <= fd <= last]:
        if b"CLOSE_RANGE_CLOEXEC" in call.args[2]:
            task.table.entries[fd].cloexec = True
        else:
            tracker.close(task, fd)


def dup(tracker: Tracker, task: Task, call: Call) -> None:
    """Apply dup(2), dup2(2) and dup3(2)."""
    _duplicate(tracker, task, call, cloexec=b"O_CLOEXEC" in call.args[-1])


def fcntl(tracker: Tracker, task: Task, call: Call) -> None:
    """Apply fcntl(2): copies of descriptors, and their flags."""
    command = call.args[1]
    if command in (b"F_DUPFD", b"F_DUPFD_CLOEXEC"):
        _duplicate(tracker, task, call, cloexec=command == b"F_DUPFD_CLOEXEC")
    elif command in (b"F_SETFD", b"F_SETFL"):
        entry = task.table.entries.get(arguments.descriptor(call.args[0]).fd)
        if entry is not None and command == b"F_SETFD":
            entry.cloexec = b"FD_CLOEXEC" in call.args[2]
        elif entry is not None:
            entry.handle.append = b"O_APPEND" in call.args[2]


def _duplicate(tracker: Tracker, task: Task, call: Call, *, cloexec: bool) -> None:
    """Make the result stand for what the first argument stands for."""
    entry = tracker.entry(task, call.args[0])
    if entry is None:
        tracker.close(task, call.result)
    elif arguments.descriptor(call.args[0]).fd != call.result:
        tracker.install(task, call.result, entry.handle, entry.shown, cloexec=cloexec)


def ioctl(tracker: Tracker, task: Task, call: Call) -> None:
    """Apply ioctl(2): the flag of a descriptor, and extents that files share (ioctl_ficlone(2))."""
    entry = task.table.entries.get(arguments.descriptor(call.args[0]).fd)
    if entry is None:
        return
    if call.args[1] in (b"FIOCLEX", b"FIONCLEX"):
        entry.cloexec = call.args[1] == b"FIOCLEX"
    elif call.args[1].endswith((b"FICLONE", b"FICLONERANGE", b"FIDEDUPERANGE")):
        tracker.blind[Blind.CLONES] += 1


def clone(tracker: Tracker, task: Task, call: Call) -> None:
    """Apply clone(2) and its like in the parent."""
    if call.result:
        tracker.cloned(task, call.result, clone_flags(b",".join(call.args)))


def execve(tracker: Tracker, task: Task, call: Call) -> None:
    """Apply execve(2)."""
    tracker.executed(task)


def chdir(tracker: Tracker, task: Task, call: Call) -> None:
    """Apply chdir(2)."""
    if (path := tracker.path(task, call.args[0])) is not None:
        task.place.path = path


def fchdir(tracker: Tracker, task: Task, call: Call) -> None:
    """Apply fchdir(2)."""
    task.place.path = arguments.descriptor(call.args[0]).path
