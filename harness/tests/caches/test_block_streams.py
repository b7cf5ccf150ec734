# SPDX-License-Identifier: Apache-2.0
"""From a trace to streams of blocks: lifetimes to the byte, sharing between clients, splitting."""

import random
from collections import Counter

import numpy as np
import pytest
from reference_server import Server, random_trace
from riobed_caches.errors import TraceError
from riobed_caches.stream.clients import Client, client_of
from riobed_caches.stream.consistency import Consistency, actions_of
from riobed_caches.stream.lifetimes import Fate, Lifetimes, lifetimes
from riobed_caches.stream.ops import Actions, Op, Stream
from riobed_caches.stream.split import split
from riobed_caches.trace.builder import Builder
from riobed_caches.trace.events import Event, Flag
from riobed_caches.trace.file import Trace
from riobed_caches.trace.header import Has, Header

HEADER = Header(recorder="test", source="test", clock="none", has=list(Has))


def actions(trace: Trace) -> Actions:
    return actions_of(trace, client_of(trace, Client.HOST))[0]


def test_lifetimes_are_those_of_a_server_byte_by_byte() -> None:
    chance = random.Random(3)
    for _ in range(500):
        trace = random_trace(chance)
        found, expected = lifetimes(actions(trace)), Server(trace).run()
        ends: Counter[tuple[Fate, int]] = Counter()
        for age, size, fate in zip(
            found.age.tolist(), found.bytes.tolist(), found.fate.tolist(), strict=True
        ):
            ends[Fate(fate), age] += size
        assert ends == expected
        written = trace.columns["length"][trace.columns["event"] == Event.WRITE].sum()
        assert sum(found.fates().values()) == found.written == written


def test_bytes_at_risk_grow_by_the_share_that_lives_longer() -> None:
    chance = random.Random(4)
    found = lifetimes(actions(random_trace(chance, 400)))
    dies, cached = found.fate <= Fate.DELETED, found.fate != Fate.CONCURRENT
    for delay in (1, 2, 7, 30):
        young = np.minimum(found.age[cached], delay)
        assert found.at_risk(np.array([delay]))[0] == pytest.approx(
            (found.bytes[cached] * young).sum() / found.length
        )
        older = found.bytes[cached & (found.age > delay)].sum() / found.length
        step = found.at_risk(np.array([delay, delay + 1]))
        assert step[1] - step[0] == pytest.approx(older)
        assert (
            found.sent(np.array([delay]))[0] == found.written - found.bytes[dies & (found.age <= delay)].sum()
        )


def test_figure_2_of_trace_7_from_its_points() -> None:
    """Without write-back the bytes sent fall from 65 to 34 % of 30 s, and those at risk grow 1,256-fold."""
    from riobed_caches.papers.points import figure

    curve = figure(2)["7"]
    # Bytes die evenly between two points; those that never die are there at the end of the day.
    minutes, percent = curve.x, curve.y
    dying = np.linspace(100.0, percent[-1], 100_001)
    ages = np.interp(-dying[1:], -percent, minutes) * 60_000_000
    day, left = 24 * 60 * 60_000_000, percent[-1] / (100 - percent[-1])
    sizes = np.full(len(ages) + 1, 1000, np.int64)
    sizes[-1] = left * 1000 * len(ages)
    fates = np.full(len(sizes), Fate.DELETED, np.int8)
    fates[-1] = Fate.REMAINING
    found = Lifetimes(np.append(ages.astype(np.int64), day), sizes, fates, day)
    delays = np.array([30_000_000, 2**62])
    sent, risk = found.sent(delays) / found.written, found.at_risk(delays)
    assert (100 * sent).round().tolist() == [65.0, 34.0]
    assert risk[1] / risk[0] == pytest.approx(1256, rel=0.01)


def shared(
    *steps: tuple[int, Event, int, Flag],
) -> tuple[list[str], "np.ndarray[tuple[int], np.dtype[np.int64]]"]:
    """Return the actions of clients (seconds, event, client, flags) on one file, and the counts of opens."""
    builder = Builder()
    for seconds, event, client, flags in steps:
        moved = {"offset": 0, "length": 10} if event in (Event.READ, Event.WRITE) else {}
        builder.add(seconds * 1_000_000, event, "file", client=client, handle=client, flags=flags, **moved)
    trace = builder.trace(HEADER)
    found, counts = actions_of(trace, client_of(trace, Client.HOST))
    return [
        f"{Op(op).name} {found.client[pair]}" for op, pair in zip(found.op, found.pair, strict=True)
    ], counts


READ, WRITE, NONE = Flag.FOR_READING, Flag.FOR_WRITING, Flag.NONE


def test_an_open_elsewhere_recalls_what_was_written() -> None:
    steps = [
        (0, Event.OPEN, 0, WRITE), (1, Event.WRITE, 0, NONE), (2, Event.CLOSE, 0, NONE),
        (3, Event.OPEN, 1, READ), (4, Event.READ, 1, NONE), (5, Event.CLOSE, 1, NONE),
        (90, Event.OPEN, 0, WRITE), (91, Event.WRITE, 0, NONE), (92, Event.CLOSE, 0, NONE),
        (130, Event.OPEN, 1, READ),
    ]  # fmt: skip
    found, counts = shared(*steps)
    again = ["WRITE 0", "CLOSE 0", "RECALL 0", "INVALIDATE 1"]
    assert found == ["WRITE 0", "CLOSE 0", "RECALL 0", "INVALIDATE 1", "READ 1", *again]
    assert counts[[Consistency.OPENS, Consistency.RECALLS, Consistency.LATE_RECALLS]].tolist() == [4, 2, 1]


def test_a_file_that_is_write_shared_is_cached_by_none_until_all_closed_it() -> None:
    steps = [
        (0, Event.OPEN, 0, WRITE), (1, Event.WRITE, 0, NONE), (2, Event.OPEN, 1, READ),
        (3, Event.READ, 1, NONE), (4, Event.WRITE, 0, NONE), (5, Event.CLOSE, 0, NONE),
        (6, Event.READ, 1, NONE), (7, Event.CLOSE, 1, NONE), (8, Event.OPEN, 1, READ),
        (9, Event.READ, 1, NONE),
    ]  # fmt: skip
    found, counts = shared(*steps)
    assert [line for line in found if "READ" in line or "WRITE" in line] == [
        "WRITE 0", "PASSED_READ 1", "PASSED_WRITE 0", "PASSED_READ 1", "READ 1",
    ]  # fmt: skip
    assert counts[[Consistency.UNCACHED, Consistency.STOPPED]].tolist() == [1, 1]


def blocks_of(stream: Stream) -> list[tuple[str, int, int, int]]:
    return [
        (Op(op).name, int(block), int(lo), int(hi))
        for op, block, lo, hi in zip(stream.op, stream.block, stream.lo, stream.hi, strict=True)
    ]


def test_actions_are_split_into_blocks() -> None:
    builder = Builder()
    builder.add(0, Event.WRITE, "a", client=0, offset=500, length=600)
    builder.add(1, Event.FSYNC, "a", client=0)
    builder.add(2, Event.FSYNC, "a", client=0)
    builder.add(3, Event.READ, "a", client=1, offset=1024, length=1)
    builder.add(4, Event.WRITE, "a", client=0, offset=500, length=22, flags=Flag.DURABLE)
    builder.add(5, Event.TRUNCATE, "a", client=0, size=700)
    builder.add(6, Event.SYNC, client=0)
    builder.add(7, Event.DELETE, "a", client=0)
    stream = split(actions(builder.trace(HEADER)), 512)
    assert blocks_of(stream) == [
        ("WRITE", 0, 500, 512), ("WRITE", 1, 0, 512), ("WRITE", 2, 0, 76),
        ("FSYNC", 2, 0, 0), ("FSYNC", 1, 0, 0), ("FSYNC", 0, 0, 0),
        ("READ", 3, 0, 1),
        ("WRITE", 0, 500, 512), ("WRITE", 1, 0, 10), ("FSYNC", 0, 0, 0), ("FSYNC", 1, 0, 0),
        ("DELETE", 2, 0, 0), ("CUT", 1, 188, 0), ("DELETE", 3, 0, 0),
        ("FSYNC", 1, 0, 0), ("FSYNC", 0, 0, 0),
        ("DELETE", 1, 0, 0), ("DELETE", 0, 0, 0),
    ]  # fmt: skip
    assert stream.client.tolist() == [0, 0, 0, 1]
    assert stream.span.tolist() == [512, 512, 76, 1]
    assert (stream.read, stream.written) == (1, 622)


def test_what_cannot_be_split_is_refused() -> None:
    builder = Builder()
    builder.add(0, Event.WRITE, "a", offset=0, length=2**62)
    with pytest.raises(TraceError, match="blocks of 4096 bytes"):
        split(actions(builder.trace(HEADER)))
    with pytest.raises(TraceError, match="--block"):
        split(actions(builder.trace(HEADER)), 1000)


def test_a_user_is_no_client_of_a_trace_without_users() -> None:
    trace = Builder().trace(Header(recorder="test", source="here", clock="none", has=[]))
    with pytest.raises(TraceError, match="does not have users"):
        client_of(trace, Client.USER)
