# SPDX-License-Identifier: Apache-2.0
"""Find a file's bytes on the disk, from the output of `filefrag -e -v -b1` (e2fsprogs)."""

import re

# Number, logical and physical range in bytes, length, then optionally the expected address, and flags:
#    0:        0..    8191:   34816000..  34824191:   8192:             last,eof
_EXTENT = re.compile(rb"\s*\d+:\s*(\d+)\.\.\s*(\d+):\s*(\d+)\.\.\s*\d+:\s*\d+:(.*)")
# Flags of extents whose bytes are not at that address on the disk (include/uapi/linux/fiemap.h).
_ELSEWHERE = (b"inline", b"delalloc", b"unwritten", b"unknown", b"encoded", b"not_aligned")


def disk_offset(listing: bytes, offset: int) -> int | None:
    """Return the disk offset of the file's byte `offset`; None if the byte has no address of its own."""
    for line in listing.splitlines():
        if not (extent := _EXTENT.match(line)):
            continue
        first, last, physical = (int(extent[group]) for group in (1, 2, 3))
        if first <= offset <= last and not any(flag in extent[4] for flag in _ELSEWHERE):
            return physical + offset - first
    return None
