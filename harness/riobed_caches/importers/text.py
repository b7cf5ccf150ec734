# SPDX-License-Identifier: Apache-2.0
"""Importers/Text: reads files, compressed or not, with bounds."""

import bz2
import gzip
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from riobed_caches.errors import TraceError

# Of a file, decompressed; what is larger does not fit into memory as events.
MAX_BYTES = 16 << 30

# No line of any format comes near; two paths of Linux with all bytes escaped have 32 KiB.
MAX_LINE = 1 << 18
# Stands for a line that is longer, and is understood by no format.
TOO_LONG = b"\0"
_OPENERS = ((b"\x1f\x8b", gzip.GzipFile), (b"\xfd7zXZ", lzma.LZMAFile), (b"BZh", bz2.BZ2File))


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Give the decompressed bytes of a file (gzip, xz, bzip2, or plain, as its first bytes say).

    TraceError if it cannot be read, or is damaged.
    """
    try:
        with path.open("rb") as plain:
            head = plain.read(6)
        opener = next((how for magic, how in _OPENERS if head.startswith(magic)), None)
        with opener(path) if opener else path.open("rb") as stream:
            yield cast(BinaryIO, stream)
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        said = getattr(error, "strerror", None) or str(error)
        raise TraceError(path, said, "give a whole file that can be read") from None


def lines(path: Path, bound: int = MAX_BYTES) -> Iterator[bytes]:
    """Give the lines of a file. TraceError as with opened(), and if it has more than `bound` bytes."""
    left = bound
    with opened(path) as stream:
        while line := stream.readline(MAX_LINE):
            left -= len(line)
            whole = len(line) < MAX_LINE or line.endswith(b"\n")
            while left >= 0 and len(line) == MAX_LINE and not line.endswith(b"\n"):
                line = stream.readline(MAX_LINE)
                left -= len(line)
            if left < 0:
                raise TraceError(path, f"it has more than {bound} bytes", "cut it into parts")
            yield line if whole else TOO_LONG
