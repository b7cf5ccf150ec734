# SPDX-License-Identifier: Apache-2.0
"""Recording/Tracker: follows descriptors, names and sizes through the calls, and adds the events."""

import re
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

from riobed_caches.recording import arguments
from riobed_caches.recording.lines import Began, Ended, Superseded
from riobed_caches.recording.names import File, Names, join
from riobed_caches.recording.tasks import Descriptor, Handle, Place, Table, Task
from riobed_caches.trace.builder import Builder
from riobed_caches.trace.events import UNKNOWN, Event, Flag

_FDS = re.compile(rb"(\d{1,10})<")


class Blind(StrEnum):
    """What a log of strace does not show, with {} for how often it happened."""

    MAPPINGS = "stores into {} shared writable mappings of files are not seen"
    IO_URING = "{} io_uring queues move data that are not seen"
    AIO = "{} queues of io_submit(2) move data that are not seen"
    DIRECT = "{} opens with O_DIRECT count as if they used the page cache"
    HOLES = "{} fallocate(2) calls change files in a way that no event says"
    CLONES = "{} ioctl(2) calls share extents of files, which no event says"
    OFFSETS = "{} transfers use descriptors of unknown position: it is counted from 0"
    APPENDS = "{} appends go to files of unknown size: the last known byte counts as the end"
    DELETES = "{} deletions are of names that were not opened before: they are left out"
    LOST_PATHS = "{} relative paths are of processes whose directory is not known: their calls are left out"
    CLOCK = "the clock went back {} times: the last time before is kept until it is past"
    RUNNING = "{} tasks still ran at the end of the log: what they did then is not seen"


@dataclass(frozen=True)
class Inherited:
    """A regular file that a command has open when it starts, under several descriptors."""

    fds: tuple[int, ...]
    path: bytes
    position: int
    size: int
    flags: Flag
    append: bool


@dataclass(frozen=True)
class Start:
    """What is known of a command when it starts."""

    folder: bytes | None = None
    user: int | None = None
    inherited: tuple[Inherited, ...] = ()


class Tracker:
    """The state of all tasks and files, and the events so far.

    An OPEN of a file of unknown size is held back until a call tells the size, or another event of the file
    comes: the size before the first open is mostly known from the fstat(2) behind it.
    """

    def __init__(self, start: Start) -> None:
        self.events = Builder()
        self.names = Names()
        self.blind: Counter[Blind] = Counter()
        self.time = 0
        self.first: int | None = None
        self._start = start
        self._tasks: dict[int, Task] = {}
        self._early: set[int] = set()
        self._held: dict[File, list[tuple[int, int, int, Flag]]] = {}
        self._files = self._handles = self._processes = 0

    def at(self, time: int) -> None:
        """Go on to `time`, in µs. All events are in the order of the log, so that handles stay in order."""
        if time < self.time:
            self.blind[Blind.CLOCK] += 1
        self.time = max(self.time, time)

    # Tasks

    def task(self, number: int, parent: int | None = None) -> Task:
        """Return the task of this number; a new one is a child of `parent`, or of no known process."""
        found = self._tasks.get(number)
        if found is None:
            if parent is None:
                found = self._root()
            else:
                of = self._tasks[parent]
                found = of.child(of.cloning or frozenset(), self._new_process())
                self._early.add(number)
            self._tasks[number] = found
        return found

    def knows(self, number: int) -> bool:
        """Say whether a task of this number runs."""
        return number in self._tasks

    def cloning(self) -> list[int]:
        """Return the tasks whose clone(2) has begun and not returned."""
        return [number for number, task in self._tasks.items() if task.cloning is not None]

    def cloned(self, task: Task, number: int, flags: frozenset[bytes]) -> None:
        """Add the child that a clone(2) returned, if it was not seen to run before."""
        if number in self._early:
            self._early.discard(number)
        else:
            self._tasks[number] = task.child(flags, self._new_process())

    def _new_process(self) -> int:
        """Return a number for a new process; the system uses its own numbers again."""
        self._processes += 1
        return self._processes

    def _root(self) -> Task:
        first = not self._processes
        task = Task(self._new_process(), Table(), Place(self._start.folder if first else None), {})
        for of in self._start.inherited if first else ():
            file = self.known(of.path)
            self.learn(file, of.size)
            handle = self.opened(task, file, of.flags, append=of.append, size=of.size)
            handle.position = of.position
            for fd in of.fds:
                self.install(task, fd, handle, of.path)
        return task

    def began(self, task: Task, item: Began) -> None:
        """Keep what a call that does not return at once has taken from its arguments."""
        if item.name in ("fork", "vfork", "clone", "clone3"):
            task.cloning = clone_flags(item.text)
        elif task.table.tasks > 1:
            task.hold(int(fd) for fd in _FDS.findall(item.text))

    def returned(self, task: Task) -> None:
        """Let go of what the call held."""
        task.cloning = None
        for entry in task.held.values():
            self.release(task, entry.handle)
        task.held.clear()

    def ended(self, item: Ended) -> None:
        """Close what only this task had open."""
        task = self._tasks.pop(item.task, None)
        if task is not None:
            self.returned(task)
            self._leave(task)

    def superseded(self, item: Superseded) -> None:
        """Let the task `by`, which ran execve(2), go on under the number of the first task of its process."""
        by = self._tasks.pop(item.by, None)
        self.ended(Ended(item.number, item.time, item.task))
        if by is not None:
            self._tasks[item.task] = by
            self.returned(by)
            self.executed(by)

    def executed(self, task: Task) -> None:
        """Close the descriptors that execve(2) closes."""
        task.unshare()
        task.mappings = {}
        for fd in [fd for fd, entry in task.table.entries.items() if entry.cloexec]:
            self.close(task, fd)

    def _leave(self, task: Task) -> None:
        task.table.tasks -= 1
        if task.table.tasks == 0:
            for fd in list(task.table.entries):
                self.close(task, fd)

    # Descriptors and handles

    def install(self, task: Task, fd: int, handle: Handle, path: bytes, *, cloexec: bool = False) -> None:
        """Make `fd` stand for `handle`."""
        self.close(task, fd)
        handle.references += 1
        task.table.entries[fd] = Descriptor(handle, path, cloexec=cloexec)

    def close(self, task: Task, fd: int) -> None:
        """Make `fd` stand for nothing."""
        entry = task.table.entries.pop(fd, None)
        if entry is not None:
            self.release(task, entry.handle)

    def release(self, task: Task, handle: Handle) -> None:
        """Drop a reference; the last closes the handle, and ends a file that has no name any more."""
        handle.references -= 1
        if handle.references:
            return
        if handle.number is not None:
            self.add(task, Event.CLOSE, handle.file, handle)
        handle.file.opens -= 1
        self._end(task, handle.file)

    def entry(self, task: Task, arg: bytes) -> Descriptor | None:
        """Return the descriptor that an argument shows; None if it stands for no file of a disk."""
        shown = arguments.descriptor(arg)
        found = task.held.get(shown.fd) or task.table.entries.get(shown.fd)
        if shown.path is None or not arguments.on_disk(shown.path):
            if found is not None and b"<" in arg:
                self.close(task, shown.fd)
                return None
            return found
        if found is not None and (found.shown == shown.path or shown.deleted):
            return found
        other = self.names.find(shown.path)
        if isinstance(other, dict):
            return None
        if found is not None and (other is None or other is found.handle.file):
            found.shown = shown.path
            return found
        file = self._new(shown.path) if shown.deleted else self.known(shown.path)
        file.opens += 1
        self.install(task, shown.fd, Handle(file, None), shown.path)
        return task.table.entries[shown.fd]

    def opened(
        self,
        task: Task,
        file: File,
        flags: Flag,
        *,
        append: bool = False,
        size: int = UNKNOWN,
    ) -> Handle:
        """Add an OPEN, and return its handle. `size` is that of the file before, in bytes."""
        self._handles += 1
        handle = Handle(file, self._handles, append=append, durable=Flag.DURABLE in flags)
        file.opens += 1
        if size == UNKNOWN and not flags & (Flag.CREATED | Flag.EMPTIED):
            file.seen = True
            self._held.setdefault(file, []).append((self.time, task.process, self._handles, flags))
        else:
            self.add(task, Event.OPEN, file, handle, size=size, flags=flags)
        return handle

    # Files

    def path(self, task: Task, arg: bytes, folder: bytes | None = None) -> bytes | None:
        """Return the absolute path of a string argument, relative to the descriptor argument `folder`.

        None, and counted, if it is relative and the directory is not known.
        """
        path = arguments.string(arg)
        above = task.place.path
        if folder is not None:
            shown = arguments.descriptor(folder)
            if shown.fd == -1 and shown.path is not None:
                self._arrived(task, shown.path)
            above = task.place.path if shown.fd == -1 else shown.path
        if path.startswith(b"/"):
            return self.names.real(join(b"/", path))
        if above is None:
            self.blind[Blind.LOST_PATHS] += 1
            return None
        return self.names.real(join(above, path))

    def _arrived(self, task: Task, real: bytes) -> None:
        """Note where a process really is; a chdir(2) may have led there by way of a symbolic link."""
        if task.place.path is not None:
            self.names.alias(task.place.path, real)
        task.place.path = real

    def known(self, path: bytes) -> File:
        """Return the file of this name; if none is known, one that existed before."""
        found = self.names.find(path)
        return found if isinstance(found, File) else self.created(path)

    def created(self, path: bytes, size: int = UNKNOWN) -> File:
        """Return a file that was not known before, under its name."""
        file = self._new(path, size)
        file.links = 1
        self.names.put(path, file)
        return file

    def unnamed(self, path: bytes) -> File:
        """Return a new file without a name, as O_TMPFILE makes it in the directory of `path`."""
        return self._new(path, 0)

    def _new(self, path: bytes, size: int = UNKNOWN) -> File:
        self._files += 1
        return File(self._files, path, size)

    def learn(self, file: File, size: int) -> None:
        """Take over a size that a call showed."""
        if file.size == UNKNOWN:
            self._show(file, size)
        file.size = size
        file.end = size

    def removed(self, task: Task, path: bytes) -> None:
        """Take away a name; a file without names and handles is deleted."""
        found = self.names.find(path)
        if isinstance(found, File):
            self.unlinked(task, found)
        else:
            self.blind[Blind.DELETES] += 1
        self.names.put(path, None)

    def unlinked(self, task: Task, file: File) -> None:
        """Count one name less for a file."""
        file.links -= 1
        if not file.links and not file.seen:
            self.blind[Blind.DELETES] += 1
        self._end(task, file)

    def _end(self, task: Task, file: File) -> None:
        if file.links <= 0 and not file.opens and not file.gone:
            if file.seen:
                self.add(task, Event.DELETE, file)
            file.gone = True

    # Events

    def add(
        self,
        task: Task,
        event: Event,
        file: File | None,
        handle: Handle | None = None,
        *,
        offset: int = UNKNOWN,
        length: int = UNKNOWN,
        size: int = UNKNOWN,
        flags: Flag = Flag.NONE,
    ) -> None:
        """Add an event of now; offset, length and size in bytes."""
        if file is not None:
            self._show(file, UNKNOWN)
            file.seen = True
        number = None if handle is None else handle.number
        self._add(self.time, task.process, event, file, number, (offset, length, size), flags)

    def finish(self) -> None:
        """Add the events that are held back, and count the tasks that are not seen to end."""
        for file in list(self._held):
            self._show(file, UNKNOWN)
        if self._tasks:
            self.blind[Blind.RUNNING] += len(self._tasks)

    def _show(self, file: File, size: int) -> None:
        """Add the OPENs of a file that are held back, with the size that it had."""
        for time, process, handle, flags in self._held.pop(file, ()):
            self._add(time, process, Event.OPEN, file, handle, (UNKNOWN, UNKNOWN, size), flags)

    def _add(
        self,
        time: int,
        process: int,
        event: Event,
        file: File | None,
        handle: int | None,
        numbers: tuple[int, int, int],
        flags: Flag,
    ) -> None:
        self.first = time if self.first is None else min(self.first, time)
        offset, length, size = numbers
        self.events.add(
            time,
            event,
            None if file is None else file.number,
            client=0,
            user=self._start.user,
            process=process,
            handle=handle,
            offset=offset,
            length=length,
            size=size,
            flags=flags,
            name=None if file is None else file.name.decode(errors="surrogateescape"),
        )


def clone_flags(text: bytes) -> frozenset[bytes]:
    """Return the flags in the arguments of a clone(2) or clone3(2); fork(2) and vfork(2) have none."""
    return frozenset(re.findall(rb"\bCLONE_\w+", text))
