# SPDX-License-Identifier: Apache-2.0
"""The memory of a crashed guest, as a file for recovery, that goes from one crash point to the next."""

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from riobed.guest import Layout
from riobed.guest.memory.layout import ENTRY_SIZE, PAGE
from riobed.guest.memory.registry import STATE_MASK
from riobed.sweep.changes import Change

# The state is in the fifth byte of an entry's word (rio_registry.h).
_STATE_BYTE = 4


class Memory:
    """A copy of the guest's memory that goes from point to point, as a file for recovery."""

    def __init__(self, path: Path, layout: Layout) -> None:
        self._part = slice(layout.registry_start, layout.registry_start + layout.registry_size)
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self.path = path

    def apply(self, change: Change) -> bool:
        """Make a change; return whether recovery may see it."""
        end = change.physical + len(change.content)
        same = self._map[change.physical : end] == change.content
        self._map[change.physical : end] = change.content
        return not same and (self._in_registry(change.physical) or self._listed(change.physical // PAGE))

    def _in_registry(self, physical: int) -> bool:
        return self._part.start <= physical < self._part.stop

    def _listed(self, page: int) -> bool:
        entry = self._part.start + PAGE + page * ENTRY_SIZE
        return bool(self._map[entry + _STATE_BYTE] & STATE_MASK)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Undo what a recovery changes: it writes into the registry alone."""
        before = self.registry
        try:
            yield
        finally:
            self.registry = before

    @property
    def registry(self) -> bytes:
        """What is in the registry."""
        return self._map[self._part]

    @registry.setter
    def registry(self, content: bytes) -> None:
        # What is behind the last page of the log belongs to the registry, and is not used.
        self._map[self._part.start : self._part.start + len(content)] = content

    def close(self) -> None:
        """Unmap it."""
        self._map.close()
