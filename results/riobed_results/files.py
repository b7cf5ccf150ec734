# SPDX-License-Identifier: Apache-2.0
"""Atomic file replacement, and where the cache is.

It imports only the standard library: `make setup` uses it before the project is installed.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_dir() -> Path:
    """Return the cache's folder: $RIOBED_CACHE, else riobed in $XDG_CACHE_HOME, else in ~/.cache."""
    if own := os.environ.get("RIOBED_CACHE"):
        return Path(own).absolute()
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base).absolute() / "riobed"
    return Path.home() / ".cache" / "riobed"


def stores_dir() -> Path:
    """Return the folder for unpacked copies of compressed stores."""
    return cache_dir() / "stores"


def verified_dir() -> Path:
    """Return the folder for what tests of published folders have passed, by state of files and code."""
    return cache_dir() / "verified"


@contextmanager
def replacing(path: Path, *, durable: bool = False) -> Iterator[Path]:
    """Give the block a temporary path to write to; the file replaces `path` when the block succeeds.

    If the block raises, `path` is unchanged and the temporary file is removed. With `durable`, file and name
    are on disk on return. A device or pipe cannot be replaced, so the path is then its own. Raises OSError if
    it cannot be written.
    """
    if path.exists() and not path.is_file():
        yield path
        return
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
        new = Path(folder) / path.name
        yield new
        if durable:
            _sync(new)
        new.replace(path)
    if durable:
        _sync(path.parent)


def write_whole(path: Path, data: bytes, *, durable: bool = False) -> None:
    """Write `data` to the file atomically, replacing its content; OSError if it cannot be written."""
    with replacing(path.resolve(), durable=durable) as new:
        new.write_bytes(data)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
