# SPDX-License-Identifier: Apache-2.0
"""The tables of NVRAM beside a volatile cache (000, Figures 3 to 6), and of what the next dollar buys."""

from collections.abc import Iterable
from itertools import pairwise

from riobed_caches.rows import CacheRow

from riobed_results.tables.caches.grids import Column, Definition, Study, Value, Values, study_table

MIB = 1 << 20
POLICIES = ("omniscient", "unified", "unified-random", "write-aside")
# 000, Figure 5 begins with 8 MB of volatile memory, Figure 6 also with 16 MB.
STARTS = (8 * MIB, 16 * MIB)
# As much is added at most.
MOST = 16 * MIB


def total(row: CacheRow) -> float:
    """Return the bytes between cache and server, of those that programs moved."""
    return (row.fetched + row.sent) / max(row.read + row.written, 1)


def net(row: CacheRow) -> float:
    """Return the bytes sent, of those written."""
    return row.sent / max(row.written, 1)


def by_extra(rows: Iterable[CacheRow], model: str, start: int) -> dict[int, CacheRow]:
    """Return the rows of a model by the memory added to `start` bytes of volatile memory."""
    if model == "volatile":
        most = start + MOST
        found = (row for row in rows if row.model == model and start <= row.volatile <= most)
        return {row.volatile - start: row for row in found}
    return {row.safe: row for row in rows if row.model == model and row.volatile == start}


def _clients(study: Study) -> tuple[list[Values], list[str]]:
    rows, grids = study.rows(CacheRow), []
    for trace in study.traces:
        mine = [row for row in rows if row.trace == trace.trace]
        grids.append(_policies(trace.trace, mine))
        grids += [_models(trace.trace, mine, start) for start in STARTS]
        grids.append(_accesses(trace.trace, mine))
    return grids, []


def _policies(trace: str, rows: list[CacheRow]) -> Values:
    columns = {model: by_extra(rows, model, STARTS[0] if model != "omniscient" else 0) for model in POLICIES}
    sizes = sorted(set().union(*columns.values()))
    lines: list[list[Value]] = [
        [float(size), *(net(of[size]) if size in of else None for of in columns.values())] for size in sizes
    ]
    head = [Column(name="NVRAM", form="bytes"), *(Column(name=name, form="percent") for name in columns)]
    return Values(title=f"{trace}: bytes sent, of bytes written", columns=head, lines=lines)


def _models(trace: str, rows: list[CacheRow], start: int) -> Values:
    models = ("volatile", "write-aside", "unified")
    columns = {model: by_extra(rows, model, start) for model in models}
    sizes = sorted(set().union(*columns.values()))
    lines: list[list[Value]] = [
        [float(size), *(total(of[size]) if size in of else None for of in columns.values())] for size in sizes
    ]
    head = [Column(name="Memory added", form="bytes")]
    head += [Column(name=name, form="percent") for name in models]
    title = f"{trace}: bytes to and from the server, of bytes moved, from {start // MIB} MiB volatile on"
    return Values(title=title, columns=head, lines=lines if any(columns.values()) else [])


def _accesses(trace: str, rows: list[CacheRow]) -> Values:
    aside, unified = (by_extra(rows, model, STARTS[0]) for model in ("write-aside", "unified"))
    lines: list[list[Value]] = [
        [
            float(size),
            ratio(
                unified[size].safe_reads + unified[size].safe_writes,
                aside[size].safe_reads + aside[size].safe_writes,
            ),
            ratio(unified[size].bus, aside[size].bus),
        ]
        for size in sorted(aside.keys() & unified.keys())
    ]
    columns = [
        Column(name="NVRAM", form="bytes"),
        Column(name="Accesses to NVRAM", form="ratio"),
        Column(name="Bytes on the bus", form="ratio"),
    ]
    return Values(title=f"{trace}: unified over write-aside", columns=columns, lines=lines)


def ratio(part: float, whole: float) -> float | None:
    """Return a ratio; None if there is nothing to compare with."""
    return part / whole if whole else None


def equal_volatile(volatile: dict[int, CacheRow], traffic: float) -> float | None:
    """Return the added volatile memory with which as many bytes go to and from the server.

    Between two sizes the traffic is taken to fall on a line. None if no size that was run has as few.
    """
    sizes = sorted(volatile)
    for low, high in pairwise(sizes):
        above, below = total(volatile[low]), total(volatile[high])
        if below <= traffic:
            share = (above - traffic) / (above - below) if above > below else 0.0
            return low + max(share, 0.0) * (high - low)
    return None


def _prices(study: Study) -> tuple[list[Values], list[str]]:
    rows, lines = study.rows(CacheRow), []
    for trace in study.traces:
        mine = [row for row in rows if row.trace == trace.trace]
        for start in STARTS:
            unified, volatile = (by_extra(mine, model, start) for model in ("unified", "volatile"))
            for size, row in sorted(unified.items()):
                same = equal_volatile(volatile, total(row)) if len(volatile) > 1 else None
                cells: list[Value] = [trace.trace, float(start), float(size), total(row), same]
                lines.append([*cells, ratio(same, size) if same is not None else None])
    columns = [
        Column(name="Trace"),
        Column(name="Volatile", form="bytes"),
        Column(name="NVRAM added", form="bytes"),
        Column(name="Traffic", form="percent"),
        Column(name="As much volatile", form="bytes"),
        Column(name="Worth", form="ratio"),
    ]
    return [Values(title="What NVRAM is worth in volatile memory", columns=columns, lines=lines)], []


CLIENT_CACHES = study_table(
    Definition(
        name="client-caches",
        title="NVRAM in client caches",
        help="What NVRAM beside a volatile cache saves, by model, policy and size.",
        build=_clients,
        note="000, Figures 3 to 6 and section 2.6. Bytes that are there at the end count as sent.",
        legend={
            "omniscient": "NVRAM alone, which gives up the block modified the furthest in the future.",
            "unified": "a block is in volatile memory or NVRAM, a dirty one in NVRAM; LRU in both.",
            "unified-random": "the same, and NVRAM gives up a random block.",
            "write-aside": "NVRAM has copies of the dirty blocks of the volatile cache.",
            "volatile": "as in Sprite: LRU, and files with data older than 30 s are written back.",
        },
    )
)
MEMORY_PRICE = study_table(
    Definition(
        name="memory-price",
        title="Price of memory",
        help="What NVRAM may cost, so that it is a better buy than volatile memory.",
        build=_prices,
        note="000, section 2.7. NVRAM is the better buy where its price, over that of volatile memory, is "
        "below Worth. In 1992 it was at least four times as expensive (000, Table 1).",
        legend={
            "Traffic": "bytes to and from the server, of bytes that programs moved.",
            "As much volatile": "volatile memory that brings the same traffic; - if no size did.",
            "Worth": "that memory, over the NVRAM.",
        },
    )
)
