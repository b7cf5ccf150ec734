# SPDX-License-Identifier: Apache-2.0
"""Recording/Calls/Naming: calls that take, move and look up names."""

import re

from riobed_caches.recording import arguments
from riobed_caches.recording.lines import Call
from riobed_caches.recording.names import Entry, File
from riobed_caches.recording.tasks import Task
from riobed_caches.recording.tracker import Tracker
from riobed_caches.trace.check import MAX_END

_OF_DESCRIPTOR = re.compile(rb'"/proc/(?:self|thread-self)/fd/(\d{1,10})"')
_NO_PATH = (b'""', b"NULL")
# Which argument is the struct.
_STAT_AT = {"stat": 1, "lstat": 1, "fstat": 1, "newfstatat": 2, "statx": 4}


def unlink(tracker: Tracker, task: Task, call: Call) -> None:
    """Apply unlink(2)."""
    if (path := tracker.path(task, call.args[0])) is not None:
        tracker.removed(task, path)


def unlinkat(tracker: Tracker, task: Task, call: Call) -> None:
    """Apply unlinkat(2); directories are left out."""
    path = tracker.path(task, call.args[1], call.args[0])
    if path is not None and b"AT_REMOVEDIR" not in call.args[2]:
        tracker.removed(task, path)


def rename(tracker: Tracker, task: Task, call: Call) -> None:
    """Apply rename(2)."""
    _rename(tracker, task, tracker.path(task, call.args[0]), tracker.path(task, call.args[1]), b"")


def renameat(tracker: Tracker, task: Task, call: Call) -> None:
    """Apply renameat(2) and renameat2(2)."""
    folder, old, new_folder, new, *how = call.args
    paths = tracker.path(task, old, folder), tracker.path(task, new, new_folder)
    _rename(tracker, task, *paths, b"".join(how))


def _rename(tracker: Tracker, task: Task, old: bytes | None, new: bytes | None, how: bytes) -> None:
    """Move a name; a file that had the new name loses it, or gets the old one."""
    if old is None or new is None:
        return
    moved, replaced = tracker.names.find(old), tracker.names.find(new)
    if moved is not None and moved is replaced:
        return
    if b"RENAME_EXCHANGE" in how:
        _name(tracker, old, replaced)
    else:
        if isinstance(replaced, File):
            tracker.unlinked(task, replaced)
        tracker.names.put(old, None)
    _name(tracker, new, moved)


def _name(tracker: Tracker, path: bytes, entry: Entry) -> None:
    """Give a name to a file or directory, which exists, if nothing else is known of it."""
    if entry is None:
        tracker.names.forget(path)
    else:
        tracker.names.put(path, entry)


def link(tracker: Tracker, task: Task, call: Call) -> None:
    """Apply link(2)."""
    old, new = tracker.path(task, call.args[0]), tracker.path(task, call.args[1])
    if old is not None and new is not None:
        _link(tracker, tracker.known(old), new)


def linkat(tracker: Tracker, task: Task, call: Call) -> None:
    """Apply linkat(2); it can name a file by a descriptor, as open(2) says at O_TMPFILE."""
    new = tracker.path(task, call.args[3], call.args[2])
    by_descriptor = _OF_DESCRIPTOR.fullmatch(call.args[1])
    if call.args[1] in _NO_PATH:
        entry = tracker.entry(task, call.args[0])
    elif by_descriptor is not None:
        entry = task.table.entries.get(int(by_descriptor[1]))
    else:
        old = tracker.path(task, call.args[1], call.args[0])
        if old is not None and new is not None:
            _link(tracker, tracker.known(old), new)
        return
    if entry is not None and new is not None:
        _link(tracker, entry.handle.file, new)


def _link(tracker: Tracker, file: File, path: bytes) -> None:
    file.links += 1
    tracker.names.put(path, file)


def stat(tracker: Tracker, task: Task, call: Call) -> None:
    """Take over the size of a regular file from stat(2) and its like."""
    found = arguments.status(call.args[_STAT_AT[call.name]])
    if found is None or found[0] != b"S_IFREG" or found[1] > MAX_END:
        return
    if call.name == "fstat" or call.args[1] in _NO_PATH:
        entry = tracker.entry(task, call.args[0])
        if entry is not None:
            tracker.learn(entry.handle.file, found[1])
    elif (path := _path(tracker, task, call)) is not None:
        tracker.learn(tracker.known(path), found[1])


def absent(tracker: Tracker, task: Task, call: Call) -> None:
    """Note that a name does not exist: an open that makes it later has created the file."""
    path = _path(tracker, task, call)
    if path is not None and tracker.names.find(path) is None:
        tracker.names.put(path, None)


def _path(tracker: Tracker, task: Task, call: Call) -> bytes | None:
    """Return the path of a call that looks it up, if it can be that of a file of a disk."""
    first, second = call.args[:2]
    path = tracker.path(task, first) if first.startswith(b'"') else tracker.path(task, second, first)
    return path if path is not None and arguments.on_disk(path) else None
