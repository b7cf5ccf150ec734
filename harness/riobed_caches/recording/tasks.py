# SPDX-License-Identifier: Apache-2.0
"""Recording/Tasks: processes and threads, their descriptors, and the handles these stand for."""

from collections.abc import Iterable

from riobed_caches.recording.names import File


class Handle:
    """An open file description (open(2)): all descriptors duplicated from one share its position.

    `number` is its identity in the trace, or None if its opening was not seen; then its position is counted
    from 0, and `guessed` until a call tells it. `references` counts descriptors, and calls that run.
    """

    __slots__ = ("append", "durable", "file", "guessed", "number", "position", "references")

    def __init__(
        self, file: File, number: int | None, *, append: bool = False, durable: bool = False
    ) -> None:
        self.file = file
        self.number = number
        self.append = append
        self.durable = durable
        self.guessed = number is None
        self.position = 0
        self.references = 0


class Descriptor:
    """An entry of a table of descriptors; `shown` is the path that strace showed last."""

    __slots__ = ("cloexec", "handle", "shown")

    def __init__(self, handle: Handle, shown: bytes, *, cloexec: bool = False) -> None:
        self.handle = handle
        self.shown = shown
        self.cloexec = cloexec


class Table:
    """The descriptors of a process, or of several that share them (CLONE_FILES)."""

    def __init__(self) -> None:
        self.entries: dict[int, Descriptor] = {}
        self.tasks = 0

    def copy(self) -> "Table":
        """Return a table with descriptors of its own for the same handles."""
        made = Table()
        for fd, entry in self.entries.items():
            made.entries[fd] = Descriptor(entry.handle, entry.shown, cloexec=entry.cloexec)
            entry.handle.references += 1
        return made


class Place:
    """The current directory of a process; None while it is not known."""

    def __init__(self, path: bytes | None) -> None:
        self.path = path


# Where shared writable mappings of files start, and where they end.
Mappings = dict[int, tuple[int, File]]


class Task:
    """A thread: what it shares with others (clone(2)), and the descriptors that its running call holds."""

    __slots__ = ("cloning", "held", "mappings", "place", "process", "table")

    def __init__(self, process: int, table: Table, place: Place, mappings: Mappings) -> None:
        self.process = process
        self.table = table
        self.place = place
        self.mappings = mappings
        self.held: dict[int, Descriptor] = {}
        self.cloning: frozenset[bytes] | None = None
        table.tasks += 1

    def child(self, flags: frozenset[bytes], process: int) -> "Task":
        """Return the task that clone(2) with these flags makes; `process` is for a process of its own."""
        return Task(
            self.process if b"CLONE_THREAD" in flags else process,
            self.table if b"CLONE_FILES" in flags else self.table.copy(),
            self.place if b"CLONE_FS" in flags else Place(self.place.path),
            self.mappings if b"CLONE_VM" in flags else dict(self.mappings),
        )

    def unshare(self) -> None:
        """Give it a table of its own, if another task shares its table."""
        if self.table.tasks > 1:
            self.table.tasks -= 1
            self.table = self.table.copy()
            self.table.tasks = 1

    def hold(self, fds: Iterable[int]) -> None:
        """Keep these descriptors for a call that begins: another thread may close them meanwhile."""
        for fd in fds:
            if fd not in self.held and (entry := self.table.entries.get(fd)):
                entry.handle.references += 1
                self.held[fd] = entry
