# SPDX-License-Identifier: Apache-2.0
"""Which kernel: the one of this checkout, the same with other options or patches, or a ready one."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, model_validator

from riobed.errors import UsageError

PATCHES = "guest-kernel-patches"
CONFIGS = f"{PATCHES}/configs"
FRAGMENTS = f"{CONFIGS}/fragments"
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
_READY = ("bzimage", "vmlinux", "modules")


class KernelSpec(BaseModel):
    """The key `kernel` of a cache mode; docs/own-kernel.md explains it.

    `config` and `series` ask for a kernel built from Debian's source: the shipped configuration, then the
    fragments in their order, with the patches of the folder `series` (None: the shipped ones). A fragment
    is the name of a shipped one or the path of a file. `bzimage`, `vmlinux` and `modules` are a ready kernel;
    `modules` is a folder as `make modules_install` leaves it, with the tree for external modules in `build`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    config: tuple[str, ...] = ()
    series: Path | None = None
    bzimage: Path | None = None
    vmlinux: Path | None = None
    modules: Path | None = None

    @model_validator(mode="after")
    def _is_one_kind(self) -> Self:
        ready = [name for name in _READY if getattr(self, name)]
        if ready and (self.config or self.series):
            raise ValueError(f"{ready[0]} is of a ready kernel, which takes no config and no series")
        if ready and len(ready) < len(_READY):
            missing = next(name for name in _READY if name not in ready)
            raise ValueError(f"a ready kernel has {', '.join(_READY)}; {missing} is missing")
        return self

    def __str__(self) -> str:
        if self.bzimage:
            return f"the kernel {self.bzimage}"
        extra = [Path(name).stem for name in self.config]
        patches = f"the patches of {self.series.name}" if self.series else "the shipped patches"
        return f"the kernel with {patches}" + (f" and the options of {', '.join(extra)}" if extra else "")

    @property
    def ready(self) -> bool:
        """Is it a kernel that somebody else has built?"""
        return self.bzimage is not None

    def beside(self, folder: Path) -> KernelSpec:
        """The same with paths that are relative to `folder` made absolute."""
        paths = {name: getattr(self, name) for name in ("series", *_READY)}
        found: dict[str, object] = {name: (folder / path).resolve() for name, path in paths.items() if path}
        config = [name if is_shipped(name) else str((folder / name).resolve()) for name in self.config]
        return self.model_copy(update={**found, "config": tuple(config)})


def is_shipped(fragment: str) -> bool:
    """Is that the name of a shipped fragment, and not the path of a file?"""
    return _NAME.fullmatch(fragment) is not None


def fragment_file(fragment: str, checkout: Path) -> Path:
    """The file of a fragment; UsageError if there is none."""
    if not is_shipped(fragment):
        path = Path(fragment)
        if not path.is_file():
            raise UsageError(f"kernel: config: {fragment} is not there; want a file of CONFIG_ lines")
        return path
    for folder in (FRAGMENTS, CONFIGS):
        if (path := checkout / folder / f"{fragment}.config").is_file():
            return path
    known = ", ".join(sorted(path.stem for path in (checkout / FRAGMENTS).glob("*.config")))
    raise UsageError(f"kernel: config: no shipped fragment {fragment!r}; there are: {known}; or give a path")


def kernel_from_environment() -> KernelSpec | None:
    """What the playbook is to build: the JSON text in RIOBED_KERNEL; None: the kernel of the checkout."""
    text = os.environ.get("RIOBED_KERNEL")
    return KernelSpec.model_validate_json(text) if text else None
