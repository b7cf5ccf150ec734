# SPDX-License-Identifier: Apache-2.0
"""The moments at which a model is asked what a crash would cost."""

from dataclasses import dataclass

import numpy as np

from riobed_caches.compiled import Bools, Int64s
from riobed_caches.stream.ops import Op, Stream

# 99 % of a distribution need some hundred samples; a model looks at all dirty blocks at none of them.
MOMENTS = 1000


@dataclass(frozen=True)
class Moments:
    """Moments in order of time: `time` in µs, and in `at` the operation before which it is.

    One half is drawn evenly over the time of the trace (`even`), the other evenly over the bytes written, so
    that a busy minute has more of them.
    """

    time: Int64s
    at: Int64s
    even: Bools


def moments_of(stream: Stream, number: int = MOMENTS) -> Moments:
    """Return `number` moments of each kind; without a write the second kind is left out."""
    even = (np.arange(number) + 0.5) / number * stream.end
    even_at = np.searchsorted(stream.time, even.astype(np.int64), side="right")
    writes = np.flatnonzero(stream.op == Op.WRITE)
    written = np.cumsum(stream.hi[writes] - stream.lo[writes], dtype=np.int64)
    total = int(written[-1]) if len(written) else 0
    steps = (np.arange(number if total else 0) + 0.5) / number * total
    by_write = writes[np.searchsorted(written, steps, side="left")]
    time = np.concatenate([even.astype(np.int64), stream.time[by_write]])
    at = np.concatenate([even_at, by_write + 1]).astype(np.int64)
    order = np.lexsort((time, at))
    kinds = np.arange(len(time)) < number
    return Moments(time[order], at[order], kinds[order])
