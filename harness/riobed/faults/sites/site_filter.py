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

_LARGEST = 16 << 20  # bytes of a file of names; a kernel has less than 5 MB of them
_NAME = re.compile(r"[A-Za-z0-9_.$]{1,512}")

Folder = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_+,.-]+(/[A-Za-z0-9_+,.-]+)*/?$")]
Pattern = Annotated[str, StringConstraints(min_length=1, max_length=512)]


class SiteFilter(BaseModel):
    """Selects the functions whose text may be changed. All given conditions must hold; none means all.

    `subsystems`: folders or files of the kernel's source, as "fs/ext4" or "mm"; a function belongs to the one
    that holds its compilation unit, by the debug information. `functions`: shell patterns of function names.
    `functions_file`: a file with one function name per line and # comments. `functions_listed`: the names in
    that file, see `with_list`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    subsystems: Annotated[tuple[Folder, ...], Field(min_length=1)] | None = None
    functions: Annotated[tuple[Pattern, ...], Field(min_length=1)] | None = None
    functions_file: Path | None = None
    functions_listed: tuple[str, ...] | None = None

    def with_list(self, folder: Path) -> SiteFilter:
        """Return the filter with the names that `functions_file`, relative to `folder`, holds now.

        They are stored with the campaign, so that a resume or replay uses the same functions even if the file
        changes. Raises UsageError if the file cannot be used.
        """
        if self.functions_file is None or self.functions_listed is not None:
            return self
        path = folder / self.functions_file
        return self.model_copy(update={"functions_file": path, "functions_listed": _read_names(path)})

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


def _read_names(path: Path) -> tuple[str, ...]:
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
        text = data.decode() if len(data) <= _LARGEST else None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text"
        raise UsageError(f"sites.functions_file {path}: {reason}; want a function name a line") from None
    if text is None:
        raise UsageError(f"sites.functions_file {path}: larger than {_LARGEST >> 20} MiB; give fewer names")
    names = [line.partition("#")[0].strip() for line in text.splitlines()]
    for number, name in enumerate(names, 1):
        if name and not _NAME.fullmatch(name):
            raise UsageError(f"sites.functions_file {path}: line {number} is no function name; correct it")
    return tuple(sorted({name for name in names if name}))
