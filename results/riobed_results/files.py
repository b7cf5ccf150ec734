# SPDX-License-Identifier: Apache-2.0
"""Files that are written whole or not at all."""

import os
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Put `data` into the file, replacing what is there when all is written; OSError if it cannot be."""
    if path.exists() and not path.is_file():
        path.write_bytes(data)  # a device or pipe cannot be replaced
        return
    path = path.resolve()
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        new.write_bytes(data)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
