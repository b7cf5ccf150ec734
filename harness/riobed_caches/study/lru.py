# SPDX-License-Identifier: Apache-2.0
"""Rows of LRU caches in volatile memory, and in memory that survives a crash, of many sizes."""

from dataclasses import dataclass

import numpy as np

from riobed_caches.compiled import Bools, Floats, Int64s
from riobed_caches.models.bands import Policy, Run, bands
from riobed_caches.models.count import Count
from riobed_caches.models.moments import Moments
from riobed_caches.rows import CacheRow
from riobed_caches.stream.ops import Op, Stream

# Sprite and Linux write dirty data when it is 30 s old (000, 1; dirty_expire_centisecs).
DELAY = 30_000_000


@dataclass(frozen=True)
class Kind:
    """A kind of LRU cache: its name, when it writes back, what ends its dirty bytes."""

    name: str
    policy: Policy
    lost_in: str
    through: bool = False


KINDS = (
    Kind("write-through", Policy(), "nothing", through=True),
    Kind("on-close", Policy(on_close=True), "crash or power"),
    Kind("delayed", Policy(delay=DELAY), "crash or power"),
    Kind("delayed-files", Policy(delay=DELAY, whole_files=True), "crash or power"),
    Kind("when-full", Policy(), "crash or power"),
    Kind("never", Policy(on_fsync=False), "crash or power"),
    Kind("rio", Policy(on_fsync=False), "power"),
)
_OUT = (Count.REPLACED, Count.DELAYED, Count.FSYNCED, Count.RECALLED, Count.CLOSED)


def lru_rows(trace: str, stream: Stream, sizes: Int64s, moments: Moments) -> list[CacheRow]:
    """Return a row for each kind and size (blocks a client); one pass for all sizes of a policy."""
    runs = {policy: bands(stream, sizes, policy, moments) for policy in {kind.policy for kind in KINDS}}
    risks = {policy: _risks(run, moments) for policy, run in runs.items()}
    return [
        _row(trace, stream, kind, runs[kind.policy], g, risks[kind.policy][g])
        for kind in KINDS
        for g in range(len(sizes))
    ]


def counted(counts: Int64s, stream: Stream) -> dict[str, int]:
    """Return the fields of a row that follow from the counts of a model."""
    of = {count: int(counts[count]) for count in Count}
    return {
        "read": stream.read,
        "written": stream.written,
        "fetched": of[Count.FETCHED] + stream.passed_read,
        "sent": sum(of[cause] for cause in _OUT) + of[Count.REMAINING] + stream.passed_written,
        "passed": stream.passed_written,
        "remaining": of[Count.REMAINING],
        "replaced": of[Count.REPLACED],
        "delayed": of[Count.DELAYED],
        "fsynced": of[Count.FSYNCED],
        "recalled": of[Count.RECALLED],
        "closed": of[Count.CLOSED],
        "overwritten": of[Count.OVERWRITTEN],
        "deleted": of[Count.DELETED],
        "read_misses": of[Count.READ_MISSES],
        "blocks_out": of[Count.BLOCKS_OUT],
        "safe_reads": of[Count.NV_READS],
        "safe_writes": of[Count.NV_WRITES],
        "bus": of[Count.BUS],
    }


_RISKS = ("at_risk", "at_risk_median", "at_risk_95", "at_risk_99", "at_risk_worst", "busy_median")
NO_RISK = dict.fromkeys((*_RISKS, "busy_95", "files_median", "files_95", "age_95", "promised_95"), 0.0)


def _row(trace: str, stream: Stream, kind: Kind, run: Run, g: int, risk: dict[str, float]) -> CacheRow:
    found = counted(run.counts[:, g], stream)
    if kind.through:
        # Each write goes out at once, so the cache has no dirty byte; what it reads is the same.
        out = dict.fromkeys(("remaining", "replaced", "fsynced", "recalled", "overwritten", "deleted"), 0)
        found |= out | {"sent": stream.written, "blocks_out": int(np.count_nonzero(stream.op == Op.WRITE))}
        risk = NO_RISK
    volatile, safe = int(run.sizes[g]) * stream.block_size, 0
    if kind.lost_in == "power":
        volatile, safe = safe, volatile
    return CacheRow(
        trace=trace, model=kind.name, volatile=volatile, safe=safe, lost_in=kind.lost_in, **found, **risk
    )


def _risks(run: Run, moments: Moments) -> list[dict[str, float]]:
    """Return the fields of risk of each size."""
    even, busy = moments.even, ~moments.even
    sizes = len(run.sizes)

    def at(values: Int64s, which: Bools, *shares: float) -> Floats:
        """Return a line of all sizes for each share."""
        chosen: Floats = values[which].astype(np.float64)
        found: Floats = np.quantile(chosen, shares, axis=0) if len(chosen) else np.zeros((len(shares), sizes))
        return found

    median, most, worst = at(run.bytes, even, 0.5, 0.95, 0.99)
    busy_median, busy_most = at(run.bytes, busy, 0.5, 0.95)
    files_median, files_most = at(run.files, even, 0.5, 0.95)
    fields = {
        "at_risk": run.mean,
        "at_risk_median": median,
        "at_risk_95": most,
        "at_risk_99": worst,
        "at_risk_worst": run.worst,
        "busy_median": busy_median,
        "busy_95": busy_most,
        "files_median": files_median,
        "files_95": files_most,
        "age_95": np.maximum(at(run.oldest, even, 0.95)[0], 0.0) / 1e6,
        "promised_95": at(run.promised, even, 0.95)[0],
    }
    return [{name: float(values[g]) for name, values in fields.items()} for g in range(sizes)]
