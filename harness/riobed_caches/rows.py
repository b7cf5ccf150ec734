# SPDX-License-Identifier: Apache-2.0
"""Rows: what a study of traces found, one kind of row in one file of a folder."""

from typing import Annotated, ClassVar

from pydantic import BaseModel, Field, model_validator

# 000, 3: a segment has blocks of metadata of 4 KB, and a summary of 512 bytes.
METADATA, SUMMARY = 4096, 512


class Row(BaseModel, extra="forbid", frozen=True, allow_inf_nan=False):
    """One row; `file` is the name of its kind's file. `trace` is the name of the trace's file."""

    file: ClassVar[str]
    trace: str

    @model_validator(mode="after")
    def _counts(self) -> "Row":
        if wrong := next((name for name, value in self if isinstance(value, int) and value < 0), None):
            raise ValueError(f"{wrong} is negative")
        return self


class TraceRow(Row):
    """A trace that was run: `sha256` is that of its events, sizes are bytes, `has` and `blind` are words."""

    file = "traces.parquet"
    sha256: str
    recorder: str
    source: str
    clock: str
    client: str
    block: Annotated[int, Field(gt=0)]
    seconds: float
    events: int
    lost: int
    files: int
    clients: int
    read: int
    written: int
    deletes: int
    fsyncs: int
    has: str
    blind: str


class LifetimeRow(Row):
    """What is sent of the bytes written if each is flushed after `delay` seconds (below 0: never).

    `sent` in bytes; `at_risk` is the mean number of bytes that are not flushed, over time.
    """

    file = "lifetimes.parquet"
    delay: float
    written: int
    sent: int
    at_risk: float


class FateRow(Row):
    """How many bytes ended in which way in a cache that never gives one up."""

    file = "fates.parquet"
    fate: str
    bytes: int


class ConsistencyRow(Row):
    """What a server of shared files counts of opens (004, Tables 4 and 5)."""

    file = "consistency.parquet"
    opens: int
    uncached: int
    read_shared: int
    last_writer: int
    recalls: int
    late_recalls: int
    stopped: int


class CacheRow(Row):
    """A model of caches that the trace was run through; all sizes in bytes, `volatile` and `safe` a client.

    `read` and `written` are what programs moved, `fetched` and `sent` what went between caches and server or
    disk; `sent` has `passed` and `remaining` in it. At risk are dirty bytes in volatile memory, for moments
    drawn evenly over time: mean, median, 95 %, 99 %, worst; with `busy_`, drawn evenly over bytes written.
    `age` in seconds. `promised` had been fsync'd. `lost_in` says what ends the dirty bytes.
    """

    file = "caches.parquet"
    model: str
    volatile: int
    safe: int
    lost_in: str
    read: int
    written: int
    fetched: int
    sent: int
    passed: int
    remaining: int
    replaced: int
    delayed: int
    fsynced: int
    recalled: int
    closed: int
    overwritten: int
    deleted: int
    read_misses: int
    blocks_out: int
    safe_reads: int
    safe_writes: int
    bus: int
    at_risk: float
    at_risk_median: float
    at_risk_95: float
    at_risk_99: float
    at_risk_worst: float
    busy_median: float
    busy_95: float
    files_median: float
    files_95: float
    age_95: float
    promised_95: float

    @property
    def avoided(self) -> float:
        """Return the share of written bytes that was never sent."""
        return 1 - self.sent / self.written if self.written else 0.0


class SizeRow(Row):
    """An LRU cache of `size` bytes a client: blocks missed, and written back (those dirty at the end too)."""

    file = "sizes.parquet"
    size: int
    misses: int
    out: int


class SegmentRow(Row):
    """Segments of a log-structured file system (000, Tables 3, 4), with a write buffer of `buffer` bytes.

    Bytes of `data`, and of `overhead`: metadata and summaries.
    """

    file = "segments.parquet"
    buffer: int
    full: int
    by_timer: int
    by_fsync: int
    data: int
    data_by_timer: int
    data_by_fsync: int
    overhead: int
    overhead_by_timer: int
    overhead_by_fsync: int
