# SPDX-License-Identifier: Apache-2.0
"""The log of what changes in the registry and in the pages that it lists (harness/emulator/changes.c)."""

import mmap
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from riobed.errors import InfraError
from riobed.guest import Layout
from riobed.guest.memory.layout import PAGE
from riobed.products import Manifest
from riobed.vm import Plugin, compiled

NAME = "changes"
# struct control and struct change of changes.c
_CONTROL = struct.Struct("<7Q1024s")
_CHANGE = struct.Struct("<QII")
_LOG = 4096
_ROOM = 256 << 20
_STORE, _PAGE, _DEVICE = range(3)


@dataclass(frozen=True)
class Change:
    """What memory has from now on at a physical address; of a request to the disk there is no content."""

    physical: int
    content: bytes
    store: bool


@dataclass(frozen=True)
class Interleaving:
    """After how many stores the first processor waits how many ms, so that another one is next.

    Only its stores into the registry and into metadata count, and those of a copy once.
    """

    every: int = 0
    pause: int = 0


def change_plugin(manifest: Manifest, layout: Layout, qemu: Path | None) -> Plugin:
    """Return the plugin for guests of a layout; EnvironmentFault if it cannot be compiled."""
    registry = f"{layout.registry_start:x}:{layout.registry_start + layout.registry_size:x}"
    arguments = (f"registry={registry}", f"pages={layout.ram // PAGE}")
    return Plugin(compiled(manifest, NAME, qemu), NAME, arguments)


def start_log(folder: Path, ram: Path, device: tuple[int, int], interleaving: Interleaving) -> None:
    """Empty the log of a machine in `folder`, which is paused, and begin it when the machine goes on."""
    words = (1, 0, 0, interleaving.every, interleaving.pause, *device)
    with _control(folder) as control:
        control[: _CONTROL.size] = _CONTROL.pack(*words, str(ram).encode())


def end_log(folder: Path) -> None:
    """End the log of a machine, which is paused."""
    with _control(folder) as control:
        struct.pack_into("<Q", control, 0, 0)


def read_log(folder: Path) -> tuple[list[Change], int]:
    """Return the log, and how many stores count as Interleaving says; InfraError if it did not fit."""
    with _control(folder) as control:
        _, used, stores, *_ = _CONTROL.unpack_from(control)
        if used > _ROOM:
            raise InfraError(f"{folder / NAME}: {used} bytes are too many for the log; sweep less at a time")
        return list(_changes(control[_LOG : _LOG + used])), stores


def _changes(log: bytes) -> Iterator[Change]:
    at = 0
    while at < len(log):
        physical, size, kind = _CHANGE.unpack_from(log, at)
        at += _CHANGE.size
        yield Change(physical, log[at : at + size], kind == _STORE)
        at += size


@contextmanager
def _control(folder: Path) -> Iterator[mmap.mmap]:
    with (folder / NAME).open("r+b") as file, mmap.mmap(file.fileno(), 0) as control:
        yield control
