# SPDX-License-Identifier: Apache-2.0
"""The snapshot cache. A snapshot is a guest's disk images, which also hold the saved RAM and devices.

A deterministic trial repeats only from the very same snapshot. So the cache holds one for each kind of guest,
and all guests of that kind in a campaign start from it.
"""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from riobed.errors import EnvironmentFault
from riobed.vm import Machine, MachineConfig, make_nvdimm, need_room

_SUMS = "sha256.json"
# The key of that file that names no disk.
_KNOWN = "known"


def keep_snapshot(machine: Machine, kept: Path, known: dict[str, str]) -> None:
    """Copy the disks of a guest that has just been saved to the cache, unless another worker was first.

    `known` is what restore_disks() is to return. EnvironmentFault if there is no room.
    """
    disks = _disks(machine.config)
    with _explained(kept.parent):
        need_room(kept.parent, sum(disk.stat().st_size for disk in disks))
        with tempfile.TemporaryDirectory(dir=kept.parent, ignore_cleanup_errors=True) as made:
            for disk in disks:
                shutil.copyfile(disk, Path(made) / disk.name)
            sums = {disk.name: _hash(Path(made) / disk.name) for disk in disks} | {_KNOWN: known}
            (Path(made) / _SUMS).write_text(json.dumps(sums), encoding="utf-8")
            # rename(2) does not replace a folder that is not empty (ENOTEMPTY).
            with suppress(OSError):
                Path(made).rename(kept)


def restore_disks(machine: Machine, kept: Path) -> dict[str, str]:
    """End a guest and give it the cached disks; return what was known of them when they were kept.

    EnvironmentFault if they are missing or damaged.
    """
    machine.destroy()
    nvdimm = machine.config.nvdimm.size if machine.config.nvdimm else 0
    need_room(machine.config.folder, 2 * (machine.config.memory + nvdimm))
    # The snapshot has its content.
    make_nvdimm(machine.config)
    with _explained(kept):
        for disk in _disks(machine.config):
            shutil.copyfile(kept / disk.name, disk)
        # If the host went down, files may hold less than was written to them.
        sums = _sums(kept)
        known = sums.pop(_KNOWN, None)
        if not isinstance(known, dict) or sums != {disk.name: _hash(disk) for disk in _disks(machine.config)}:
            raise EnvironmentFault(
                f"{kept}: this snapshot is damaged; remove it (replays of its trials may then differ)"
            )
    return known


def _sums(kept: Path) -> dict[str, Any]:
    try:
        return dict(json.loads((kept / _SUMS).read_bytes()))
    except (FileNotFoundError, TypeError, ValueError):
        return {}


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _explained(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise EnvironmentFault(f"{place}: {error.strerror}; snapshots are kept there") from None


def _disks(config: MachineConfig) -> list[Path]:
    devices = [device.path for device in config.devices]
    return [config.test_disk, *([config.swap_disk] if config.swap_disk else []), *devices]
