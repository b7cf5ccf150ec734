# SPDX-License-Identifier: Apache-2.0
"""Runs stored as JSON Lines: one object per line, and lines are only appended."""

import os
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from riobed_results.errors import StoreError

Model = TypeVar("Model", bound=BaseModel)


def read_lines(path: Path, model: type[Model], made_with: str) -> list[Model]:
    """Read all runs of a file in the order they were made; StoreError if one cannot be read.

    A last line without its newline was left by a killed process and is ignored.
    """
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
        return [model.model_validate_json(line) for line in lines]
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}; make it with '{made_with}'") from None
    except ValidationError as error:
        raise StoreError(f"{path}: {error.errors()[0]['msg']}; it is no file of this riobed") from None


def add_line(path: Path, run: BaseModel) -> None:
    """Append a run durably, whole or not at all."""
    with path.open("a+b") as file:
        file.truncate(path.read_bytes().rfind(b"\n") + 1)
        file.write(run.model_dump_json().encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
