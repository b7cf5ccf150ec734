# SPDX-License-Identifier: Apache-2.0
"""The manifest: which products of `make setup` this checkout uses."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from riobed_results.files import write_whole

from riobed.errors import EnvironmentFault, complaint
from riobed.products.kernel import KernelSpec
from riobed.products.stages import (
    CHECKOUT,
    KEY_DIGITS,
    SERIES,
    STAGES,
    built,
    kernel_tree,
    keys,
    patches,
    product_dir,
)

Key = Annotated[str, StringConstraints(pattern=rf"^[0-9a-f]{{{KEY_DIGITS}}}$")]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    key: Key

    def files(self) -> list[Path]:
        """Return every file and folder that this part names."""
        return [value for _, value in self if isinstance(value, Path)]


class ToolchainPart(_Part):
    """Root folder of the Debian system in which everything is compiled, by chroot."""

    root: Path


class KernelPart(_Part):
    """The guest's kernel; `tree` is the build tree for external modules, inside the toolchain root."""

    release: str
    build_id: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]+$")]
    series_commit: Key
    bzimage: Path
    vmlinux: Path
    system_map: Path
    tree: Path
    config: Path


class ImagePart(_Part):
    """The guest's root file system (ext4) and stage 0's initramfs (cpio)."""

    root: Path
    recovery: Path


class Manifest(BaseModel):
    """The products this checkout uses, written to `<checkout>/.riobed/manifest.json`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1] = Field(alias="schema")
    toolchain: ToolchainPart
    kernel: KernelPart
    image: ImagePart


def state_dir(checkout: Path = CHECKOUT) -> Path:
    """Return the folder of a checkout's state, apart from its sources: the manifest."""
    return checkout / ".riobed"


def series_commit(series: Path = CHECKOUT / SERIES) -> str:
    """Hash a series' patches in order; returns KEY_DIGITS hex digits."""
    digest = hashlib.sha256()
    for patch in patches(series):
        digest.update(patch.read_bytes())
    return digest.hexdigest()[:KEY_DIGITS]


def make_manifest(checkout: Path = CHECKOUT, kernel: KernelSpec | None = None) -> Manifest:
    """Make the manifest of the current sources, or of another kernel, from the products in the cache.

    Raises EnvironmentFault if a stage is not built.
    """
    found = keys(checkout, kernel)
    for stage in STAGES:
        if not built(stage, found):
            raise EnvironmentFault(f"{product_dir(stage, found[stage])} is not complete: run make setup")
    series = kernel.series / "series" if kernel and kernel.series else checkout / SERIES
    compiled, image = product_dir("kernel", found["kernel"]), product_dir("image", found["image"])
    return Manifest(
        schema=1,
        toolchain=ToolchainPart(
            key=found["toolchain"], root=product_dir("toolchain", found["toolchain"]) / "root"
        ),
        kernel=KernelPart(
            key=found["kernel"],
            release=(compiled / "release").read_text(encoding="utf-8").strip(),
            build_id=(compiled / "build-id").read_text(encoding="utf-8").strip(),
            series_commit=series_commit(series),
            bzimage=compiled / "bzImage",
            vmlinux=compiled / "vmlinux",
            system_map=compiled / "System.map",
            tree=kernel_tree(found),
            config=compiled / "config",
        ),
        image=ImagePart(key=found["image"], root=image / "root.ext4", recovery=image / "recovery.cpio"),
    )


def write_manifest(checkout: Path = CHECKOUT) -> bool:
    """Write the manifest unless it is unchanged; return whether it was written."""
    path = state_dir(checkout) / "manifest.json"
    text = make_manifest(checkout).model_dump_json(by_alias=True, indent=2) + "\n"
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return False
    path.parent.mkdir(exist_ok=True)
    write_whole(path, text.encode())
    return True


def load_manifest(checkout: Path = CHECKOUT) -> Manifest:
    """Read the manifest of this checkout.

    Raises EnvironmentFault if the manifest is missing or damaged, names a file that no longer exists, or was
    made from other sources than the checkout's current ones.
    """
    path = state_dir(checkout) / "manifest.json"
    try:
        manifest = Manifest.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise EnvironmentFault(f"nothing is set up in {checkout} (no {path.name}): run make setup") from None
    except (OSError, ValidationError) as error:
        reason = complaint(error, "file") if isinstance(error, ValidationError) else error.strerror
        raise EnvironmentFault(f"{path} is damaged ({reason}): run make setup") from None
    found = keys(checkout)
    parts = {"toolchain": manifest.toolchain, "kernel": manifest.kernel, "image": manifest.image}
    for stage, part in parts.items():
        if part.key != found[stage]:
            raise EnvironmentFault(
                f"{path} is stale, the sources of the {stage} have changed: run make setup"
            )
        for file in part.files():
            if not file.exists():
                raise EnvironmentFault(f"{path} names {file}, which is gone: run make setup")
    return manifest
