# SPDX-License-Identifier: Apache-2.0
"""How long each written byte lives in a cache that never gives one up, and how it ends (000, 2.3)."""

from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from riobed_caches.compiled import Floats, Int8s, Int32s, Int64s, compiled
from riobed_caches.stream.grow import grown
from riobed_caches.stream.ops import Actions, Op

N = TypeVar("N", np.int64, np.float64)


class Fate(IntEnum):
    """How a byte ends: 000, Table 2. CONCURRENT bytes were never cached. REMAINING are there at the end."""

    OVERWRITTEN = 0
    DELETED = 1
    CALLED_BACK = 2
    CONCURRENT = 3
    REMAINING = 4


@dataclass(frozen=True)
class Lifetimes:
    """Runs of bytes that ended together: `age` in µs, `bytes`, `fate`; `length` is the trace's time in µs.

    Exact to the byte: the bytes of all runs are those that were written.
    """

    age: Int64s
    bytes: Int64s
    fate: Int8s
    length: int

    @property
    def written(self) -> int:
        """Return how many bytes were written."""
        return int(self.bytes.sum())

    def fates(self) -> dict[Fate, int]:
        """Return how many bytes ended in which way."""
        return {fate: int(self.bytes[self.fate == fate].sum()) for fate in Fate}

    def sent(self, delays: Int64s) -> Int64s:
        """Return the bytes that leave the cache if each is flushed when it is older than a delay in µs.

        That are the bytes that do not die before (000, Figure 2), for each delay.
        """
        dies = self.fate <= Fate.DELETED
        return self.written - self._sums(delays, np.where(dies, self.bytes, 0))

    def at_risk(self, delays: Int64s) -> Floats:
        """Return the mean number of bytes in the cache, not flushed, over time, for each delay in µs.

        E(d) = (1/T) Σ b·min(l, d) over all runs, so its slope is the share of bytes older than d, by T.
        """
        cached = np.where(self.fate != Fate.CONCURRENT, self.bytes, 0)
        # Bytes times µs do not fit into 64 bits, and a count of bytes must be exact: a delay may be 2**62.
        young = self._sums(delays, cached * self.age.astype(np.float64))
        old = cached.sum() - self._sums(delays, cached)
        mean: Floats = (young + old * delays.astype(np.float64)) / max(self.length, 1)
        return mean

    def _sums(self, delays: Int64s, weights: NDArray[N]) -> NDArray[N]:
        """Return for each delay the sum of the weights of runs that ended at or before it."""
        order = np.argsort(self.age, kind="stable")
        sums = np.concatenate([np.zeros(1, weights.dtype), np.cumsum(weights[order], dtype=weights.dtype)])
        found: NDArray[N] = sums[np.searchsorted(self.age[order], delays, side="right")]
        return found


def lifetimes(actions: Actions) -> Lifetimes:
    """Return the lifetimes of all bytes that were written.

    The ranges of a file that are ever written are cut at each end of a write or truncation, so that a part is
    always whole.
    """
    writes = np.isin(actions.op, (Op.WRITE, Op.SAFE_WRITE, Op.PASSED_WRITE))
    cuts = actions.op == Op.CUT
    file = np.where(np.isin(actions.op, (Op.CUT, Op.DELETE)), actions.pair, 0)
    of_pair = ~np.isin(actions.op, (Op.CUT, Op.DELETE, Op.SYNC))
    file[of_pair] = actions.file[actions.pair[of_pair]]
    ends = [
        (file[writes], actions.start[writes]),
        (file[writes], actions.end[writes]),
        (file[cuts], actions.start[cuts]),
    ]
    files, at = (np.concatenate(column) for column in zip(*ends, strict=True))
    order = np.lexsort((at, files))
    files, at = files[order], at[order]
    fresh = np.ones(len(at), np.bool_)
    fresh[1:] = (np.diff(files) != 0) | (np.diff(at) != 0)
    files, at = files[fresh], at[fresh]
    starts = np.searchsorted(files, np.arange(actions.files + 1)).astype(np.int64)
    found = _run(
        actions.time, actions.op, file.astype(np.int32), actions.start, actions.end, at, starts, actions.last
    )
    return Lifetimes(*found, actions.last)


_WRITE, _DELETE, _CUT, _RECALL = int(Op.WRITE), int(Op.DELETE), int(Op.CUT), int(Op.RECALL)
_SAFE, _PASSED = int(Op.SAFE_WRITE), int(Op.PASSED_WRITE)
_OVERWRITTEN, _DELETED, _CALLED, _CONCURRENT, _REMAINING = (int(fate) for fate in Fate)


@compiled
def _run(
    time: Int64s, op: Int8s, file: Int32s, start: Int64s, end: Int64s, at: Int64s, starts: Int64s, last: int
) -> tuple[Int64s, Int64s, Int8s]:
    """Return age, bytes and fate of each part that ended; `at` has the ends of the parts, by file."""
    age, size, fate = np.empty(1024, np.int64), np.empty(1024, np.int64), np.empty(1024, np.int8)
    n = 0
    born = np.full(at.size, -1, np.int64)
    # Which parts of a file may have bytes.
    low, high = np.full(starts.size, 2**62, np.int64), np.zeros(starts.size, np.int64)
    for i in range(time.size + 1):
        kind = op[i] if i < time.size else _REMAINING + 100
        if kind in (_WRITE, _SAFE, _PASSED):
            f = file[i]
            a = starts[f] + np.searchsorted(at[starts[f] : starts[f + 1]], start[i])
            b = starts[f] + np.searchsorted(at[starts[f] : starts[f + 1]], end[i])
            how = _OVERWRITTEN
            low[f], high[f] = min(low[f], a), max(high[f], b)
        elif kind == _CUT:
            f = file[i]
            a = max(low[f], starts[f] + np.searchsorted(at[starts[f] : starts[f + 1]], start[i]))
            b, how = high[f], _DELETED
            high[f] = min(high[f], a)
        elif kind in (_DELETE, _RECALL):
            f = file[i]
            a, b, how = low[f], high[f], _DELETED if kind == _DELETE else _CALLED
            low[f], high[f] = 2**62, 0
        elif i == time.size:
            a, b, how = 0, at.size, _REMAINING
        else:
            continue
        now = time[i] if i < time.size else last
        begun = n
        for s in range(a, b):
            if kind == _PASSED or born[s] >= 0:
                if n + 1 >= age.size:
                    age, size, fate = grown(age), grown(size), grown(fate)
                if born[s] >= 0 and n > begun and fate[n - 1] == how and age[n - 1] == now - born[s]:
                    # Parts that were born together end together, as one run.
                    size[n - 1] += at[s + 1] - at[s]
                elif born[s] >= 0:
                    age[n], size[n], fate[n] = now - born[s], at[s + 1] - at[s], how
                    n += 1
                if kind == _PASSED:
                    age[n], size[n], fate[n] = 0, at[s + 1] - at[s], _CONCURRENT
                    n += 1
            born[s] = now if kind in (_WRITE, _SAFE) else -1
    return age[:n], size[:n], fate[:n]
