# SPDX-License-Identifier: Apache-2.0
"""The site index as a file: one header line, then zlib-packed JSON. A cache: may be deleted at any time.

The header binds the content to the kernel build, to the rules that made it and to the decoder, and carries
its SHA-256; the content is still checked to be of the expected shape, so that a damaged index is never
followed.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import zlib
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import capstone

from riobed.errors import EnvironmentFault
from riobed.faults.sites import SiteIndex

_MAGIC = "riobed-sites"
_RULES = 2  # raise when what is a site changes
_LARGEST = 256 << 20  # bytes unpacked; the index of a distribution's kernel takes a twentieth


def _header(build_id: str, digest: str) -> str:
    return f"{_MAGIC} {_RULES} capstone-{capstone.__version__} {build_id} {digest}\n"


def write_index(path: Path, build_id: str, index: SiteIndex) -> None:
    """Replace the file at once, or leave it as it was. Raises EnvironmentFault when it cannot be written."""
    content = zlib.compress(json.dumps(asdict(index), separators=(",", ":")).encode())
    digest = hashlib.sha256(content).hexdigest()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_header(build_id, digest).encode() + content)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise EnvironmentFault(f"{path}: cannot write the fault-site cache: {error}") from error


def read_index(path: Path, build_id: str, text_size: int) -> SiteIndex:
    """Read the index of the given build; offsets must lie within text_size bytes.

    Raises EnvironmentFault when the file is missing, of another build, or damaged.
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
        return _checked(json.loads(text), text_size)
    except (ValueError, TypeError, KeyError, AttributeError, zlib.error) as error:
        raise EnvironmentFault(f"{path}: damaged fault-site cache ({error}); delete it") from error


def _checked(raw: Any, text_size: int) -> SiteIndex:
    """The index; one of the errors above if some part has not its shape."""
    index = SiteIndex(
        functions=[(int(o), int(s), str(n)) for o, s, n in raw["functions"]],
        spans=[(int(o), int(s)) for o, s in raw["spans"]],
        branches=[int(o) for o in raw["branches"]],
        unprobeable=[(int(o), int(s)) for o, s in raw["unprobeable"]],
        excluded_bytes={str(k): int(v) for k, v in raw["excluded_bytes"].items()},
        excluded_branches={str(k): int(v) for k, v in raw["excluded_branches"].items()},
    )
    _check_ranges([(o, s) for o, s, _ in index.functions], text_size)
    _check_ranges(index.spans, text_size)
    _check_ranges(index.unprobeable, text_size)
    _check_ranges([(o, 1) for o in index.branches], text_size)
    return index


def _check_ranges(ranges: list[tuple[int, int]], text_size: int) -> None:
    if any(size <= 0 or offset < 0 or offset + size > text_size for offset, size in ranges):
        raise ValueError("an offset outside the kernel text")
    if any(low + size > high for (low, size), (high, _) in pairwise(ranges)):
        raise ValueError("offsets out of order")
