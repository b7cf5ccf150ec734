# SPDX-License-Identifier: Apache-2.0
"""The tables of NVRAM beside a volatile cache (000, Figures 3 to 6), and of what the next dollar buys."""

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Annotated

from riobed_caches.rows import CacheRow

from riobed_results.tables.caches.grids import (
    FOLDER_HELP,
    Column,
    Definition,
    Study,
    StudyTable,
    Value,
    Values,
    read_study,
    study_page,
    study_table,
    supported,
)
from riobed_results.tables.framework.table import FolderTable, Option

MIB = 1 << 20
POLICIES = ("omniscient", "unified", "unified-random", "write-aside")
# 000, Figure 5 begins with 8 MB of volatile memory, Figure 6 also with 16 MB.
STARTS = (8 * MIB, 16 * MIB)
# As much is added at most.
MOST = 16 * MIB
# The volatile cache is that of Sprite, which writes back by the clock.
_NEEDS = ("times", "directions of transfers")


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
    able, why = study.able(*_NEEDS)
    for name in (trace.trace for trace in study.traces if trace.trace in able):
        mine = [row for row in rows if row.trace == name]
        grids.append(_policies(name, mine))
        grids += [_models(name, mine, start) for start in STARTS]
        grids.append(_accesses(name, mine))
    return grids, why


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


def cost(size: float, kind: str, dollars: float | None) -> float:
    """Return what `size` bytes cost at `dollars` a MiB, or as the cheapest component of 000, Table 1."""
    from riobed_caches.papers.points import tables

    if dollars is not None:
        return dollars * size / MIB
    sold = (price for price in tables().prices if price.kind == kind)
    return min(price.dollars * max(size / MIB, price.minimum_mb) for price in sold)


def _prices(
    folder: Path,
    nvram: Annotated[float | None, Option("Dollars a MiB of NVRAM; default: the paper's.")] = None,
    volatile: Annotated[
        float | None, Option("Dollars a MiB of volatile memory; default: the paper's.")
    ] = None,
) -> StudyTable:
    study = read_study(folder)
    rows = study.rows(CacheRow)
    able, why = study.able(*_NEEDS)
    lines: list[list[Value]] = []
    for name in (trace.trace for trace in study.traces if trace.trace in able):
        mine = [row for row in rows if row.trace == name]
        for start in STARTS:
            plain = by_extra(mine, "volatile", start)
            for size, row in sorted(by_extra(mine, "unified", start).items()):
                same = equal_volatile(plain, total(row)) if len(plain) > 1 else None
                lines.append([name, float(start), *_bought(size, total(row), same, nvram, volatile)])
    columns = [
        Column(name="Trace"),
        *(Column(name=name, form="bytes") for name in ("Volatile", "NVRAM added")),
    ]
    columns += [Column(name="Traffic", form="percent"), Column(name="As much volatile", form="bytes")]
    columns.append(Column(name="Worth", form="ratio"))
    columns += [Column(name=name, form="dollars") for name in ("NVRAM, $", "As much volatile, $")]
    columns.append(Column(name="Buy"))
    grid = Values(title="What NVRAM is worth in volatile memory", columns=columns, lines=lines)
    return supported(study, [grid], why)


def _bought(
    size: int, traffic: float, same: float | None, nvram: float | None, volatile: float | None
) -> list[Value]:
    """Return the cells of a line; `same` is as much volatile memory, None if no size that was run is."""
    mine = cost(size, "nvram", nvram)
    if same is None:
        return [float(size), traffic, None, None, mine, None, "NVRAM"]
    if not same:
        return [float(size), traffic, 0.0, 0.0, mine, None, "neither"]
    other = cost(same, "volatile", volatile)
    return [float(size), traffic, same, same / size, mine, other, "NVRAM" if mine < other else "volatile"]


PRICE_NOTE = (
    "000, section 2.7. NVRAM is the better buy where its price, over that of volatile memory, is below "
    "Worth. Prices of the paper are those of 1992, of the cheapest component that is sold in the size "
    "(Table 1)."
)
PRICE_LEGEND = {
    "Traffic": "bytes to and from the server, of bytes that programs moved.",
    "As much volatile": "volatile memory that brings the same traffic; - if no size did.",
    "Worth": "that memory, over the NVRAM.",
    "Buy": "what is cheaper; NVRAM if no volatile memory does as much, neither if the NVRAM does not help.",
}
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
MEMORY_PRICE = FolderTable(
    name="memory-price",
    title="Price of memory",
    help="Whether the next dollar should buy NVRAM or volatile memory.",
    compute=_prices,
    page=lambda table: study_page(PRICE_NOTE, PRICE_LEGEND, table),
    folder_help=FOLDER_HELP,
)
