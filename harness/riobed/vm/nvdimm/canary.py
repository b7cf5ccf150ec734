# SPDX-License-Identifier: Apache-2.0
"""The canary: a pattern in a part of an NVDIMM that nothing uses.

Each difference is a stray store, because no request of a file system leads there.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from riobed.errors import InfraError
from riobed.vm.machine import Nvdimm

BLOCK = 4096
_CHUNK = 1 << 20
# One pattern for all, so a comparison needs nothing but the NVDIMM. No two blocks of it are equal.
_SEED = int.from_bytes(b"canary")


@dataclass(frozen=True)
class CanaryHits:
    """How many blocks of the canary differ, and the offset in the NVDIMM of the first byte that does."""

    blocks: int = 0
    first: int | None = None


def lay_canary(nvdimm: Nvdimm) -> None:
    """Write the pattern to the end of an NVDIMM's file."""
    with nvdimm.path.open("r+b") as file:
        file.seek(nvdimm.used)
        for part in _pattern(nvdimm.canary):
            file.write(part)


def canary_hits(nvdimm: Nvdimm) -> CanaryHits:
    """Compare an NVDIMM's file with the pattern; InfraError if it is too short."""
    # Late: it takes a fifth of a second, and most commands do not need it.
    import numpy as np

    blocks, first = 0, None
    with nvdimm.path.open("rb") as file:
        at = file.seek(nvdimm.used)
        for wanted in _pattern(nvdimm.canary):
            found = file.read(len(wanted))
            if len(found) < len(wanted):
                raise InfraError(f"NVDIMM {nvdimm.path} has {at + len(found)} bytes, want {nvdimm.size}")
            if found != wanted:
                differ = np.flatnonzero(np.frombuffer(found, np.uint8) != np.frombuffer(wanted, np.uint8))
                blocks += len(np.unique(differ // BLOCK))
                first = at + int(differ[0]) if first is None else first
            at += len(wanted)
    return CanaryHits(blocks, first)


def _pattern(size: int) -> Iterator[bytes]:
    import numpy as np

    noise = np.random.SFC64(_SEED)
    for done in range(0, size, _CHUNK):
        yield noise.random_raw(min(size - done, _CHUNK) // 8).tobytes()
