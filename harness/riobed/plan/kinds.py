# SPDX-License-Identifier: Apache-2.0
"""What trials of class `planted` change: each kind that a mode has in turn, at rest and in a step."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from riobed_results.store import Corruption, PlantedKind

from riobed.faults import Kind
from riobed.guest import CacheMode


def _on_ext4(mode: CacheMode) -> bool:
    return mode.filesystem == "ext4"


def _has_journal(mode: CacheMode) -> bool:
    without = mode.restores_memory or "rio" in mode.mount.split(",")
    return _on_ext4(mode) and not without and not any("^has_journal" in word for word in mode.mkfs)


@dataclass(frozen=True)
class _Kind:
    """A kind of change: what it means in rows, and which modes have what it changes."""

    meaning: PlantedKind
    is_in: Callable[[CacheMode], bool]


def _restores(mode: CacheMode) -> bool:
    return mode.restores_memory


def _kind(title: str, found_as: Corruption, is_in: Callable[[CacheMode], bool], **more: Any) -> _Kind:
    return _Kind(PlantedKind(title=title, found_as=found_as, **more), is_in)


KINDS: dict[Kind, _Kind] = {
    "stray": _kind("in a cached page", "direct", _restores),
    "entry": _kind(
        "in an entry of the registry", "direct", _restores, elsewhere="in a step", checks_itself=True
    ),
    "block": _kind("in a block of the disk", "indirect", lambda mode: mode.file_system.on_disk),
    "written": _kind("written to a file", "indirect", lambda mode: True),
    "directory": _kind("in a directory", "direct", _on_ext4),
    "inode": _kind("in an inode", "direct", _on_ext4),
    "xattr": _kind("in an extended attribute", "direct", _on_ext4),
    "bitmap": _kind("in a bitmap", "direct", _on_ext4, elsewhere="always"),
    "journal": _kind("in the journal", "unclassified", _has_journal, elsewhere="always"),
    "writecache": _kind(
        "in the metadata of dm-writecache",
        "unclassified",
        lambda mode: _on_ext4(mode) and mode.nvdimm == "cache",
    ),
    "canary": _kind("in the canary", "direct", lambda mode: mode.nvdimm is not None, elsewhere="always"),
}


def kinds_in(mode: CacheMode, wanted: Iterable[Kind]) -> list[Kind]:
    """Return those of the kinds that can be planted in a mode."""
    return [kind for kind in wanted if KINDS[kind].is_in(mode)]


def in_turn(kinds: list[Kind], number: int) -> tuple[Kind, bool]:
    """Return the kind of a mode's trial with that number, and whether it comes in the middle of a step."""
    rounds, at = divmod(number, len(kinds))
    return kinds[at], rounds % 2 == 1
