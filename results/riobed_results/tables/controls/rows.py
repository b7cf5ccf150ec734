# SPDX-License-Identifier: Apache-2.0
"""A control's rows in one JSON file, which is replaced atomically when a row is added."""

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from riobed_results.errors import StoreError
from riobed_results.files import write_whole
from riobed_results.tables.framework.render import json_text

T = TypeVar("T", bound=BaseModel)


def load_rows(path: Path, kind: type[T], what: str) -> T:
    """Read a file; StoreError if it is missing or not a `kind`, for which `what` stands in the message."""
    try:
        return kind.model_validate_json(path.read_bytes())
    except OSError as error:
        raise StoreError(f"{what} {path}: {error.strerror}; give the folder of a {what}") from None
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"])) or "file"
        raise StoreError(
            f"{what} {path}: {where}: {error.errors()[0]['msg']}; restore it from a copy"
        ) from None


def save_rows(path: Path, rows: BaseModel, what: str) -> None:
    """Write a file atomically, its folder first; StoreError if it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json_text(rows).encode())
    except OSError as error:
        raise StoreError(f"{what} {path}: {error.strerror}; choose another folder") from None
