# SPDX-License-Identifier: Apache-2.0
"""A trace in its file: Parquet, one event a row, the header in the file's metadata.

A field is empty where its value follows from the events before (`follows`).
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import ValidationError

from riobed_caches.errors import CachesError, TraceError
from riobed_caches.pages import contents
from riobed_caches.trace.check import check_events, check_ids
from riobed_caches.trace.events import COLUMNS
from riobed_caches.trace.follows import FOLLOWS, fill, following
from riobed_caches.trace.header import VERSION, Header
from riobed_caches.whole import replacing

_KEY = b"riobed-trace"
# A trace is read whole, and its columns are copied once; a byte says whether a field is empty.
_EVENT = 2 * sum(np.dtype(kind).itemsize for kind in COLUMNS.values()) + len(COLUMNS)
# Of a column, in pages: at most each value twice (in a dictionary and alone), and what pads the last of them.
_CELL, _PADDING = 16, 4096
# No clock is so regular that an event takes less than a quarter of a byte, but a short trace may be.
_EVENTS_A_BYTE, _FEW = 4, 1 << 20
# Of the encodings of Parquet those that are smallest after compression, on recorded and generated traces.
_ENCODINGS = dict.fromkeys(COLUMNS, "BYTE_STREAM_SPLIT") | {"time": "DELTA_BINARY_PACKED", "process": "PLAIN"}
_WRITER = {
    "column_encoding": _ENCODINGS,
    "use_dictionary": False,
    "compression": "zstd",
    "compression_level": 19,
    "write_statistics": False,
    # The Arrow schema would have the header a second time.
    "store_schema": False,
}


@dataclass(frozen=True)
class Trace:
    """A trace in memory: `columns` has an array for each of COLUMNS, all of one length, sorted by time."""

    header: Header
    columns: Mapping[str, NDArray[np.generic]]

    def __getattr__(self, name: str) -> NDArray[np.int64]:
        try:
            return self.columns[name]  # type: ignore[return-value]
        except KeyError:
            raise AttributeError(name) from None

    def __len__(self) -> int:
        return len(self.columns["time"])

    @cached_property
    def sha256(self) -> str:
        """Return a hash over all events, whatever file they stand in."""
        found = hashlib.sha256()
        for name in COLUMNS:
            found.update(np.ascontiguousarray(self.columns[name]).data)
        return found.hexdigest()

    @property
    def seconds(self) -> float:
        """Return the time that it covers: to its last event, or as long as it was recorded."""
        last = int(self.columns["time"][-1]) / 1e6 if len(self) else 0.0
        return max(last, self.header.seconds or 0.0)


def write_trace(path: Path, trace: Trace) -> None:
    """Write a trace atomically. TraceError if its events are wrong, CachesError if it cannot be written."""
    check_events(trace.columns, path)
    kinds = [(name, pa.from_numpy_dtype(kind)) for name, kind in COLUMNS.items()]
    empty = following(trace.columns)
    arrays = [pa.array(trace.columns[name], mask=empty.get(name)) for name in COLUMNS]
    table = pa.Table.from_arrays(arrays, schema=pa.schema(kinds))
    header = trace.header.model_dump(mode="json", exclude_defaults=True) | {"version": VERSION}
    try:
        with replacing(path) as new, pq.ParquetWriter(new, table.schema, **_WRITER) as writer:
            writer.write_table(table)
            writer.add_key_value_metadata({_KEY: json.dumps(header, separators=(",", ":"))})
    except OSError as error:
        said = error.strerror or error
        raise CachesError(f"trace {path}: {said}; choose another place, or make room") from None


def read_trace(path: Path) -> Trace:
    """Read and check a trace. TraceError if it is no trace, damaged, of another version or wrong."""
    try:
        _bound(path)
        with pq.ParquetFile(path) as file:
            header = _header(path, file)
            table = file.read()
            if any(table.column(name).null_count for name in COLUMNS if name not in FOLLOWS):
                raise TraceError(path, "a column has empty fields that follow from nothing")
    except OSError as error:
        said = error.strerror or _first_line(error)
        raise TraceError(path, said, "give a trace that can be read") from None
    except (pa.ArrowException, ValueError, OverflowError, MemoryError) as error:
        # A name that is no text is a ValueError.
        raise TraceError(path, f"not a whole Parquet file ({_first_line(error)})") from None
    empty = {name: table.column(name).is_null().to_numpy() for name in FOLLOWS}
    # Copies, because those of Arrow cannot be written to.
    columns = {name: table.column(name).fill_null(0).to_numpy().copy() for name in COLUMNS}
    check_ids(columns, path)
    fill(columns, empty)
    check_events(columns, path)
    return Trace(header, columns)


def _header(path: Path, file: pq.ParquetFile) -> Header:
    """Return the header; TraceError if the file is no trace of this version."""
    raw = (file.metadata.metadata or {}).get(_KEY)
    if raw is None:
        raise TraceError(path, "a Parquet file, but no trace", "give one that riobed recorded or imported")
    try:
        header = Header.model_validate_json(raw)
    except ValidationError as error:
        wrong = error.errors()[0]
        where = ".".join(map(str, wrong["loc"])) or "header"
        raise TraceError(path, f"its header is wrong: {where}: {wrong['msg']}") from None
    if header.version > VERSION:
        raise TraceError(path, f"it has version {header.version}, this riobed reads up to {VERSION}")
    header = header.model_copy(update={"version": VERSION})
    wanted = [(name, pa.from_numpy_dtype(kind)) for name, kind in COLUMNS.items()]
    if [(field.name, field.type) for field in file.schema_arrow] != wanted:
        raise TraceError(path, "its columns are not those of a trace")
    return header


def _bound(path: Path) -> None:
    """Refuse a file with more in it than a trace of its size has, or than fits into memory."""
    size = path.stat().st_size
    events, chunks, pages = contents(path)
    most = _CELL * len(COLUMNS) * events + _PADDING * chunks
    if events > _EVENTS_A_BYTE * size + _FEW or pages > most:
        what = f"{size} bytes that claim {events} events and unpack to {pages} bytes"
        raise TraceError(path, what, "give a trace that a recorder made")
    if events * _EVENT > os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"):
        raise TraceError(path, f"its {events} events do not fit into memory", "cut it into parts")


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
