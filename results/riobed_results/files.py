# SPDX-License-Identifier: Apache-2.0
"""Files that are written whole or not at all.

Imports the standard library only: `make setup` uses it before the project is installed.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path, *, durable: bool = False) -> Iterator[Path]:
    """Give the block a path to write to; that file takes the place of `path` when the block ends well.

    If the block raises, `path` stays as it was and nothing is left beside it. `durable`: it is on disk, with
    its name, when this returns. Raises OSError if it cannot be written.
    """
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
        new = Path(folder) / path.name
        yield new
        if durable:
            _sync(new)
        new.replace(path)
    if durable:
        _sync(path.parent)


def write_whole(path: Path, data: bytes, *, durable: bool = False) -> None:
    """Put `data` into the file, replacing what is there when all is written; OSError if it cannot be."""
    if path.exists() and not path.is_file():
        path.write_bytes(data)  # a device or pipe cannot be replaced
        return
    with replacing(path.resolve(), durable=durable) as new:
        new.write_bytes(data)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
