# SPDX-License-Identifier: Apache-2.0
"""The kernel of a guest: the checkout's, the same with other options or patches, or a ready one."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from riobed.errors import UsageError

PATCHES = "guest-kernel-patches"
CONFIGS = f"{PATCHES}/configs"
FRAGMENTS = f"{CONFIGS}/fragments"
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
# The name becomes a file name in the build.
_STEM = r"^[A-Za-z0-9_-]{1,64}$"
_READY = ("bzimage", "vmlinux", "modules")


class Fragment(BaseModel):
    """A user's own options, stored as text, so stores and clusters do not need the original file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=_STEM)
    text: str = Field(max_length=100_000)


class KernelSpec(BaseModel):
    """The key `kernel` of a cache mode; docs/own-kernel.md explains it.

    `config` and `series` describe a kernel built from Debian's source: the shipped configuration, then the
    fragments in order, with the patches of the folder `series` (None: the shipped ones). A fragment is the
    name of a shipped one, or the path of a file, which `beside` reads. `bzimage`, `vmlinux` and `modules`
    describe a ready kernel; `modules` is a folder as `make modules_install` leaves it, with the tree for
    external modules in `build`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    config: tuple[str | Fragment, ...] = ()
    series: Path | None = None
    bzimage: Path | None = None
    vmlinux: Path | None = None
    modules: Path | None = None

    @model_validator(mode="after")
    def _is_one_kind(self) -> Self:
        ready = [name for name in _READY if getattr(self, name)]
        if ready and (self.config or self.series):
            raise ValueError(f"{ready[0]} describes a ready kernel, which takes no config and no series")
        if ready and len(ready) < len(_READY):
            missing = next(name for name in _READY if name not in ready)
            raise ValueError(f"a ready kernel has {', '.join(_READY)}; {missing} is missing")
        return self

    def __str__(self) -> str:
        if self.bzimage:
            return f"the kernel {self.bzimage}"
        patches = f"the patches of {self.series.name}" if self.series else "the shipped patches"
        options = f" and the options of {', '.join(self.fragments)}" if self.config else ""
        return f"the kernel with {patches}{options}"

    @property
    def fragments(self) -> list[str]:
        """The names of its fragments, in order."""
        return [each.name if isinstance(each, Fragment) else Path(each).stem for each in self.config]

    @property
    def ready(self) -> bool:
        """Whether it is a kernel that somebody else has built."""
        return self.bzimage is not None

    def beside(self, folder: Path) -> KernelSpec:
        """Return a copy with fragments read and other paths made absolute; paths are relative to `folder`.

        UsageError if a fragment cannot be read.
        """
        paths = {name: getattr(self, name) for name in ("series", *_READY)}
        found: dict[str, object] = {name: (folder / path).resolve() for name, path in paths.items() if path}
        return self.model_copy(update={**found, "config": tuple(_read(each, folder) for each in self.config)})


def _read(fragment: str | Fragment, folder: Path) -> str | Fragment:
    """Read a fragment unless it names a shipped one; the result needs no file outside the checkout."""
    if isinstance(fragment, Fragment) or _NAME.fullmatch(fragment):
        return fragment
    path = folder / fragment
    name = re.sub("[^A-Za-z0-9_-]", "-", path.stem)[:64]
    try:
        return Fragment(name=name, text=path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"kernel: config: {path}: {error.strerror}; name a file of CONFIG_ lines") from None
    except ValueError:
        raise UsageError(f"kernel: config: {path} is no short text; name a file of CONFIG_ lines") from None


def shipped_fragment(name: str, checkout: Path) -> Path:
    """Return the file of a shipped fragment; UsageError if the checkout has none of that name."""
    for folder in (FRAGMENTS, CONFIGS):
        if (path := checkout / folder / f"{name}.config").is_file():
            return path
    known = ", ".join(sorted(path.stem for path in (checkout / FRAGMENTS).glob("*.config")))
    raise UsageError(f"kernel: config: no shipped fragment {name!r}; there are: {known}; or give a path")


def kernel_from_environment() -> KernelSpec | None:
    """Return the kernel for the playbook to build, from the JSON in RIOBED_KERNEL; None: the checkout's."""
    text = os.environ.get("RIOBED_KERNEL")
    return KernelSpec.model_validate_json(text) if text else None
