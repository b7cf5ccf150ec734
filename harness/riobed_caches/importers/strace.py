# SPDX-License-Identifier: Apache-2.0
"""Importers/Strace: logs of strace."""

from riobed_caches.errors import TraceError
from riobed_caches.importers.importer import Importer
from riobed_caches.importers.text import lines
from riobed_caches.recording.strace import HAS, parse_strace
from riobed_caches.trace.file import Trace


class Strace(Importer):
    """A log of `strace -f -ttt -y`, with other options or not; strace(1)."""

    name = "strace"
    reads = "log of strace -f -ttt -y"
    has = HAS
    clock = "CLOCK_REALTIME"

    def trace(self, *, keep_names: bool = False) -> Trace:
        """Return the trace of the log. TraceError if it cannot be read, or has no event."""
        trace = parse_strace(lines(self.path), keep_names=keep_names)
        if not len(trace):
            what = f"no event in it; {trace.header.skipped} lines are not of strace"
            raise TraceError(self.path, what, "record it with strace -f -ttt -y")
        return trace
