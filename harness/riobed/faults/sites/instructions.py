# SPDX-License-Identifier: Apache-2.0
"""Lists of instructions of a kernel's text, as ranges of addresses: as a file, and packed for the store.

A file has a line `kernel BUILD-ID`, then a line `ADDRESS BYTES` for each range, in order. Several kernels may
follow each other. Text from `#` on is a comment.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Iterable, Iterator

from riobed.errors import UsageError

# First address, and first address after it.
Ranges = list[tuple[int, int]]

_KERNEL = re.compile(r"kernel ([0-9a-f]{2,64})")
_RANGE = re.compile(r"([0-9a-f]{1,16}) ([0-9]{1,7})")


def to_text(build_id: str, ranges: Ranges) -> str:
    """Return the lines of a file for one kernel."""
    lines = (f"{start:x} {end - start}\n" for start, end in ranges)
    return f"kernel {build_id}\n" + "".join(lines)


def from_text(text: str, what: str) -> dict[str, Ranges]:
    """Read a file's text: ranges by build id. UsageError, which begins with `what`, names a wrong line."""
    found: dict[str, Ranges] = {}
    ranges: Ranges | None = None
    for number, line in enumerate(text.splitlines(), 1):
        line = line.partition("#")[0].strip()
        if kernel := _KERNEL.fullmatch(line):
            ranges = found.setdefault(kernel[1], [])
        elif (match := _RANGE.fullmatch(line)) and ranges is not None:
            start = int(match[1], 16)
            if ranges and start < ranges[-1][1]:
                raise UsageError(f"{what}: line {number} is not in order; sort the addresses")
            ranges.append((start, start + int(match[2])))
        elif line:
            raise UsageError(f"{what}: line {number} is neither a kernel nor a range; correct it")
    return found


def packed(ranges: Ranges) -> str:
    """Pack ranges as one word: distances from the end of the previous one, and sizes."""
    numbers, at = [], 0
    for start, end in ranges:
        numbers += [f"{start - at:x}", f"{end - start:x}"]
        at = end
    return base64.b64encode(zlib.compress(" ".join(numbers).encode(), 9)).decode()


def unpacked(word: str) -> Ranges:
    """Return what `packed` packed; UsageError if the word is damaged."""
    try:
        numbers = [int(number, 16) for number in zlib.decompress(base64.b64decode(word)).split()]
        pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
    except (ValueError, zlib.error):
        raise UsageError("sites.instructions_listed is damaged; use the store's copy") from None
    ranges, at = [], 0
    for distance, size in pairs:
        ranges.append((at + distance, at + distance + size))
        at += distance + size
    return ranges


def union(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Return the same addresses as ranges in order, none of which touches another."""
    found: Ranges = []
    for start, end in sorted(ranges):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def overlaps(left: Iterable[tuple[int, int]], right: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield where the ranges of two ordered lists overlap, in order."""
    lefts, rights = iter(left), iter(right)
    a, b = next(lefts, None), next(rights, None)
    while a and b:
        low, high = max(a[0], b[0]), min(a[1], b[1])
        if low < high:
            yield low, high
        if a[1] < b[1]:
            a = next(lefts, None)
        else:
            b = next(rights, None)
