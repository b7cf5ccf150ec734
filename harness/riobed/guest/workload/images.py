# SPDX-License-Identifier: Apache-2.0
"""Disk images of a guest: empty disks, and a workload's folder packed as a disk."""

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from riobed_results.files import replacing

from riobed.errors import EnvironmentFault, UsageError
from riobed.guest.memory.layout import MIB
from riobed.guest.workload.description import FILE, beside_folder
from riobed.products import Manifest, cache_dir
from riobed.vm import need_room, run_inside, run_tool

# The size limit of a built workload, and how much larger than its files the image is at least.
_MAX_WORKLOAD = 1024 * MIB
_SLACK = 8 * MIB


def make_empty_disk(path: Path, size: int) -> None:
    """Make an empty disk of `size` bytes as a qcow2 image, which is sparse and can hold snapshots."""
    path.unlink(missing_ok=True)
    run_tool(["qemu-img", "create", "-q", "-f", "qcow2", str(path), str(size)], f"disk {path}")


def workload_key(folder: Path, *context: str) -> str:
    """Hash a workload's files and `context`, which names what builds them; returns 16 hex digits."""
    digest = hashlib.sha256("\0".join(context).encode())
    for path in sorted(folder.rglob("*")):
        if "__pycache__" in path.parts:
            continue  # Python's cache differs from host to host
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise UsageError(f"workload {folder}: {path.name} is neither file nor folder; take it out")
        if path.is_file():
            content = path.read_bytes()
            head = f"{path.relative_to(folder)}\0{os.access(path, os.X_OK):d}\0{len(content)}\0"
            digest.update(head.encode("utf-8", "surrogateescape") + content)
    return digest.hexdigest()[:16]


def workload_image(
    folder: Path, build: str | None, manifest: Manifest, beside: Sequence[tuple[Path, str | None]] = ()
) -> Path:
    """Pack a workload's folder, built by the command `build`, as a read-only disk image; cached by content.

    The same is done with the folders and commands in `beside`, in folders of that one.
    A build is announced on stderr.

    UsageError if the folder cannot be packed, EnvironmentFault if the build fails.
    """
    others = [f"{workload_key(path)} {command or ''}" for path, command in beside]
    key = workload_key(folder, manifest.toolchain.key, build or "", *others)
    image = cache_dir() / "workload" / f"{key}.ext4"
    if image.exists():
        return image
    image.parent.mkdir(parents=True, exist_ok=True)
    build_root = manifest.toolchain.root / "build"
    build_root.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=build_root, prefix="workload-") as made:
        work = Path(made)
        _build(folder, build, work, manifest)
        for number, (path, command) in enumerate(beside):
            _build(path, command, work / beside_folder(number), manifest)
        size = sum(path.lstat().st_size for path in work.rglob("*"))
        if size > _MAX_WORKLOAD:
            raise UsageError(f"workload {folder}: {size // MIB} MiB, at most {_MAX_WORKLOAD // MIB} MiB fit")
        work.chmod(0o755)
        _pack(work, image, size)
    return image


def unpack_workload(image: Path, folder: Path) -> Path:
    """Unpack an image of workload_image() into a folder in `folder`, which is returned.

    EnvironmentFault if that fails.
    """
    place = folder / f"workload-{image.stem}"
    if place.exists():
        return place
    with tempfile.TemporaryDirectory(dir=folder, prefix="unpacking-") as made:
        new = Path(made) / "files"
        new.mkdir()
        # debugfs ends with 0 whatever happens.
        said = run_tool(["debugfs", "-R", f"rdump / {new}", str(image)], f"image {image}")
        if not (new / FILE).exists():
            raise EnvironmentFault(f"image {image}: debugfs cannot unpack it: {said.strip()[-200:]}")
        new.chmod(0o755)
        # Another thread may have been first.
        with suppress(OSError):
            new.rename(place)
    return place


def _build(folder: Path, build: str | None, work: Path, manifest: Manifest) -> None:
    """Copy a workload's folder to `work`, in the toolchain root, and build it there."""
    shutil.copytree(folder, work, dirs_exist_ok=True)
    if not build:
        return
    print(f"Building workload {folder.name}, once", file=sys.stderr, flush=True)
    run_inside(manifest.toolchain.root, work, build, f"build of workload {folder.name}")


def _pack(folder: Path, image: Path, size: int) -> None:
    need_room(image.parent, 2 * size + _SLACK)
    with replacing(image) as temporary:
        blocks = (size * 5 // 4 + _SLACK) // 1024
        run_tool(
            ["mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-d", str(folder), str(temporary)]
            + [f"{blocks}k"],
            f"image {image}",
        )
