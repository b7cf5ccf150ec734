# SPDX-License-Identifier: Apache-2.0
"""A soak: stressors run one after the other, a reset without a fault after each, all files compared.

Kept as one JSON file that is replaced as a whole when a row is added.
"""

import os
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from riobed_results.errors import StoreError
from riobed_results.store.environment import Environment

FILE = "soak.json"


class _Stored(BaseModel):
    model_config = ConfigDict(extra="forbid")


class SoakEnvironment(Environment):
    """On what a soak ran, and what was asked for. Sizes in MiB."""

    mode: str
    minutes: float
    memory_mib: int
    disk_mib: int
    vcpus: int
    suite: str


class SoakRow(_Stored):
    """One stressor and the reset after it. None stands for what could not be known.

    `traps` and `mismatches` come from the running kernel, `recovery_mismatches` from the recovery's
    verification; they are None where the kernel keeps no checksums. `different` names at most 100
    files, all are counted in `files_different`.
    """

    stressor: str
    what: str
    seconds: float = 0
    status: int | None = None
    output: str = ""
    crash: str | None = None
    complaints: list[str] = []
    stats: dict[str, int] | None = None
    verify: dict[str, int] | None = None
    traps: int | None = None
    mismatches: int | None = None
    recovery_mismatches: int | None = None
    dirty_kib: int | None = None
    recovery: dict[str, Any] | None = None
    recovery_error: str | None = None
    files: int | None = None
    files_different: int | None = None
    different: list[str] = []
    e2fsck: str | None = None
    infra_error: str | None = None
    finished: str = ""

    @property
    def good(self) -> bool:
        """Did all that was looked at hold?"""
        bad = (self.status, self.traps, self.mismatches, self.recovery_mismatches, self.files_different)
        said = (self.crash, self.complaints, self.recovery_error, self.infra_error)
        return not any(bad) and not any(said) and self.files is not None


class Soak(_Stored):
    """All of it."""

    environment: SoakEnvironment
    rows: list[SoakRow] = []


def load_soak(folder: Path) -> Soak:
    """The soak in a folder; StoreError in one line if there is none or it cannot be read."""
    path = folder / FILE
    try:
        return Soak.model_validate_json(path.read_bytes())
    except OSError as error:
        raise StoreError(f"soak {path}: {error.strerror}; give the folder of a soak") from None
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"])) or "file"
        raise StoreError(
            f"soak {path}: {where}: {error.errors()[0]['msg']}; restore it from a copy"
        ) from None


def save_soak(folder: Path, soak: Soak) -> None:
    """Write the soak, whole or not at all; StoreError in one line if it cannot be written."""
    path = folder / FILE
    new = path.with_name(f".{FILE}.{os.getpid()}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        new.write_text(soak.model_dump_json(indent=2) + "\n", encoding="utf-8")
        new.replace(path)
    except OSError as error:
        raise StoreError(f"soak {path}: {error.strerror}; choose another folder") from None
