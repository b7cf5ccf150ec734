# SPDX-License-Identifier: Apache-2.0
"""Recording/Names: which file a path names, as files are made, renamed, linked and deleted."""

import posixpath
from typing import TypeAlias

from riobed_caches.trace.events import UNKNOWN


class File:
    """A file: `links` names that are known, `opens` handles, `size` in bytes or UNKNOWN.

    `end` is where its last known byte ends. `seen` says that the trace has an event of it, and `gone` that it
    was deleted. `number` is its identity, as a path may name one file after another.
    """

    __slots__ = ("end", "gone", "links", "name", "number", "opens", "seen", "size")

    def __init__(self, number: int, name: bytes, size: int = UNKNOWN) -> None:
        self.number = number
        self.name = name
        self.size = size
        self.end = max(size, 0)
        self.links = 0
        self.opens = 0
        self.seen = False
        self.gone = False


# A directory, a file, or None for a name that is known not to exist.
Folder: TypeAlias = "dict[bytes, Folder | File | None]"
Entry: TypeAlias = "Folder | File | None"


class Names:
    """A tree of names, so that the rename of a directory moves all that is below it. Paths are absolute."""

    def __init__(self) -> None:
        self._root: Folder = {}
        self._aliases: dict[bytes, bytes] = {}

    def find(self, path: bytes) -> Entry:
        """Return the file or directory of this name; None if it is not known, or does not exist."""
        entry: Entry = self._root
        for part in _parts(path):
            if not isinstance(entry, dict):
                return None
            entry = entry.get(part)
        return entry

    def is_absent(self, path: bytes) -> bool:
        """Say whether it is known that the name does not exist."""
        folder, last = self._folder(path, make=False)
        return folder is not None and last in folder and folder[last] is None

    def put(self, path: bytes, entry: Entry) -> None:
        """Give the name to a file or directory; None says that it does not exist."""
        folder, last = self._folder(path, make=True)
        assert folder is not None
        folder[last] = entry

    def forget(self, path: bytes) -> None:
        """Say that nothing is known of the name."""
        folder, last = self._folder(path, make=False)
        if folder is not None:
            folder.pop(last, None)

    def alias(self, path: bytes, real: bytes) -> None:
        """Say that the directory `path` is `real`, by way of a symbolic link."""
        if path != real:
            self._aliases[path] = real

    def real(self, path: bytes) -> bytes:
        """Return the path under which a file is known: as it is, or with the known links resolved."""
        if not self._aliases or self.find(path) is not None:
            return path
        head = path
        while head != b"/":
            head = posixpath.dirname(head)
            if head in self._aliases:
                return join(self._aliases[head], path[len(head) :].lstrip(b"/"))
        return path

    def _folder(self, path: bytes, *, make: bool) -> "tuple[Folder | None, bytes]":
        """Return the directory in which the name stands, and the last part of the name."""
        *above, last = _parts(path) or [b""]
        folder = self._root
        for part in above:
            below = folder.get(part)
            if not isinstance(below, dict):
                if not make:
                    return None, last
                below = folder[part] = {}
            folder = below
        return folder, last


def join(folder: bytes, path: bytes) -> bytes:
    """Return an absolute path without `.`, `..` and doubled slashes; `folder` is absolute."""
    return b"/" + posixpath.normpath(posixpath.join(folder, path)).lstrip(b"/")


def _parts(path: bytes) -> list[bytes]:
    return [part for part in path.split(b"/") if part]
