# SPDX-License-Identifier: Apache-2.0
"""Where a file's bytes are on the disk, from `filefrag -e -v -b1` (e2fsprogs)."""

import re

# Number, logical and physical range in bytes, length, and perhaps where it was expected and flags:
#    0:        0..    8191:   34816000..  34824191:   8192:             last,eof
_EXTENT = re.compile(rb"\s*\d+:\s*(\d+)\.\.\s*(\d+):\s*(\d+)\.\.\s*\d+:\s*\d+:(.*)")
# Flags of extents whose bytes are not at that place on the disk (include/uapi/linux/fiemap.h).
_ELSEWHERE = (b"inline", b"delalloc", b"unwritten", b"unknown", b"encoded", b"not_aligned")


def place(listing: bytes, offset: int) -> int | None:
    """Return the offset on the disk of the file's byte `offset`, None if it has no place of its own."""
    for line in listing.splitlines():
        if not (extent := _EXTENT.match(line)):
            continue
        first, last, physical = (int(extent[group]) for group in (1, 2, 3))
        if first <= offset <= last and not any(flag in extent[4] for flag in _ELSEWHERE):
            return physical + offset - first
    return None
