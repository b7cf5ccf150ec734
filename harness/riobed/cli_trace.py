# SPDX-License-Identifier: Apache-2.0
"""CLI of traces: record one, import one, look at it, and run it through models of caches."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from riobed_results.files import cache_dir

trace_app = typer.Typer(no_args_is_help=True, help="Record what a workload does to files, or import it.")

# numba reads it when a model is imported.
os.environ.setdefault("NUMBA_CACHE_DIR", str(cache_dir() / "numba"))

TraceFile = Annotated[
    Path, typer.Argument(metavar="TRACE", help="File that 'trace record' or 'import' made.")
]
Out = Annotated[Path, typer.Option("--out", help="File to write, .parquet.")]
Names = Annotated[bool, typer.Option("--names", help="Keep the names of files; default: hashes.")]


@trace_app.command("record", context_settings={"ignore_unknown_options": True})
def record(
    command: Annotated[list[str], typer.Argument(help="Command and arguments, after --.")],
    out: Out,
    names: Names = False,
) -> None:
    """Run a command under strace, and keep what it does to files; root is not needed.

    Exits with the status of the command.
    """
    from riobed_caches.recording.record import record as run_recorded

    recorded = run_recorded(command, out, keep_names=names)
    lost = recorded.trace.header.events_lost
    print(f"riobed: {out}: {len(recorded.trace)} events, {lost} lost", file=sys.stderr)
    raise typer.Exit(recorded.status)


@trace_app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="File of another recorder; may be .gz, .bz2 or .xz.")],
    form: Annotated[str, typer.Option("--format", help="A name that 'trace formats' lists.")],
    out: Out,
    names: Names = False,
) -> None:
    """Make a trace of another recorder's file."""
    from riobed_caches.importers.registry import import_trace
    from riobed_caches.trace.file import write_trace

    trace = import_trace(file, form, keep_names=names)
    write_trace(out, trace)
    skipped, first = trace.header.skipped, trace.header.first_skipped
    said = f", {skipped} lines skipped (the first: {', '.join(map(str, first))})" if skipped else ""
    print(f"riobed: {out}: {len(trace)} events{said}", file=sys.stderr)


@trace_app.command("formats")
def formats() -> None:
    """List the formats that can be imported."""
    from riobed_caches.importers.registry import FORMATS

    for name, form in FORMATS.items():
        typer.echo(f"{name:14} {form.reads}")


@trace_app.command("show")
def show(
    trace: TraceFile,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
) -> None:
    """Show what a trace has, what it lost, and what its recorder cannot see."""
    from riobed.commands.caches import shown

    typer.echo(shown(trace, as_json), nl=False)


@trace_app.command("export")
def export(
    trace: TraceFile,
    out: Annotated[Path | None, typer.Option(help="File to write.", show_default="standard output")] = None,
) -> None:
    """Write a trace as CSV, one event a line."""
    from riobed.commands.caches import exported

    exported(trace, out)


@trace_app.command("generate")
def generate(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="sprite: a day of a cluster of 1991.")],
    out: Out,
    like: Annotated[int, typer.Option(min=1, max=8, help="Which of the paper's eight traces.")] = 7,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all random choices.")] = 1,
) -> None:
    """Generate a trace that is fitted to what papers printed of real ones."""
    from riobed_caches.errors import TraceError
    from riobed_caches.generator.generate import generate as make
    from riobed_caches.trace.file import write_trace

    if kind != "sprite":
        raise TraceError(kind, "no generator has this name", "use sprite")
    trace = make(like, seed)
    write_trace(out, trace)
    print(f"riobed: {out}: {len(trace)} events", file=sys.stderr)


def caches(
    traces: Annotated[list[Path], typer.Argument(metavar="TRACE...", help="Traces to run.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for rows and the page index.html.")],
    client: Annotated[
        str, typer.Option(help="Who has a cache of its own in a trace of one host: host, user or process.")
    ] = "host",
    block: Annotated[int, typer.Option(help="Bytes of a block of a cache.")] = 4096,
    lossy: Annotated[bool, typer.Option("--lossy", help="Also traces that lost more than 0.1 %.")] = False,
) -> None:
    """Run traces through models of caches: bytes that a crash costs, against bytes written."""
    from riobed.commands.caches import Request
    from riobed.commands.caches import caches as run_caches

    typer.echo(run_caches(Request(traces, out, client, block, lossy)), nl=False)
