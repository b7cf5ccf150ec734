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
from riobed.guest.assembly import GuestSetup
from riobed.guest.memory.meminfo import CacheUse
from riobed.guest.settings.modes import CacheMode
from riobed.products import content_key
from riobed.vm import Machine, MachineConfig, make_nvdimm, memory_files, need_room, qemu_version

# The environment variable that names a folder in which ready guests outlive the process that booted them.
SNAPSHOTS = "RIOBED_SNAPSHOTS"
# How much such a folder holds. What was used within the last hour may be in use and stays.
_MOST_BYTES = 8 << 30
_IN_USE_S = 3600.0
_INDEX = "index.json"
# The names of a snapshot and of the folder of one version of the code, and those of what is not complete.
_KEY = "[0-9a-f]" * 16
_HALF = "half-"
# Raise this when a driver makes a different machine from the same MachineConfig, e.g. by a change of
# vm/qemu/domain.xml.j2.
_MACHINE = 1


class Known(BaseModel):
    """What is known of a snapshot beside its images."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    # Which boot of the production kernel its memory comes from, as 16 hexadecimal digits.
    boot_id: str
    # What is outside the workloads' folders, as a script of riobed.guest.workload.tree lists it. In Latin-1,
    # because it may be any bytes.
    outside: str
    # The file cache then.
    cache: CacheUse | None
    # Process ids of the agent's threads, which live as long as the guest.
    agent: tuple[int, ...]


# Of a guest that has no snapshot yet.
NOTHING = Known(boot_id="", outside="", cache=None, agent=())


class _Index(BaseModel):
    """What a kept snapshot is: its key, what that was made of, and the SHA-256 of each disk."""

    model_config = ConfigDict(extra="forbid")

    key: str
    made_of: dict[str, Any]
    disks: dict[str, str]
    known: Known


def snapshot_folder(setup: GuestSetup, mode: CacheMode, config: MachineConfig) -> Path | None:
    """Return the folder of a guest's cached snapshot, which may not exist yet; None without a cache.

    What a plugin counts since power-on and what a parked stage 0 had in memory are in no snapshot.
    """
    if not setup.snapshots or config.plugin or config.interactive or setup.parked:
        return None
    return setup.snapshots / snapshot_key(made_of(setup, mode, config))


def made_of(setup: GuestSetup, mode: CacheMode, config: MachineConfig) -> dict[str, Any]:
    """Return all that decides what a snapshot of a guest is, as JSON takes it."""
    workload = setup.workload_in(mode)
    return {
        "driver": _MACHINE,
        "machine": described(config),
        "disk_mib": setup.machine.disk_mib,
        "qemu": qemu_version(setup.qemu),
        "mode": mode.model_dump(mode="json", exclude={"summary"}),
        "stage0": setup.stage0_kernel(mode).build_id,
        "image": setup.products(mode).image.key,
        # With the options of those beside it, too.
        "prepare": workload.prepare,
        "settled": setup.settled,
        "outside": workload.list_outside,
    }


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


def hash_memory(machine: Machine) -> bytes:
    """Return the SHA-256 of all memory of a paused machine."""
    digest = hashlib.sha256()
    for path in memory_files(machine):
        with path.open("rb") as memory:
            hashlib.file_digest(memory, lambda: digest)
    return digest.digest()


def keep_snapshot(machine: Machine, kept: Path, made_of: Mapping[str, Any], known: Known) -> bool:
    """Copy the disks of a guest that has just been saved to the cache; False if another worker was first.

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
                return True
    return False


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
