# SPDX-License-Identifier: Apache-2.0
"""Where the bytes of a disk lie in its image, by QEMU's docs/interop/qcow2.txt."""

import os
import struct
from array import array
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from riobed.errors import InfraError

_HEADER = struct.Struct(">4sIQIIQIIQ")
_MAGIC = b"QFI\xfb"
# `incompatible_features` of version 3; the first of them says only that numbers of references may be wrong.
_INCOMPATIBLE = struct.Struct(">Q")
_INCOMPATIBLE_AT, _DIRTY = 72, 1
_CLUSTER_BITS = range(9, 22)
# The most bytes that QEMU takes for the first table.
_MAX_L1 = 32 << 20
_OFFSET, _COMPRESSED, _ZERO = 0x00FF_FFFF_FFFF_FE00, 1 << 62, 1


class Qcow2:
    """A qcow2 image of `size` bytes, open for reading as `fd`. QEMU may write elsewhere in it meanwhile.

    InfraError if it is no image, or of a kind that riobed does not make: with a backing file, encrypted, or
    compressed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise InfraError(f"disk {path}: {error.strerror}") from None
        try:
            self._read_header()
        except BaseException:
            self.close()
            raise

    def _read_header(self) -> None:
        head = self._read(0, _INCOMPATIBLE_AT + _INCOMPATIBLE.size)
        magic, version, backing, _, bits, self.size, crypt, l1_size, l1_at = _HEADER.unpack_from(head)
        (incompatible,) = _INCOMPATIBLE.unpack_from(head, _INCOMPATIBLE_AT) if version == 3 else (0,)
        if magic != _MAGIC or version not in (2, 3) or bits not in _CLUSTER_BITS or 8 * l1_size > _MAX_L1:
            raise InfraError(f"disk {self._path}: is not a qcow2 image")
        if backing or crypt or incompatible & ~_DIRTY:
            raise InfraError(f"disk {self._path}: is of a kind of qcow2 that cannot be read here")
        self._cluster = 1 << bits
        self._l1 = self._table(l1_at, l1_size)
        self._l2: dict[int, array[int]] = {}

    def close(self) -> None:
        """Close the image; nothing can be read any more."""
        os.close(self.fd)

    def __enter__(self) -> "Qcow2":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def pieces(self, start: int, length: int) -> Iterator[tuple[int | None, int]]:
        """Yield for each piece of these bytes of the disk its offset in the file, and how many bytes it has.

        The offset of zeros is None. InfraError if it is behind the disk's end, or cannot be read here.
        """
        if start < 0 or length < 0 or start + length > self.size:
            raise InfraError(f"disk {self._path}: {length} bytes at {start} are not on it")
        while length:
            inside = start % self._cluster
            part = min(length, self._cluster - inside)
            begin = self._cluster_at(start // self._cluster)
            yield None if begin is None else begin + inside, part
            start += part
            length -= part

    def _cluster_at(self, number: int) -> int | None:
        """Return the offset of a cluster of the disk in the file; None if it has only zeros."""
        entries = self._cluster // 8
        table = number // entries
        if table not in self._l2:
            at = self._l1[table] & _OFFSET if table < len(self._l1) else 0
            self._l2[table] = self._table(at, entries) if at else array("Q", bytes(self._cluster))
        entry = self._l2[table][number % entries]
        if entry & _COMPRESSED:
            raise InfraError(f"disk {self._path}: is of a kind of qcow2 that cannot be read here")
        return None if entry & _ZERO or not entry & _OFFSET else entry & _OFFSET

    def _table(self, at: int, entries: int) -> "array[int]":
        table = array("Q", self._read(at, 8 * entries))
        table.byteswap()
        return table

    def _read(self, at: int, size: int) -> bytes:
        data = os.pread(self.fd, size, at) if at < 1 << 63 else b""
        if len(data) != size:
            raise InfraError(f"disk {self._path}: is cut short")
        return data
