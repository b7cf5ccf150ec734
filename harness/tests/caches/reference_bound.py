# SPDX-License-Identifier: Apache-2.0
"""What no policy of NVRAM can send less than, by a flow of the least cost, and what the best of all sends."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from riobed_caches.stream.ops import Op, Stream
from scipy.optimize import linprog
from scipy.sparse import coo_array

# A block's dirty ranges: first byte, end, and the number of the stay that began with their write.
Range = tuple[int, int, int]


class Stays(NamedTuple):
    """Times for which a client's blocks may stay in NVRAM: from one of its writes on, before another.

    `saved` are the bytes that die if the block stays, `free` those that die without a write in between.
    """

    first: list[int]
    last: list[int]
    saved: list[int]
    free: int


def least_sent(stream: Stream, *sizes: int) -> list[int]:
    """Return for each size bytes of which at least so many leave NVRAM of so many blocks a client.

    That holds whatever is given up. A block is in NVRAM when it is written, and may leave at each write of
    the client. A byte that is overwritten or deleted is saved if its block stayed in all the time between.
    Here it is saved if its block stayed in the longest part of that time between two operations on the block:
    so the bound is exact for whole blocks, and may be too low for others. Which stays save the most is a
    flow: one unit less than the size goes from write to write, and one that keeps a block goes past the
    writes between.
    """
    written = int((stream.hi - stream.lo)[stream.op == Op.WRITE].sum())
    least = [written] * len(sizes)
    for client in range(stream.clients):
        stays = _stays(stream, client)
        least = [n - stays.free - _most_saved(stays, size - 1) for n, size in zip(least, sizes, strict=True)]
    return least


def _most_saved(stays: Stays, units: int) -> int:
    """Return the most bytes that stays save, of which at most `units` are at one time."""
    if not stays.first or not units:
        return 0
    saved = np.array(stays.saved)
    places, at = np.unique([stays.first, stays.last], return_inverse=True)
    begin, end = (np.bincount(of, minlength=len(places)) for of in at.reshape(2, -1))
    # From a place to the next one: too many stay, and none of the neighbours has these and others.
    full = np.cumsum(begin - end) > units
    full &= (begin > 0) & (np.roll(end, -1) > 0)
    first, last = np.concatenate([[0], np.cumsum(full)])[at.reshape(2, -1)]
    free, met = int(saved[first == last].sum()), first < last
    first, last, saved, n = first[met], last[met], saved[met], int(full.sum()) + 1
    if n == 1:
        return free
    starts, ends = np.concatenate([np.arange(n - 1), first]), np.concatenate([np.arange(1, n), last])
    columns = np.arange(len(starts))
    values = np.concatenate([np.ones(len(starts)), -np.ones(len(starts))])
    where = (np.concatenate([starts, ends]), np.concatenate([columns, columns]))
    balance = np.zeros(n)
    balance[0], balance[-1] = units, -units
    costs = np.concatenate([np.zeros(n - 1), -saved.astype(float)])
    most = np.concatenate([np.full(n - 1, units), np.ones(len(first))])
    matrix = coo_array((values, where), shape=(n, len(starts))).tocsr()
    found = linprog(costs, A_eq=matrix, b_eq=balance, bounds=np.array([0 * most, most]).T, method="highs")
    return free - round(found.fun)


def _stays(stream: Stream, client: int) -> Stays:
    """Return the stays of a client's blocks that save bytes."""
    first, last, saved, free, writes = [], [], [], 0, 0
    dirty: dict[int, list[Range]] = {}
    # Of each dirty block, the numbers of its stays, and when the one that lasts began.
    known: dict[int, list[int]] = {}
    since: dict[int, int] = {}
    for op, b, lo, hi in _operations(stream, client):
        ranges = dirty.get(b, [])
        if ranges:
            known[b].append(len(first))
            first.append(since[b])
            last.append(writes)
            saved.append(0)
        ranges, dead = _without(ranges, lo, hi if op == Op.WRITE else stream.block_size)
        for low, high, stay in dead if op in (Op.WRITE, Op.CUT, Op.DELETE) else ():
            longest = max(known[b][stay:], key=lambda n: last[n] - first[n])
            if last[longest] > first[longest]:
                saved[longest] += high - low
            else:
                free += high - low
        if op == Op.WRITE:
            writes += 1
            ranges.append((lo, hi, len(known.setdefault(b, []))))
        dirty[b], since[b] = ranges, writes
        if not ranges:
            for of in (dirty, since, known):
                of.pop(b, None)
    kept = [n for n, bytes_ in enumerate(saved) if bytes_]
    return Stays([first[n] for n in kept], [last[n] for n in kept], [saved[n] for n in kept], free)


def _operations(stream: Stream, client: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield operation, block and range of what changes the client's dirty bytes; all from 0 if not cut."""
    mine = np.isin(stream.op, (Op.WRITE, Op.CUT, Op.DELETE, Op.RECALL, Op.INVALIDATE))
    mine &= stream.client[stream.block] == client
    lo = np.where(np.isin(stream.op, (Op.WRITE, Op.CUT)), stream.lo, 0)
    yield from zip(*(of[mine].tolist() for of in (stream.op, stream.block, lo, stream.hi)), strict=True)


def _without(ranges: list[Range], lo: int, hi: int) -> tuple[list[Range], list[Range]]:
    """Return what is outside of a range, and what is in it."""
    outside, inside = [], []
    for low, high, stay in ranges:
        parts = ((low, min(high, lo), outside), (max(low, lo), min(high, hi), inside))
        for begin, end, where in (*parts, (max(low, hi), high, outside)):
            if begin < end:
                where.append((begin, end, stay))
    return outside, inside


def best_sent(stream: Stream, size: int) -> int:
    """Return the fewest bytes that any choice of blocks sends, by trying all; for short streams.

    There is one client. A block has one range of dirty bytes, and leaves for room alone.
    """
    states: dict[frozenset[tuple[int, int, int]], int] = {frozenset(): 0}
    for op, b, lo, hi in _operations(stream, 0):
        coming: dict[frozenset[tuple[int, int, int]], int] = {}
        for held, sent in states.items():
            old = next((one for one in held if one[0] == b), None)
            for new, more in _after(held, old, size, (op, b, lo, hi)):
                coming[new] = min(coming.get(new, sent + more), sent + more)
        states = coming
    return min(sent + sum(high - low for _, low, high in held) for held, sent in states.items())


def _after(
    held: frozenset[tuple[int, int, int]],
    old: tuple[int, int, int] | None,
    size: int,
    operation: tuple[int, int, int, int],
) -> Iterator[tuple[frozenset[tuple[int, int, int]], int]]:
    """Yield what NVRAM may hold after an operation, and the bytes that it sends."""
    op, b, lo, hi = operation
    others = held - {old} if old else held
    if op == Op.WRITE and old:
        yield others | {(b, min(lo, old[1]), max(hi, old[2]))}, 0
    elif op == Op.WRITE:
        for victim in others if len(others) == size else [None]:
            sent = victim[2] - victim[1] if victim else 0
            yield (others - {victim}) | {(b, lo, hi)}, sent
    elif op == Op.CUT and old and lo > old[1]:
        yield others | {(b, old[1], min(lo, old[2]))}, 0
    else:
        sent = old[2] - old[1] if old and op in (Op.RECALL, Op.INVALIDATE) else 0
        yield others, sent
