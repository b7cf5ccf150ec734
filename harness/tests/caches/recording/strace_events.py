# SPDX-License-Identifier: Apache-2.0
"""Shows the events of a trace in short."""

from riobed_caches.recording.strace import parse_strace
from riobed_caches.trace.check import check_events
from riobed_caches.trace.events import Event
from riobed_caches.trace.file import Trace


def parsed(log: str) -> Trace:
    trace = parse_strace(log.encode().splitlines(keepends=True), keep_names=True)
    check_events(trace.columns, "the test's log")
    return trace


def shown(trace: Trace, folder: str = "/d/") -> list[str]:
    """Say each event as `kind name process` and what it has of offset+length, and size."""
    said = []
    for i in range(len(trace)):
        name = trace.header.names[trace.file[i]] if trace.file[i] >= 0 else folder
        if name.startswith(folder):
            words = [Event(trace.event[i]).name.lower(), name.removeprefix(folder), f"p{trace.process[i]}"]
            if trace.offset[i] >= 0:
                words.append(f"{trace.offset[i]}+{trace.length[i]}")
            if trace.size[i] >= 0:
                words.append(f"size={trace.size[i]}")
            said.append(" ".join(words))
    return said
