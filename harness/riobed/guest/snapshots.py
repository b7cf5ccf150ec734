# SPDX-License-Identifier: Apache-2.0
"""The snapshot cache. A snapshot is a guest's disk images, which also hold the saved RAM and devices.

A deterministic trial repeats only from the very same snapshot, so all its guests of one kind start from one.
Other guests are kept on request (RIOBED_SNAPSHOTS), because restoring takes less time than booting.
"""

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from riobed.errors import EnvironmentFault
from riobed.guest.meminfo import CacheUse
from riobed.products import content_key
from riobed.vm import Machine, MachineConfig, make_nvdimm, need_room

# The environment variable that names a folder in which ready guests outlive the process that booted them.
SNAPSHOTS = "RIOBED_SNAPSHOTS"
# How much such a folder holds. What was used within the last hour may be in use and stays.
_MOST_BYTES = 8 << 30
_IN_USE_S = 3600.0
_INDEX = "index.json"
# The names of a snapshot and of the folder of one version of the code, and those of what is not complete.
_KEY = "[0-9a-f]" * 16
_HALF = "half-"


class Known(BaseModel):
    """What is known of a snapshot beside its images: see the attributes of Guest."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    boot_id: str
    # In Latin-1, because it may be any bytes.
    outside: str
    cache: CacheUse | None


class _Index(BaseModel):
    """What a kept snapshot is: its key, what that was made of, and the SHA-256 of each disk."""

    model_config = ConfigDict(extra="forbid")

    key: str
    made_of: dict[str, Any]
    disks: dict[str, str]
    known: Known


def snapshot_key(made_of: Mapping[str, Any]) -> str:
    """Return the name of the snapshot of guests that are made of the same."""
    return hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()[:16]


def described(config: MachineConfig) -> dict[str, Any]:
    """Describe a machine for a key: all of it, but where its files are."""

    def plain(value: Any) -> Any:
        if isinstance(value, Path):
            return value.name
        if isinstance(value, dict):
            return {key: plain(each) for key, each in value.items()}
        return [plain(each) for each in value] if isinstance(value, list | tuple) else value

    whole = asdict(config)
    return {name: plain(value) for name, value in whole.items() if name not in ("name", "folder")}


def keep_snapshot(machine: Machine, kept: Path, made_of: Mapping[str, Any], known: Known) -> None:
    """Copy the disks of a guest that has just been saved to the cache, unless another worker was first.

    `known` is what restore_disks() is to return. EnvironmentFault if there is no room.
    """
    disks = _disks(machine.config)
    with _explained(kept.parent):
        kept.parent.mkdir(parents=True, exist_ok=True)
        need_room(kept.parent, sum(disk.stat().st_size for disk in disks))
        with tempfile.TemporaryDirectory(dir=kept.parent, prefix=_HALF, ignore_cleanup_errors=True) as made:
            for disk in disks:
                shutil.copyfile(disk, Path(made) / disk.name)
            sums = {disk.name: _hash(Path(made) / disk.name) for disk in disks}
            index = _Index(key=kept.name, made_of=dict(made_of), disks=sums, known=known)
            (Path(made) / _INDEX).write_text(index.model_dump_json(), encoding="utf-8")
            # rename(2) does not replace a folder that is not empty (ENOTEMPTY).
            with suppress(OSError):
                Path(made).rename(kept)


def restore_disks(machine: Machine, kept: Path) -> Known:
    """End a guest and give it the cached disks; return what was known of them when they were kept.

    EnvironmentFault if they are missing or damaged, or those of another kind of guest.
    """
    machine.destroy()
    nvdimm = machine.config.nvdimm.size if machine.config.nvdimm else 0
    need_room(machine.config.folder, 2 * (machine.config.memory + nvdimm))
    # The snapshot has its content.
    make_nvdimm(machine.config)
    with _explained(kept):
        # When it was used last; trim() goes by that.
        os.utime(kept)
        index = _index(kept)
        for disk in _disks(machine.config):
            shutil.copyfile(kept / disk.name, disk)
        # If the host went down, files may hold less than was written to them.
        if not index or index.disks != {disk.name: _hash(disk) for disk in _disks(machine.config)}:
            raise EnvironmentFault(
                f"{kept}: this snapshot is damaged; remove it (replays of its trials may then differ)"
            )
        if not index.key == snapshot_key(index.made_of) == kept.name:
            raise EnvironmentFault(f"{kept}: this is the snapshot of another guest; remove it")
    return index.known


def kept_guests() -> Path | None:
    """Return the folder of snapshots that this code made, below the one that RIOBED_SNAPSHOTS names; or None.

    Other code may boot the same machine in another way, so it has another folder.
    """
    name = os.environ.get(SNAPSHOTS)
    if not name:
        return None
    trim(Path(name), _MOST_BYTES)
    return Path(name).absolute() / _code()


@cache
def _code() -> str:
    here = Path(__file__).parent
    return snapshot_key({room: content_key(here.with_name(room)) for room in ("guest", "vm")})


def trim(folder: Path, most: int) -> None:
    """Remove the snapshots that were not used for longest until at most `most` bytes are left.

    What a killed process left half-copied goes, too. Nothing else in the folder is touched.
    """
    # Another process may do the same at the same time.
    with suppress(FileNotFoundError):
        kept = [index.parent for index in folder.glob(f"{_KEY}/{_KEY}/{_INDEX}")]
        total = 0
        for each in sorted(kept, key=_used, reverse=True):
            total += sum(file.stat().st_size for file in each.iterdir())
            if total > most:
                _remove_unless_used(each)
        for half in folder.glob(f"{_KEY}/{_HALF}*/"):
            _remove_unless_used(half)


def _remove_unless_used(place: Path) -> None:
    if time.time() - _used(place) > _IN_USE_S:
        shutil.rmtree(place, ignore_errors=True)


def _used(place: Path) -> float:
    return place.stat().st_mtime


def _index(kept: Path) -> _Index | None:
    try:
        return _Index.model_validate_json((kept / _INDEX).read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


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
