# SPDX-License-Identifier: Apache-2.0
"""The site index as a file: one header line, then packed content. It is a cache and may be deleted.

The header names the kernel build, the version of the rules and the decoder, and the content's SHA-256. The
content's shape is checked too, so that a damaged index is never used. The content is one line of JSON, then
each list of offsets as 32-bit differences, all compressed by zlib.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from array import array
from collections.abc import Collection, Iterator
from dataclasses import asdict
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import capstone
from riobed_results.files import write_whole

from riobed.errors import EnvironmentFault
from riobed.faults.sites.index import SiteIndex

_MAGIC = "riobed-sites"
_RULES = 3  # raise when what is a site changes
_LARGEST = 256 << 20  # bytes unpacked; ten times the index of a distribution's kernel
_WORD = 4  # bytes of an item of array("I")


def _header(build_id: str, digest: str) -> str:
    return f"{_MAGIC} {_RULES} capstone-{capstone.__version__} {build_id} {digest}\n"


def write_index(path: Path, build_id: str, index: SiteIndex) -> None:
    """Replace the file atomically. Raises EnvironmentFault if it cannot be written."""
    content = zlib.compress(_pack(index))
    digest = hashlib.sha256(content).hexdigest()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, _header(build_id, digest).encode() + content)
    except OSError as error:
        raise EnvironmentFault(f"{path}: cannot write the fault-site cache: {error}") from error


def _pack(index: SiteIndex) -> bytes:
    lists = {"": index.entries, **index.sites}
    data = asdict(index) | {
        "entries": len(index.entries),
        "sites": {k: len(v) for k, v in index.sites.items()},
    }
    deltas = (array("I", (b - a for a, b in pairwise((0, *offsets)))) for offsets in lists.values())
    return json.dumps(data, separators=(",", ":")).encode() + b"\n" + b"".join(d.tobytes() for d in deltas)


def read_index(path: Path, build_id: str, text_size: int, classes: Collection[str]) -> SiteIndex:
    """Read the index of the given build and classes; offsets must lie within text_size bytes.

    Raises EnvironmentFault when the file is missing, of another build, of other classes, or damaged.
    """
    try:
        header, _, content = path.read_bytes().partition(b"\n")
    except OSError as error:
        raise EnvironmentFault(f"{path}: cannot read the fault-site cache: {error}") from error
    fields = header.decode(errors="replace").split(" ")
    if len(fields) != 5 or fields[0] != _MAGIC:
        raise EnvironmentFault(f"{path}: not a fault-site cache; delete it")
    if fields[3] != build_id:
        raise EnvironmentFault(f"{path}: made for build {fields[3]}, not {build_id}; delete it")
    digest = hashlib.sha256(content).hexdigest()
    if header.decode(errors="replace") + "\n" != _header(build_id, digest):
        raise EnvironmentFault(f"{path}: damaged or made by another version of riobed; delete it")
    try:
        unpacker = zlib.decompressobj()
        text = unpacker.decompress(content, _LARGEST)
        if not unpacker.eof:
            raise ValueError("too large")
        index = _unpack(text, text_size)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, zlib.error) as error:
        raise EnvironmentFault(f"{path}: damaged fault-site cache ({error}); delete it") from error
    if list(index.sites) != list(classes):
        raise EnvironmentFault(f"{path}: made for the classes {', '.join(index.sites)}; delete it")
    return index


def _unpack(content: bytes, text_size: int) -> SiteIndex:
    """Return the index; raise one of the errors above if a part has the wrong shape."""
    head, _, packed = content.partition(b"\n")
    raw: Any = json.loads(head)
    lengths = [int(raw["entries"]), *(int(length) for length in raw["sites"].values())]
    lists = _offset_lists(lengths, packed, text_size)
    index = SiteIndex(
        functions=[(int(o), int(s), str(n), int(f)) for o, s, n, f in raw["functions"]],
        files=[str(name) for name in raw["files"]],
        spans=[(int(o), int(s)) for o, s in raw["spans"]],
        unprobeable=[(int(o), int(s)) for o, s in raw["unprobeable"]],
        entries=next(lists),
        sites=dict(zip(raw["sites"], lists, strict=True)),
        excluded_bytes=_counts(raw["excluded_bytes"]),
        excluded_sites={str(name): _counts(raw["excluded_sites"][name]) for name in raw["sites"]},
    )
    _check_ranges([(o, s) for o, s, *_ in index.functions], text_size)
    _check_ranges(index.spans, text_size)
    _check_ranges(index.unprobeable, text_size)
    if any(not 0 <= file < len(index.files) for *_, file in index.functions):
        raise ValueError("a function of no file")
    return index


def _offset_lists(lengths: list[int], packed: bytes, text_size: int) -> Iterator[array[int]]:
    if any(length < 0 for length in lengths) or sum(lengths) * _WORD != len(packed):
        raise ValueError("lists of another length")
    at = 0
    for length in lengths:
        deltas = array("I", packed[at : at + length * _WORD])
        at += length * _WORD
        if 0 in deltas[1:]:
            raise ValueError("an offset twice")
        offsets = array("I", accumulate(deltas))
        if offsets and offsets[-1] >= text_size:
            raise ValueError("an offset outside the kernel text")
        yield offsets


def _counts(raw: Any) -> dict[str, int]:
    return {str(reason): int(count) for reason, count in raw.items()}


def _check_ranges(ranges: list[tuple[int, int]], text_size: int) -> None:
    if any(size <= 0 or offset < 0 or offset + size > text_size for offset, size in ranges):
        raise ValueError("an offset outside the kernel text")
    if any(low + size > high for (low, size), (high, _) in pairwise(ranges)):
        raise ValueError("offsets out of order")
