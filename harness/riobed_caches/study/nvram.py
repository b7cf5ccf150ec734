# SPDX-License-Identifier: Apache-2.0
"""Rows of NVRAM beside a volatile cache, at the sizes of the papers; one run a size."""

from collections.abc import Iterator

import numpy as np

from riobed_caches.compiled import Int64s
from riobed_caches.models.bands import Policy, bands
from riobed_caches.models.histories import nbm, nv_min, nvlru
from riobed_caches.models.moments import moments_of
from riobed_caches.models.omniscient import omniscient
from riobed_caches.models.policy import POLICIES
from riobed_caches.models.unified import unified
from riobed_caches.models.write_aside import write_aside
from riobed_caches.rows import CacheRow
from riobed_caches.stream.ops import Stream
from riobed_caches.study.lru import DELAY, NO_RISK, counted

MIB = 1 << 20
# 000, Figures 3 to 6.
SAFE = tuple(MIB * eighths // 8 for eighths in (1, 2, 4, 8, 16, 32, 48, 64, 128))
VOLATILE = (8 * MIB, 16 * MIB)
# Of random replacement.
SEED = 1
# 003, 3 and 4: under heavy load, and with much room.
FEW = (MIB // 8, MIB, 8 * MIB)
ACCESSES = {"nvlru": nvlru, "nbm": nbm, "nv-min": nv_min}


def nvram_rows(trace: str, stream: Stream) -> Iterator[CacheRow]:
    """Yield a row for each model and pair of sizes."""
    block = stream.block_size

    def row(model: str, counts: Int64s, volatile: int, safe: int) -> CacheRow:
        lost_in = "nothing" if safe else "crash or power"
        sizes = {"volatile": volatile, "safe": safe, "lost_in": lost_in}
        return CacheRow(trace=trace, model=model, **sizes, **counted(counts, stream), **NO_RISK)

    for safe in SAFE:
        yield row("omniscient", omniscient(stream, safe // block), 0, safe)
    yield from _volatile(trace, stream)
    for volatile in VOLATILE:
        for safe in SAFE:
            yield row("unified", unified(stream, volatile // block, safe // block)[0], volatile, safe)
        for safe in FEW:
            for name, model in ACCESSES.items():
                yield row(name, model(stream, volatile // block, safe // block)[0], volatile, safe)
    for safe in SAFE:
        blocks = (VOLATILE[0] // block, safe // block)
        random = unified(stream, *blocks, POLICIES["random"], seed=SEED)[0]
        yield row("unified-random", random, VOLATILE[0], safe)
        yield row("write-aside", write_aside(stream, *blocks)[0], VOLATILE[0], safe)


def _volatile(trace: str, stream: Stream) -> Iterator[CacheRow]:
    """Yield rows of Sprite's cache with as much volatile memory as NVRAM is added elsewhere (000, 2.1).

    An fsync does nothing: the traces of 000 did not have them (2.2).
    """
    sizes = np.unique([start + more for start in VOLATILE for more in (0, *SAFE)]) // stream.block_size
    run = bands(stream, sizes, Policy(delay=DELAY, whole_files=True, on_fsync=False), moments_of(stream, 1))
    for g, size in enumerate(sizes):
        found = counted(run.counts[:, g], stream)
        place = {"volatile": int(size) * stream.block_size, "safe": 0, "lost_in": "crash or power"}
        yield CacheRow(
            trace=trace, model="volatile", **place, **found, **NO_RISK | {"at_risk": float(run.mean[g])}
        )
