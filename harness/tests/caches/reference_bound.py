# SPDX-License-Identifier: Apache-2.0
"""What the best of all policies sends, by a flow of the least cost: each block of NVRAM is a unit of flow."""

import numpy as np
from riobed_caches.stream.ops import Op, Stream
from scipy.optimize import linprog
from scipy.sparse import coo_array


def least_sent(stream: Stream, size: int) -> int:
    """Return the fewest bytes that leave NVRAM of `size` blocks, by any choice of what it keeps.

    Each write must be of the whole block (the same range each time), and there is one client. A block that is
    kept from a write to its next modification saves its bytes. There is a node before each write, and one
    at the end. An edge from one to the next is for a slot that keeps nothing; a kept block is an edge from
    behind its write to before its next modification. A write has a slot of its own, so `size - 1` units flow.
    """
    edges, saved, free = _kept(stream)
    written = int((stream.hi - stream.lo)[stream.op == Op.WRITE].sum())
    n = int((stream.op == Op.WRITE).sum())
    if not edges:
        return written - free
    starts = np.array([*range(n), *(first for first, _ in edges)])
    ends = np.array([*range(1, n + 1), *(last for _, last in edges)])
    costs = np.array([0.0] * n + [-float(bytes_) for bytes_ in saved])
    columns = np.arange(len(starts))
    values = np.concatenate([np.ones(len(starts)), -np.ones(len(starts))])
    where = (np.concatenate([starts, ends]), np.concatenate([columns, columns]))
    balance = np.zeros(n + 1)
    balance[0], balance[n] = size - 1, -(size - 1)
    most = [(0, size - 1)] * n + [(0, 1)] * len(edges)
    matrix = coo_array((values, where), shape=(n + 1, len(starts))).tocsr()
    found = linprog(costs, A_eq=matrix, b_eq=balance, bounds=most, method="highs")
    return written - free + round(found.fun)


def _kept(stream: Stream) -> tuple[list[tuple[int, int]], list[int], int]:
    """Return an edge and its bytes for each write that is modified later, and bytes that are saved anyway.

    That are those of a write that no other write follows before its modification: it needs no slot.
    """
    edges, saved, free = [], [], 0
    since: dict[int, tuple[int, int]] = {}
    writes = 0
    for i, (op, b) in enumerate(zip(stream.op.tolist(), stream.block.tolist(), strict=True)):
        if op in (Op.WRITE, Op.DELETE) and b in since:
            first, bytes_ = since.pop(b)
            if first == writes:
                free += bytes_
            else:
                edges.append((first, writes))
                saved.append(bytes_)
        if op == Op.WRITE:
            writes += 1
            since[b] = (writes, int(stream.hi[i] - stream.lo[i]))
    return edges, saved, free
