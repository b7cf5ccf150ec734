# SPDX-License-Identifier: Apache-2.0
"""Traces whose Parquet is written number by number, so that each number can be a lie."""

import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
from riobed_caches.trace.events import COLUMNS
from riobed_caches.trace.header import Has, Header

EVENTS = 4
# An event of each number of COLUMNS: a write of 10 bytes.
_VALUES = {"event": 3, "offset": 0, "length": 10, "client": 0, "file": 0, "time": 0, "flags": 0}
_INT32, _INT64, _INT_8, _INT_16, _ZSTD = 1, 2, 15, 16, 6


class I32(int):
    """A number that Thrift gives 32 bits."""


def trace_by_hand(path: Path, **lies: int) -> None:
    """Write a trace of EVENTS events, a page a column.

    Lies take the place of what is right: `rows` of the file, `group_rows` of its one row group; of each
    column `values`, `length` and `offset`; of each page `page_values`, `unpacked` and `packed`. With `zeros`
    that many bytes follow the values of a page, and it says so.
    """
    body, chunks = bytearray(b"PAR1"), []
    for name, kind in COLUMNS.items():
        stored = np.int64 if kind is np.int64 else np.int32
        raw = np.full(EVENTS, _VALUES.get(name, -1), stored).tobytes() + bytes(lies.get("zeros", 0))
        packed = pa.compress(raw, codec="zstd", asbytes=True)
        own = {1: I32(lies.get("page_values", EVENTS)), 2: I32(0), 3: I32(3), 4: I32(3)}
        sizes = {2: I32(lies.get("unpacked", len(raw))), 3: I32(lies.get("packed", len(packed)))}
        page = thrift({1: I32(0), **sizes, 5: own}) + packed
        chunk = {1: I32(_INT64 if stored is np.int64 else _INT32), 2: [I32(0)], 3: [name.encode()]}
        chunk |= {4: I32(_ZSTD), 5: lies.get("values", EVENTS), 6: len(page)}
        chunk |= {7: lies.get("length", len(page)), 9: lies.get("offset", len(body))}
        chunks.append({2: len(body), 3: chunk})
        body += page
    group = {1: chunks, 2: len(body), 3: lies.get("group_rows", EVENTS)}
    about = Header(recorder="test", source="by hand", clock="none", has=list(Has))
    named = {1: b"riobed-trace", 2: about.model_dump_json().encode()}
    footer = thrift({1: I32(1), 2: _schema(), 3: lies.get("rows", EVENTS), 4: [group], 5: [named]})
    path.write_bytes(body + footer + struct.pack("<I", len(footer)) + b"PAR1")


def _schema() -> list[dict[int, object]]:
    small = {np.int8: {6: I32(_INT_8)}, np.int16: {6: I32(_INT_16)}}
    columns = [
        {1: I32(_INT64 if kind is np.int64 else _INT32), 3: I32(0), 4: name.encode(), **small.get(kind, {})}
        for name, kind in COLUMNS.items()
    ]
    return [{4: b"schema", 5: I32(len(columns))}, *columns]


def thrift(value: object) -> bytes:
    """Write a value in Thrift's compact protocol; a structure is a dictionary by the numbers of fields."""
    if isinstance(value, int):
        return _varint(value << 1 ^ value >> 63)
    if isinstance(value, bytes):
        return _varint(len(value)) + value
    if isinstance(value, list):
        head = bytes([0xF0 | _kind(value[0])]) + _varint(len(value))
        return head + b"".join(map(thrift, value))
    assert isinstance(value, dict)
    fields = (bytes([_kind(part)]) + thrift(field) + thrift(part) for field, part in sorted(value.items()))
    return b"".join(fields) + b"\0"


def _kind(value: object) -> int:
    return next(n for t, n in ((I32, 5), (int, 6), (bytes, 8), (list, 9), (dict, 12)) if isinstance(value, t))


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])
