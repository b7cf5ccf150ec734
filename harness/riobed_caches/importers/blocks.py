# SPDX-License-Identifier: Apache-2.0
"""Importers/Blocks: block traces, where a device counts as a file, and a line is a transfer."""

from collections.abc import Hashable
from typing import ClassVar

from riobed_caches.importers.importer import Importer, place, time_of
from riobed_caches.trace.events import Event
from riobed_caches.trace.header import Has

SECTOR = 512


class BlockImporter(Importer):
    """An importer of a block trace."""

    has: ClassVar[tuple[Has, ...]] = (Has.TIMES, Has.DIRECTIONS)
    sees_not = (
        "a device counts as one file: files, opens, deletes and syncs are not seen",
        "transfers are those that a cache above the device let through",
    )

    def move(
        self,
        time: int,
        write: bool,
        device: Hashable,
        where: tuple[int, int],
        *,
        client: Hashable = 0,
        process: Hashable | None = None,
    ) -> None:
        """Add a transfer at `time` (µs) of `where`, an offset and a length in bytes."""
        offset, length = place(*where)
        event = Event.WRITE if write else Event.READ
        self.events.add(
            time_of(time), event, device, client=client, process=process, offset=offset, length=length
        )


def is_write(word: bytes, write: bytes, read: bytes) -> bool:
    """Say which of two words it is. ValueError if it is neither."""
    if word not in (write, read):
        raise ValueError("neither a read nor a write")
    return word == write
