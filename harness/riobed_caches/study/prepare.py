# SPDX-License-Identifier: Apache-2.0
"""A trace, made ready for models."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from riobed_caches.compiled import Int64s
from riobed_caches.errors import TraceError
from riobed_caches.rows import TraceRow
from riobed_caches.stream.clients import Client, client_of
from riobed_caches.stream.consistency import Consistency, actions_of
from riobed_caches.stream.ops import Actions, Op, Stream
from riobed_caches.stream.split import split
from riobed_caches.trace.events import Event
from riobed_caches.trace.file import Trace, read_trace
from riobed_caches.trace.header import Has

# Of the events of a trace, what may be lost before its numbers say something else.
MAX_LOST = 0.001


@dataclass(frozen=True)
class Options:
    """Who has a cache, the size of a block in bytes, and whether a trace may have lost events."""

    client: Client = Client.HOST
    block: int = 4096
    lossy: bool = False


@dataclass(frozen=True)
class Ready:
    """A trace with its actions, its stream of blocks, and what consistency counted."""

    name: str
    trace: Trace
    actions: Actions
    stream: Stream
    consistency: Int64s

    @property
    def has(self) -> frozenset[Has]:
        """Return what the recorder records at all."""
        return frozenset(self.trace.header.has)


def prepare(path: Path, options: Options) -> Ready:
    """Read a trace and split it into blocks. TraceError if it lost more events than MAX_LOST, or is wrong."""
    trace = read_trace(path)
    lost = trace.header.events_lost
    if lost > MAX_LOST * (len(trace) + lost) and not options.lossy:
        raise TraceError(
            path, f"it lost {lost} of {len(trace) + lost} events", "use --lossy to run it all the same"
        )
    if not len(trace):
        raise TraceError(path, "it has no events")
    actions, counts = actions_of(trace, client_of(trace, options.client))
    return Ready(path.stem, trace, actions, split(actions, options.block), counts)


def about(ready: Ready, options: Options) -> TraceRow:
    """Return the row of a trace."""
    header, event = ready.trace.header, ready.trace.columns["event"]
    return TraceRow(
        trace=ready.name,
        sha256=ready.trace.sha256,
        recorder=header.recorder,
        source=header.source,
        clock=header.clock,
        client=options.client.value,
        block=options.block,
        seconds=ready.trace.seconds,
        events=len(ready.trace),
        lost=header.events_lost,
        files=int(ready.trace.columns["file"].max(initial=-1)) + 1,
        clients=ready.stream.clients,
        read=ready.stream.read,
        written=ready.stream.written,
        deletes=int((event == Event.DELETE).sum()),
        fsyncs=int(np.isin(event, (Event.FSYNC, Event.SYNC)).sum()),
        has="; ".join(header.has),
        blind="; ".join(header.blind),
    )


def shared(ready: Ready) -> dict[str, int]:
    """Return what consistency counted, by name."""
    return {count.name.lower(): int(ready.consistency[count]) for count in Consistency}


def server(stream: Stream) -> Stream:
    """Return a stream as one server sees it that gets each write at once: one client, without reads."""
    kept = np.isin(stream.op, (Op.WRITE, Op.DELETE, Op.CUT, Op.FSYNC))
    return Stream(
        time=stream.time[kept],
        op=stream.op[kept],
        block=stream.block[kept],
        lo=stream.lo[kept],
        hi=stream.hi[kept],
        client=np.zeros_like(stream.client),
        file=stream.file,
        span=stream.span,
        clients=1,
        files=stream.files,
        block_size=stream.block_size,
        end=stream.end,
        read=0,
        written=stream.written - stream.passed_written,
        passed_read=0,
        passed_written=0,
    )
