# SPDX-License-Identifier: Apache-2.0
"""Rows of a study in their files: Parquet, one file a kind."""

from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError

from riobed_caches.errors import CachesError, TraceError
from riobed_caches.rows import Row
from riobed_caches.whole import replacing

# A study has thousands of rows; a file with more is none.
MAX_ROWS = 1_000_000
_KINDS = {str: pa.string(), int: pa.int64(), float: pa.float64()}

R = TypeVar("R", bound=Row)


def write_rows(folder: Path, kind: type[R], rows: Iterable[R]) -> None:
    """Write the rows of a kind to their file, atomically. CachesError if it cannot be written."""
    fields = {name: _KINDS[field.annotation] for name, field in kind.model_fields.items()}  # type: ignore[index]
    table = pa.Table.from_pylist([row.model_dump() for row in rows], schema=pa.schema(list(fields.items())))
    path = folder / kind.file
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(path) as new:
            pq.write_table(table, new, compression="zstd")
    except OSError as error:
        raise CachesError(f"{path}: {error.strerror or error}; choose another folder, or make room") from None


def read_rows(folder: Path, kind: type[R]) -> list[R]:
    """Read the rows of a kind. TraceError if there are none, or the file is damaged or of another version."""
    path = folder / kind.file
    try:
        with pq.ParquetFile(path) as file:
            if file.metadata.num_rows > MAX_ROWS:
                raise TraceError(
                    path, f"{file.metadata.num_rows} rows are too many", "restore it from a copy"
                )
            found = file.read().to_pylist()
        return [kind.model_validate(row) for row in found]
    except (OSError, pa.ArrowException) as error:
        said = (str(error).splitlines() or ["it cannot be read"])[0][:200]
        raise TraceError(path, said, "give the folder of riobed caches --out") from None
    except ValidationError as error:
        wrong = error.errors()[0]
        where = ".".join(map(str, wrong["loc"]))
        raise TraceError(path, f"{where}: {wrong['msg']}", "run riobed caches again") from None
