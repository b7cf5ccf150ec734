# SPDX-License-Identifier: Apache-2.0
"""Files that are replaced as a whole."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give the block a temporary path to write to; the file replaces `path` when the block succeeds.

    If the block raises, `path` is unchanged. Raises OSError if the folder cannot be written.
    """
    with tempfile.TemporaryDirectory(dir=path.resolve().parent, prefix=f".{path.name}.") as folder:
        new = Path(folder) / path.name
        yield new
        new.replace(path)
