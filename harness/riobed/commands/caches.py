# SPDX-License-Identifier: Apache-2.0
"""Caches: shows traces, and runs them through models of caches."""

import io
import sys
from dataclasses import dataclass
from pathlib import Path

from riobed_caches.errors import TraceError
from riobed_caches.stream.clients import Client
from riobed_caches.study.prepare import Options
from riobed_caches.study.run import study
from riobed_caches.trace.file import read_trace
from riobed_caches.trace.show import export_csv, show
from riobed_results.files import write_whole
from riobed_results.report.caches import caches_page
from riobed_results.tables.caches.grids import read_study, size_text
from riobed_results.tables.caches.risk import headlines
from riobed_results.text import printable


@dataclass(frozen=True)
class Request:
    """The traces, the folder for rows, who is a client, the size of a block, and whether loss is no error."""

    traces: list[Path]
    out: Path
    client: str
    block: int
    lossy: bool


def caches(request: Request) -> str:
    """Run the traces, write rows and page, and return what to say of each trace.

    Raises TraceError if a trace or an option is wrong; nothing is written then.
    """
    if request.client not in set(Client):
        raise TraceError("--client", f"{request.client!r} is none of {', '.join(Client)}", "use one of them")
    options = Options(Client(request.client), request.block, request.lossy)
    study(request.traces, request.out, options, lambda line: print(f"riobed: {line}", file=sys.stderr))
    page = request.out / "index.html"
    caches_page(request.out, page)
    lines = headlines(read_study(request.out))
    return "\n".join([*lines, f"All tables: {page}", f"One table: riobed table risk {request.out}", ""])


def shown(path: Path, as_json: bool) -> str:
    """Return what a trace has, lost and does not see. TraceError if it is none."""
    about = show(read_trace(path), path)
    if as_json:
        return about.model_dump_json(indent=2) + "\n"
    events = ", ".join(f"{number} {kind}" for kind, number in about.events.items())
    moved = f"{size_text(about.bytes_read)} read, {size_text(about.bytes_written)} written"
    size = "" if about.bytes_an_event is None else f", {about.bytes_an_event:.1f} bytes an event"
    lines = {
        "recorder": f"{about.recorder}, {about.recorded or 'no date'}",
        "source": about.source,
        "kernel": about.kernel or "unknown",
        "time": f"{about.seconds:.1f} s",
        "events": f"{events}{size}",
        "bytes": moved,
        "files": str(about.files),
        "of": f"{about.clients} clients, {about.users} users, {about.processes} processes",
        "has": ", ".join(about.has),
        "lost": _lost(about.events_lost, about.first_skipped),
        "not seen": "; ".join(about.blind) or "nothing is known to be missing",
    }
    return "".join(f"{name:9} {printable(text)}\n" for name, text in lines.items())


def _lost(number: int, lines: list[int]) -> str:
    first = f" (first lines that were not understood: {', '.join(map(str, lines))})" if lines else ""
    return f"{number} events{first}"


def exported(path: Path, out: Path | None) -> None:
    """Write a trace as CSV to a file or standard output.

    Raises TraceError if it is none, OSError if the file cannot be written.
    """
    trace = read_trace(path)
    if out is None:
        export_csv(trace, sys.stdout)
        return
    text = io.StringIO()
    export_csv(trace, text)
    write_whole(out, text.getvalue().encode())
