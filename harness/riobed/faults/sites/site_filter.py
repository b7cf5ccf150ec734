# SPDX-License-Identifier: Apache-2.0
"""SiteFilter: which functions of the kernel the fault classes with sites in the text may change."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fnmatch import translate
from functools import partial
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from riobed.errors import UsageError
from riobed.faults.sites.instructions import Ranges, from_text, packed, unpacked

_LARGEST = 16 << 20  # bytes of a file; a kernel has less than 5 MB of names
_NAME = re.compile(r"[A-Za-z0-9_.$]{1,512}")

Folder = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_+,.-]+(/[A-Za-z0-9_+,.-]+)*/?$")]
Pattern = Annotated[str, StringConstraints(min_length=1, max_length=512)]


class SiteFilter(BaseModel):
    """Selects the functions whose text may be changed. All given conditions must hold; none means all.

    `subsystems`: folders or files of the kernel's source, as "fs/ext4" or "mm"; a function belongs to the one
    that holds its compilation unit, by the debug information. `functions`: shell patterns of function names.
    `functions_file`: a file with one function name per line and # comments. `functions_listed`: the names in
    that file, see `with_list`. `instructions_file`: a file of instructions (sites/instructions.py).
    `instructions_listed`: for each build id of that file, its ranges, packed.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    subsystems: Annotated[tuple[Folder, ...], Field(min_length=1)] | None = None
    functions: Annotated[tuple[Pattern, ...], Field(min_length=1)] | None = None
    functions_file: Path | None = None
    functions_listed: tuple[str, ...] | None = None
    instructions_file: Path | None = None
    instructions_listed: dict[str, str] | None = None

    def with_list(self, folder: Path) -> SiteFilter:
        """Return the filter with what its files, relative to `folder`, hold now.

        That is stored with the campaign, so that a resume or replay uses the same functions and instructions
        even if a file changes. Raises UsageError if a file cannot be used.
        """
        update: dict[str, object] = {}
        if self.functions_file is not None and self.functions_listed is None:
            path = folder / self.functions_file
            update |= {"functions_file": path, "functions_listed": _read_names(path)}
        if self.instructions_file is not None and self.instructions_listed is None:
            path = folder / self.instructions_file
            what = f"sites.instructions_file {path}"
            found = from_text(_read(path, what, "`riobed faults executed --instructions` makes one"), what)
            listed = {build: packed(ranges) for build, ranges in found.items()}
            update |= {"instructions_file": path, "instructions_listed": listed}
        return self.model_copy(update=update) if update else self

    def instructions(self, build_id: str) -> Ranges | None:
        """Return the only instructions of a kernel build that may be changed; None without a list of them.

        Raises UsageError if the list is of other kernels.
        """
        if self.instructions_listed is None:
            return None
        if build_id not in self.instructions_listed:
            raise UsageError(
                f"sites.instructions_file has nothing of kernel build {build_id[:12]}; add what "
                "`riobed faults executed --instructions` says of a mode with that kernel"
            )
        return unpacked(self.instructions_listed[build_id])

    def wanted(self, functions: list[tuple[str, str]]) -> list[bool]:
        """Say for each (name, source file) whether the filter selects it.

        Raises UsageError if a subsystem or pattern matches no function: it is probably misspelt.
        """
        names, files = [name for name, _ in functions], [file for _, file in functions]
        columns = [[True] * len(functions)]
        if self.subsystems is not None:
            columns.append(_fitting("subsystems", {p: partial(_within, p) for p in self.subsystems}, files))
        if self.functions is not None:
            patterns = {p: re.compile(translate(p)).match for p in self.functions}
            columns.append(_fitting("functions", patterns, names))
        if self.functions_listed is not None:
            listed = frozenset(self.functions_listed)
            columns.append([name in listed for name in names])
        return [all(row) for row in zip(*columns, strict=True)]


def _fitting(key: str, tests: Mapping[str, Callable[[str], object]], values: list[str]) -> list[bool]:
    """Say for each value whether a test matches it; UsageError if a test matches no value."""
    found = {what: [bool(test(value)) for value in values] for what, test in tests.items()}
    for what, hits in found.items():
        if not any(hits):
            raise UsageError(
                f"sites.{key}: {what!r} fits no function of this kernel; correct it or leave it out"
            )
    return [any(row) for row in zip(*found.values(), strict=True)]


def _within(folder: str, file: str) -> bool:
    folder = folder.rstrip("/")
    return file == folder or file.startswith(f"{folder}/")


def _read(path: Path, what: str, wanted: str) -> str:
    """Read a file of text; UsageError, which begins with `what` and says what is wanted, if that fails."""
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
        if len(data) <= _LARGEST:
            return data.decode()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text"
        raise UsageError(f"{what}: {reason}; {wanted}") from None
    raise UsageError(f"{what}: larger than {_LARGEST >> 20} MiB; give fewer lines")


def _read_names(path: Path) -> tuple[str, ...]:
    text = _read(path, f"sites.functions_file {path}", "want a function name a line")
    names = [line.partition("#")[0].strip() for line in text.splitlines()]
    for number, name in enumerate(names, 1):
        if name and not _NAME.fullmatch(name):
            raise UsageError(f"sites.functions_file {path}: line {number} is no function name; correct it")
    return tuple(sorted({name for name in names if name}))
