# SPDX-License-Identifier: Apache-2.0
"""Rows of a study in their files: Parquet, one file a kind."""

from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import ValidationError

from riobed_caches.errors import CachesError, TraceError
from riobed_caches.pages import contents
from riobed_caches.rows import Row
from riobed_caches.whole import replacing

# A study has hundreds of rows for each trace; a file with more than these is none.
MAX_ROWS, MAX_BYTES = 200_000, 64 << 20
# Of one text. A text of many rows stands once in a file, so that its length counts for each.
MAX_TEXT = 4096
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
        return [kind.model_validate(row) for row in _read(path, kind)]
    except ValidationError as error:
        wrong = error.errors()[0]
        where = ".".join(map(str, wrong["loc"]))
        raise TraceError(path, f"{where}: {wrong['msg']}", "run riobed caches again") from None
    except (OSError, pa.ArrowException, ValueError, OverflowError, MemoryError) as error:
        said = (str(error).splitlines() or ["it cannot be read"])[0][:200]
        raise TraceError(path, said, "give the folder of riobed caches --out") from None


def _read(path: Path, kind: type[Row]) -> list[dict[str, object]]:
    """Return the rows of a file, whose texts are read once each, and are bounded before they are copied."""
    texts = [name for name, field in kind.model_fields.items() if field.annotation is str]
    rows, _, size = contents(path)
    if rows > MAX_ROWS or size > MAX_BYTES:
        raise TraceError(path, f"{rows} rows of {size} bytes are too many", "restore it from a copy")
    with pq.ParquetFile(path, read_dictionary=texts) as file:
        table = file.read()
    for column in table.columns:
        for part in column.chunks if pa.types.is_dictionary(column.type) else []:
            if (pc.max(pc.binary_length(part.dictionary)).as_py() or 0) > MAX_TEXT:
                raise TraceError(path, f"a text has more than {MAX_TEXT} bytes", "restore it from a copy")
    found: list[dict[str, object]] = table.to_pylist()
    return found
