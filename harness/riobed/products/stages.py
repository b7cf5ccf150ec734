# SPDX-License-Identifier: Apache-2.0
"""The stages of a build: their inputs, content keys and products in the cache.

A stage's products are cached in `<cache>/<stage>/<key>/`. The key is a hash over its input files and the
keys of the stages before it, so checkouts with equal inputs share products, and a changed input is noticed.
Stages kernel and image are built once per requested kernel; without a request it is the checkout's.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from riobed_results.files import cache_dir, stores_dir, verified_dir, write_whole

from riobed.errors import EnvironmentFault, UsageError
from riobed.products.kernel import CONFIGS, FRAGMENTS, PATCHES, Fragment, KernelSpec, shipped_fragment

CHECKOUT = Path(__file__).resolve().parents[3]
MIB = 1 << 20
KEY_DIGITS = 16
DEBIAN_ROOT = "playbooks/roles/build/files/debian-root"
SERIES = f"{PATCHES}/series"
# The options that the shipped series adds.
_SERIES_CONFIG = f"{CONFIGS}/rio.config"
_EMPTY = Path(os.devnull)
# The scripts that take over a ready kernel, and where they find it.
_READY_SOURCES = ("playbooks/roles/ready_kernel/files",)
_READY = "ready/"
# Not inputs: tests, documentation, and files that `make` leaves beside sources. Fragments are inputs only of
# kernels that name them.
_SKIPPED_FOLDERS = frozenset({"tests", "build", "__pycache__", Path(FRAGMENTS).name})
_SKIPPED_SUFFIXES = frozenset({".a", ".cmd", ".d", ".ko", ".md", ".mod", ".o", ".order", ".pyc", ".symvers"})
_ELF_MAGIC = b"\x7fELF"


@dataclass(frozen=True)
class Stage:
    """One build stage: the stages before it, its input files and folders, and its products.

    `room` is the free space in MiB that its build needs, measured and rounded up.
    """

    name: str
    after: tuple[str, ...]
    sources: tuple[str, ...]
    products: tuple[str, ...]
    room: int


STAGES = {
    stage.name: stage
    for stage in (
        Stage("toolchain", (), (DEBIAN_ROOT, "playbooks/roles/toolchain/files"), ("root",), 1500),
        Stage(
            "kernel",
            ("toolchain",),
            ("playbooks/roles/kernel/files", CONFIGS),
            ("bzImage", "vmlinux", "System.map", "config", "release", "build-id", "fuzz", "modules"),
            5000,
        ),
        Stage("base", (), (DEBIAN_ROOT, "playbooks/roles/image/files/base"), ("root.tar",), 500),
        Stage(
            "image",
            ("kernel", "base"),
            ("playbooks/roles/image/files/image", "harness/guest", "injectors"),
            ("root.ext4", "recovery.cpio"),
            1000,
        ),
    )
}


def patches(series: Path) -> list[Path]:
    """Return the patches that the file `series` names, in order; they lie beside it.

    Raises EnvironmentFault if the series or one of its patches is missing.
    """
    try:
        lines = series.read_text(encoding="utf-8").splitlines()
    except OSError:
        raise EnvironmentFault(f"{series} is missing: it must name the patches, one per line") from None
    found = [series.parent / text for line in lines if (text := line.split("#")[0].strip())]
    for patch in found:
        if not patch.is_file():
            raise EnvironmentFault(f"{series} names {patch.name}, which is not there: add it or drop it")
    return found


def inputs(stage: str, checkout: Path = CHECKOUT, kernel: KernelSpec | None = None) -> dict[str, Path]:
    """Return a stage's input files by the path at which the build finds them, sorted.

    Raises EnvironmentFault if a source of the checkout is missing, UsageError if a fragment is.
    """
    kernel = kernel or KernelSpec()
    found: dict[str, Path] = {}
    for source in _READY_SOURCES if stage == "kernel" and kernel.ready else STAGES[stage].sources:
        path = checkout / source
        if path.is_dir():
            found |= {file.relative_to(checkout).as_posix(): file for file in _sources_below(path)}
        elif path.is_file():
            found[source] = path
        else:
            raise EnvironmentFault(f"{path} is missing: restore it from the repository")
    if stage == "kernel":
        found |= _ready_inputs(kernel) if kernel.ready else _kernel_inputs(checkout, kernel)
    return dict(sorted(found.items()))


def _kernel_inputs(checkout: Path, kernel: KernelSpec) -> dict[str, Path]:
    """Return series, patches and fragments; the build merges fragments in the order of their names."""
    series = kernel.series / "series" if kernel.series else checkout / SERIES
    found = {SERIES: series, **{f"{PATCHES}/{path.name}": path for path in patches(series)}}
    if kernel.series:
        found[_SERIES_CONFIG] = _EMPTY
    for number, each in enumerate(kernel.config):
        if isinstance(each, Fragment):
            name, path = each.name, _kept(each)
        else:
            name, path = each, shipped_fragment(each, checkout)
        found[f"{CONFIGS}/{number:02}-{name}.config"] = path
    return found


def _kept(fragment: Fragment) -> Path:
    """Return a file in the cache with the text of a fragment; write it if it is missing."""
    text = fragment.text.encode()
    path = cache_dir() / "fragments" / f"{hashlib.sha256(text).hexdigest()[:KEY_DIGITS]}.config"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)
    return path


def _ready_inputs(kernel: KernelSpec) -> dict[str, Path]:
    """Return a ready kernel's files; UsageError if one of them is missing."""
    found = {f"{_READY}bzImage": kernel.bzimage, f"{_READY}vmlinux": kernel.vmlinux}
    modules = kernel.modules
    if modules and not (modules / "build/include/config/kernel.release").is_file():
        raise UsageError(f"kernel: modules: {modules} has no build, the tree for external modules")
    for folder in filter(None, [modules]):
        for parent, _, names in os.walk(folder, followlinks=True):
            paths = [Path(parent, name) for name in names]
            found |= {f"{_READY}modules/{path.relative_to(folder).as_posix()}": path for path in paths}
    files = {name: path for name, path in found.items() if path}
    for path in files.values():
        if not path.is_file():
            raise UsageError(f"kernel: {path} does not exist; correct the path")
    return files


def _sources_below(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):
        links = [name for name in folders if Path(parent, name).is_symlink()]
        folders[:] = [name for name in folders if name not in _SKIPPED_FOLDERS and name not in links]
        for path in (Path(parent, name) for name in (*files, *links)):
            if (
                path.suffix not in _SKIPPED_SUFFIXES
                and not path.name.endswith(".mod.c")
                and not _is_elf(path)
            ):
                yield path


def _is_elf(path: Path) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_ELF_MAGIC)) == _ELF_MAGIC


def key_of(stage: str, checkout: Path = CHECKOUT, kernel: KernelSpec | None = None) -> str:
    """Return a stage's key for the current sources: a hash over its inputs and the keys before it."""
    digest = hashlib.sha256()
    for before in STAGES[stage].after:
        digest.update(f"{before} {key_of(before, checkout, kernel)}\n".encode())
    for name, path in inputs(stage, checkout, kernel).items():
        digest.update(_fingerprint(path, name))
    return digest.hexdigest()[:KEY_DIGITS]


def content_key(folder: Path) -> str:
    """Hash the sources in a folder, without tests and compiler output; returns KEY_DIGITS hex digits."""
    digest = hashlib.sha256()
    for name, path in sorted((path.relative_to(folder).as_posix(), path) for path in _sources_below(folder)):
        digest.update(_fingerprint(path, name))
    return digest.hexdigest()[:KEY_DIGITS]


def keys(checkout: Path = CHECKOUT, kernel: KernelSpec | None = None) -> dict[str, str]:
    """Return the key of every stage for the current sources."""
    return {stage: key_of(stage, checkout, kernel) for stage in STAGES}


def _fingerprint(path: Path, name: str) -> bytes:
    """Encode name, kind and content of one input, so different sets of inputs have different encodings."""
    if name.startswith(_READY):
        state = path.stat()
        return f"{name}\0{_digest(path, state.st_size, state.st_mtime_ns)}".encode()
    if path.is_symlink():
        kind, content = "link", str(path.readlink()).encode()
    else:
        # The only bit of a file's mode that is the same in every clone.
        kind = "program" if path.stat().st_mode & 0o100 else "file"
        content = path.read_bytes()
    return f"{kind} {name}\0{len(content)}\0".encode() + content


@cache
def _digest(path: Path, _size: int, _modified: int) -> str:
    """Hash a file's content; it is read only once while unchanged, because some files hold gigabytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def product_dir(stage: str, key: str) -> Path:
    """Return the folder of a stage's products in the cache."""
    return cache_dir() / stage / key


def kernel_tree(found: dict[str, str]) -> Path:
    """Return the tree for external modules, which is inside the toolchain root so that a chroot sees it."""
    return product_dir("toolchain", found["toolchain"]) / "root/usr/src" / f"linux-{found['kernel']}"


def built(stage: str, found: dict[str, str]) -> bool:
    """Whether all products of a stage are in the cache."""
    folder = product_dir(stage, found[stage])
    tree = [kernel_tree(found)] if stage == "kernel" else []
    return all(path.exists() for path in [*(folder / name for name in STAGES[stage].products), *tree])


def missing(kernel: KernelSpec | None = None, checkout: Path = CHECKOUT) -> list[str]:
    """Return the stages that are not in the cache yet."""
    found = keys(checkout, kernel)
    return [stage for stage in STAGES if not built(stage, found)]


def prepare_cache(checkout: Path = CHECKOUT, kernel: KernelSpec | None = None) -> Path:
    """Make the cache folder and return it.

    Raises EnvironmentFault if its disk has no room for what is still to build.
    """
    need = sum(STAGES[stage].room for stage in missing(kernel, checkout))
    cache = cache_dir()
    cache.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(cache).free // MIB
    if free < need:
        raise EnvironmentFault(
            f"no room in {cache}: {need} MiB are needed, {free} MiB are free: make room or point "
            "RIOBED_CACHE to another disk"
        )
    return cache


GUESTS = "guests"  # folder of the cache for snapshots of ready guests


def superseded(checkout: Path = CHECKOUT) -> list[Path]:
    """Return the cached folders, including kernel trees, that the checkout's current sources do not use.

    Snapshots of guests, unpacked stores and what tests have passed are among them. They are made again in
    seconds or minutes.
    """
    found = keys(checkout)
    current = {product_dir(stage, key) for stage, key in found.items()}
    root = product_dir("toolchain", found["toolchain"]) / "root"
    old = [path for stage in STAGES for path in cache_dir().glob(f"{stage}/*") if path not in current]
    old += [path for path in root.glob("usr/src/linux-*/") if path != kernel_tree(found)]
    old += [folder for folder in (cache_dir() / GUESTS, stores_dir(), verified_dir()) if folder.exists()]
    return sorted([*old, *root.glob("build/*")])


def export(
    stage: str, key: str, target: Path, checkout: Path = CHECKOUT, kernel: KernelSpec | None = None
) -> None:
    """Copy a stage's inputs into `target`, so a build sees exactly what its key is made of.

    Raises EnvironmentFault if the inputs are no longer those of `key`.
    """
    for name, path in inputs(stage, checkout, kernel).items():
        copy = target / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        # A ready kernel's links may point anywhere, so they are followed.
        shutil.copy2(path, copy, follow_symlinks=name.startswith(_READY))
    if key_of(stage, checkout, kernel) != key:
        raise EnvironmentFault(f"the sources of the {stage} changed during the set-up: run make setup again")
