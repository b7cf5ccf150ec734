# SPDX-License-Identifier: Apache-2.0
"""What trials of class `planted` change: each kind that a mode has in turn, at rest and in a step."""

from collections.abc import Callable, Iterable

from riobed.faults import Kind
from riobed.guest import CacheMode


def _on_ext4(mode: CacheMode) -> bool:
    return mode.filesystem == "ext4"


def _has_journal(mode: CacheMode) -> bool:
    without = mode.restores_memory or "rio" in mode.mount.split(",")
    return _on_ext4(mode) and not without and not any("^has_journal" in word for word in mode.mkfs)


_HAS: dict[Kind, Callable[[CacheMode], bool]] = {
    "stray": lambda mode: mode.restores_memory,
    "entry": lambda mode: mode.restores_memory,
    "block": lambda mode: mode.file_system.on_disk,
    "written": lambda mode: True,
    "directory": _on_ext4,
    "inode": _on_ext4,
    "bitmap": _on_ext4,
    "xattr": _on_ext4,
    "journal": _has_journal,
    "writecache": lambda mode: _on_ext4(mode) and mode.nvdimm == "cache",
    "canary": lambda mode: mode.nvdimm is not None,
}


def kinds_in(mode: CacheMode, wanted: Iterable[Kind]) -> list[Kind]:
    """Return those of the kinds that can be planted in a mode."""
    return [kind for kind in wanted if _HAS[kind](mode)]


def in_turn(kinds: list[Kind], number: int) -> tuple[Kind, bool]:
    """Return the kind of a mode's trial with that number, and whether it comes in the middle of a step."""
    rounds, at = divmod(number, len(kinds))
    return kinds[at], rounds % 2 == 1
