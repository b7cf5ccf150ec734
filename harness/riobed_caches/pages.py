# SPDX-License-Identifier: Apache-2.0
"""What a Parquet file unpacks to, before any of it is unpacked."""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from riobed_caches.errors import TraceError

# The last bytes: the length of the footer, and the magic.
_END, _MAGIC = 8, b"PAR1"
# A page's header has some numbers, and the smallest and largest value, of which writers cut long ones.
_HEADER = 16 << 10
# Structures and lists lie in each other: FileMetaData, RowGroup, ColumnChunk, ColumnMetaData, Statistics.
_DEPTH = 12
# Numbers of fields in parquet.thrift of apache/parquet-format: of FileMetaData and RowGroup,
_ROWS, _GROUPS, _COLUMNS = 3, 4, 1
# of ColumnChunk and ColumnMetaData,
_META, _COUNT, _LENGTH, _DATA_AT, _DICTIONARY_AT = 3, 5, 7, 9, 11
# of PageHeader and, by the type of a page, the structure in it that has the number of values as field 1.
_TYPE, _UNPACKED, _PACKED, _VALUES = 1, 2, 3, 1
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_OWN = {_DATA: 5, _DICTIONARY: 7, _DATA_V2: 8}
Value = int | bytes | None | dict[int, "Value"] | list["Value"]


class Contents(NamedTuple):
    """The rows of a file, its column chunks, and the bytes that all their pages unpack to."""

    rows: int
    chunks: int
    bytes: int


def contents(path: Path) -> Contents:
    """Return what a Parquet file claims to have, if its footer and the headers of all its pages agree.

    A reader may then trust the numbers of rows and values, places and lengths of column chunks. It needs no
    more memory for unpacked pages than this says. No column may be a list. Raises TraceError if it is no such
    file, OSError if it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return _contents(file)
    except (_Wrong, IndexError) as error:
        said = str(error) if isinstance(error, _Wrong) else "a part of it ends too soon"
        raise TraceError(path, f"not a whole Parquet file ({said})") from None


class _Wrong(Exception):
    """Something that is not as it must be."""


def _contents(file: BinaryIO) -> Contents:
    size = file.seek(0, 2)
    file.seek(max(size - _END, 0))
    end = file.read(_END)
    length = int.from_bytes(end[:4], "little")
    if end[4:] != _MAGIC or length > size - _END:
        raise _Wrong("its end is missing")
    file.seek(size - _END - length)
    footer, _ = _struct(file.read(length), 0, _DEPTH)
    rows, chunks, unpacked = 0, 0, 0
    for group in _structs(footer, _GROUPS):
        number = _number(group, _ROWS)
        for chunk in _structs(group, _COLUMNS):
            chunks += 1
            unpacked += _unpacked(file, size, _inner(chunk, _META), number)
        rows += number
    if rows != _number(footer, _ROWS):
        raise _Wrong("its footer counts other rows than its parts have")
    return Contents(rows, chunks, unpacked)


def _unpacked(file: BinaryIO, size: int, chunk: dict[int, Value], rows: int) -> int:
    """Return the bytes that the pages of a column chunk unpack to; `size` is that of the file."""
    if _number(chunk, _COUNT) != rows:
        raise _Wrong("a column has other values than its footer counts")
    if not rows:
        # It has no page of data, and a reader reads none.
        return 0
    values = total = 0
    for header in _headers(file, size, chunk):
        kind = _number(header, _TYPE)
        number = _number(_inner(header, _OWN.get(kind, 0)), _VALUES)
        if number > rows:
            raise _Wrong("a page has more values than its column")
        values += number if kind != _DICTIONARY else 0
        total += _number(header, _UNPACKED)
    if values != rows:
        raise _Wrong("a column has other values than its footer counts")
    return total


def _headers(file: BinaryIO, size: int, chunk: dict[int, Value]) -> Iterator[dict[int, Value]]:
    """Yield the headers of the pages of a column chunk, which must end where the footer says."""
    at = _number(chunk, _DATA_AT)
    if _DICTIONARY_AT in chunk:
        at = min(at, _number(chunk, _DICTIONARY_AT) or at)
    end = at + _number(chunk, _LENGTH)
    if end > size:
        raise _Wrong("a column is outside of it")
    while at < end:
        file.seek(at)
        header, length = _struct(file.read(min(_HEADER, end - at)), 0, _DEPTH)
        yield header
        at += length + _number(header, _PACKED)
    if at != end:
        raise _Wrong("a page is longer than its column")


def _number(fields: dict[int, Value], field: int) -> int:
    """Return a number that must be there, and not be negative."""
    found = fields.get(field)
    if not isinstance(found, int) or found < 0:
        raise _Wrong("a number in it is missing or negative")
    return found


def _inner(fields: dict[int, Value], field: int) -> dict[int, Value]:
    """Return a structure that must be there."""
    found = fields.get(field)
    if not isinstance(found, dict):
        raise _Wrong("a part of it is missing")
    return found


def _structs(fields: dict[int, Value], field: int) -> list[dict[int, Value]]:
    """Return the structures of a list that must be there."""
    found = fields.get(field)
    if not isinstance(found, list) or not all(isinstance(part, dict) for part in found):
        raise _Wrong("a part of it is missing")
    return found  # type: ignore[return-value]


def _struct(data: bytes, at: int, depth: int) -> tuple[dict[int, Value], int]:
    """Return the fields of a structure in Thrift's compact protocol, and where it ends.

    Source: doc/specs/thrift-compact-protocol.md of apache/thrift. Parquet has no maps. Raises IndexError if
    the data end before.
    """
    fields: dict[int, Value] = {}
    field = 0
    while head := data[at]:
        at += 1
        step, kind = head >> 4, head & 15
        if step:
            field += step
        else:
            field, at = _zigzag(data, at)
        if kind in (1, 2):
            fields[field] = kind == 1
        else:
            fields[field], at = _value(data, at, kind, depth)
    return fields, at + 1


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Value, int]:
    """Return a value of a kind, by its number in Thrift, and where it ends; None for one with a point."""
    if kind in (1, 2, 3):
        return data[at], at + 1
    if kind in (4, 5, 6):
        return _zigzag(data, at)
    if kind == 7:
        if len(data) - at < 8:
            raise IndexError
        return None, at + 8
    if kind == 8:
        length, at = _varint(data, at)
        if length > len(data) - at:
            raise IndexError
        return data[at : at + length], at + length
    if kind in (9, 10) and depth:
        return _list(data, at, depth - 1)
    if kind == 12 and depth:
        return _struct(data, at, depth - 1)
    raise _Wrong("a number in it is damaged")


def _list(data: bytes, at: int, depth: int) -> tuple[list[Value], int]:
    number, kind = data[at] >> 4, data[at] & 15
    at += 1
    if number == 15:
        number, at = _varint(data, at)
    found = []
    for _ in range(number):
        value, at = _value(data, at, kind, depth)
        found.append(value)
    return found, at


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    number, at = _varint(data, at)
    return number >> 1 ^ -(number & 1), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return an unsigned number of at most 64 bits."""
    number = 0
    for shift in range(0, 70, 7):
        number |= (data[at] & 127) << shift
        at += 1
        if not data[at - 1] & 128:
            return number, at
    raise _Wrong("a number in it is damaged")
