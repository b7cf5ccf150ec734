# SPDX-License-Identifier: Apache-2.0
"""Compressed stores: published rows as `store.sqlite.xz`, unpacked into the cache when they are first read.

A store compresses to a tenth. The cache knows an unpacked one by the SHA-256 of both files, so a changed or
damaged copy is noticed and made again. The compressed file is untrusted. xz checks each byte of it. The
database's own header says how large it is before any of it is written, which bounds what is written.
"""

import hashlib
import lzma
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from riobed_results.errors import StoreError
from riobed_results.files import replacing, stores_dir

SUFFIX = ".xz"
# Bytes. `xz -9` needs 65 MiB to decompress; no published store is near the others.
_MAX_MEMORY = 128 << 20
_MAX_PACKED = 1 << 30
# Published stores unpack to 5 to 29 times their size, an empty one to 34 times. xz can reach 7000.
_MAX_RATIO = 100
_PIECE = 1 << 20
# The header of an SQLite file (sqlite.org/fileformat.html): page size at offset 16, number of pages at 28.
_MAGIC, _HEADER = b"SQLite format 3\0", 100
# What is left free for others.
_SPARE = 64 << 20


def pack_store(database: Path, packed: Path) -> None:
    """Compress an SQLite file; OSError if that fails."""
    with (
        replacing(packed) as new,
        lzma.open(new, "wb", preset=9 | lzma.PRESET_EXTREME) as file,
        database.open("rb") as source,
    ):
        shutil.copyfileobj(source, file, _PIECE)


def unpacked(packed: Path) -> Path:
    """Return the SQLite file that a compressed store holds: a copy in the cache, made if it is not there.

    StoreError if the store is damaged, or if the cache has no room for it or cannot be written.
    """
    folder = stores_dir()
    with _explained(packed, folder):
        if packed.stat().st_size > _MAX_PACKED:
            raise StoreError(f"store {packed}: is too large to be one; restore it from a copy")
        name = _hash(packed)
        for copy in folder.glob(f"{name}-*.sqlite"):
            # Another command may have removed it since.
            with suppress(FileNotFoundError):
                if copy.stem == f"{name}-{_hash(copy)}":
                    return copy
                copy.unlink()
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as made:
            database = Path(made) / "store"
            _unpack(packed, database, folder)
            database.chmod(0o444)
            # Two commands may do this at once: both make the same file.
            return database.rename(folder / f"{name}-{_hash(database)}.sqlite")


def _unpack(packed: Path, database: Path, folder: Path) -> None:
    """Write the database to a file; StoreError unless it is whole, and there is room for it."""
    pieces = _pieces(packed)
    first = next(pieces, b"")
    size = _size(first)
    if size is None:
        raise _damaged(packed)
    if size > packed.stat().st_size * _MAX_RATIO:
        raise StoreError(
            f"store {packed}: would unpack to {size} bytes, more than rows of its size do; "
            "restore it from a copy"
        )
    free, need = shutil.disk_usage(folder).free, size + _SPARE
    if need > free:
        raise StoreError(
            f"store {packed}: {folder}: {free >> 20} MiB are free, {(need >> 20) + 1} MiB are needed; "
            "make room there, or set RIOBED_CACHE to another folder"
        )
    with database.open("wb") as file:
        file.write(first)
        for piece in pieces:
            if file.tell() + len(piece) > size:
                raise _damaged(packed)
            file.write(piece)
        if file.tell() != size:
            raise _damaged(packed)


def _size(header: bytes) -> int | None:
    """Return the size in bytes of the SQLite file that begins so; None if it is none."""
    if len(header) < _HEADER or not header.startswith(_MAGIC):
        return None
    # 1 stands for 65536, which has no room there.
    page = int.from_bytes(header[16:18], "big")
    return (65536 if page == 1 else page) * int.from_bytes(header[28:32], "big")


def _pieces(packed: Path) -> Iterator[bytes]:
    """Decompress a file in pieces of bounded size; LZMAError if it is damaged, EOFError if it is cut."""
    decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MAX_MEMORY)
    with packed.open("rb") as file:
        while not decompressor.eof:
            given = file.read(_PIECE) if decompressor.needs_input else b""
            if decompressor.needs_input and not given:
                raise EOFError
            yield decompressor.decompress(given, _PIECE)
        if decompressor.unused_data or file.read(1):
            raise lzma.LZMAError("more follows")
        if decompressor.check == lzma.CHECK_NONE:
            raise lzma.LZMAError("without a checksum, nothing says that it is unchanged")


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _damaged(packed: Path) -> StoreError:
    return StoreError(f"store {packed}: is damaged: restore it from a copy")


@contextmanager
def _explained(packed: Path, folder: Path) -> Iterator[None]:
    try:
        yield
    except (EOFError, lzma.LZMAError):
        raise _damaged(packed) from None
    except OSError as error:
        if str(error.filename) == str(packed):
            raise StoreError(f"store {packed}: {error.strerror}; make it readable or give --store") from None
        raise StoreError(
            f"store {packed}: {folder}: {error.strerror}; it is unpacked into the cache: "
            "set RIOBED_CACHE to a folder that can be written"
        ) from None
