# SPDX-License-Identifier: Apache-2.0
"""The numbers of a trace, and its table."""

import io
from pathlib import Path

import pytest
from riobed_caches.trace.builder import Builder
from riobed_caches.trace.events import Event, Flag
from riobed_caches.trace.file import Trace
from riobed_caches.trace.header import Has, Header, Loss
from riobed_caches.trace.show import export_csv, show


@pytest.fixture
def trace() -> Trace:
    builder = Builder()
    builder.add(5, Event.OPEN, "f", client=0, process=7, handle=1, size=3, flags=Flag.FOR_WRITING)
    builder.add(6, Event.WRITE, "f", client=0, process=7, handle=1, offset=3, length=10)
    builder.add(2_000_005, Event.READ, "g", client=1, process=8, offset=0, length=4)
    builder.add(7, Event.SYNC, client=1)
    lost = [Loss(time=1, events=2, why="no room")]
    header = Header(recorder="r", source="s", clock="c", has=[Has.TIMES], blind=["b"], lost=lost, skipped=3)
    return builder.trace(header)


def test_numbers_of_a_trace(trace: Trace, tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(bytes(10))
    about = show(trace, path)
    assert about.events == {"open": 1, "read": 1, "write": 1, "sync": 1}
    assert (about.files, about.clients, about.users, about.processes) == (2, 2, 0, 2)
    assert (about.bytes_read, about.bytes_written, about.seconds) == (4, 10, 2.0)
    assert (about.events_lost, about.skipped, about.blind, about.bytes_an_event) == (5, 3, ["b"], 2.5)
    empty = Trace(trace.header, {name: column[:0] for name, column in trace.columns.items()})
    assert (show(empty, path).events, show(empty, path).bytes_an_event) == ({}, None)


def test_table_of_a_trace(trace: Trace) -> None:
    out = io.StringIO()
    export_csv(trace, out)
    assert out.getvalue() == (
        "time,client,user,process,event,file,handle,offset,length,size,flags\n"
        "0,0,,0,open,0,0,,,3,2\n"
        "1,0,,0,write,0,0,3,10,,0\n"
        "2,1,,,sync,,,,,,0\n"
        "2000000,1,,1,read,1,,0,4,,0\n"
    )
