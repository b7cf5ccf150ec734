# SPDX-License-Identifier: Apache-2.0
"""CLI: parses the command line and calls one function for each command of `riobed`.

A command imports what it needs when it runs.

Tables and lists of trials are computed from stored rows alone, without QEMU or libvirt.
"""

import errno
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from riobed_caches.errors import CachesError
from riobed_results import cli as results_cli
from riobed_results.errors import StoreError
from riobed_results.store import DEFAULT_STORE

from riobed.cli_trace import caches, trace_app
from riobed.errors import BootError, RiobedError
from riobed.products import CHECKOUT
from riobed.signals import clean_up_when_told_to_end

# The panels of --help.
RUN, INSPECT, MEASURE = "Run", "Inspect", "Measure"

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Crash testbed for file caches that must survive operating-system crashes.",
)
guest_app = typer.Typer(no_args_is_help=True, help="Run commands in a guest of a cache mode.")
app.add_typer(guest_app, name="guest", rich_help_panel=INSPECT)
faults_app = typer.Typer(no_args_is_help=True, help="Show what can be injected, and what it would change.")
app.add_typer(faults_app, name="faults", rich_help_panel=INSPECT)

ModesFile = Annotated[
    Path | None, typer.Option("--modes-file", help="File with your own cache modes: docs/own-mode.md.")
]
Uri = Annotated[
    str | None,
    typer.Option(
        "--connect", envvar="RIOBED_LIBVIRT_URI", help="libvirt URI; default: libvirt inside this process."
    ),
]


@contextmanager
def _resumable() -> Iterator[None]:
    """Say how to go on if the user stops the command, and end with the status of SIGINT."""
    try:
        yield
    except KeyboardInterrupt:
        print("riobed: stopped; run the same command to go on", file=sys.stderr)
        raise typer.Exit(130) from None


@app.command(rich_help_panel=RUN)
def run(
    spec: Annotated[Path, typer.Argument(help="Campaign specification, YAML; examples in harness/specs/.")],
    store: Annotated[
        str, typer.Option(help="Where rows go: SQLAlchemy URL, or a folder or file for SQLite.")
    ] = (DEFAULT_STORE),
    workers: Annotated[
        int, typer.Option(min=1, max=64, help="Parallel trials on this host; default: one per processor.")
    ] = len(os.sched_getaffinity(0)),
    logs: Annotated[
        Path | None, typer.Option(help="Folder for console logs; default: beside the store.")
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(help="Run trials on the workers of this Dask scheduler, tcp://HOST:PORT, not here."),
    ] = None,
    connect: Uri = None,
) -> None:
    """Run a campaign, or resume it where it was stopped."""
    from riobed.commands.run import Where, run_campaign

    with _resumable():
        run_campaign(spec, store, logs, Where(workers, connect, scheduler))


@app.command(rich_help_panel=RUN)
def check(
    spec: Annotated[Path, typer.Argument(help="Campaign specification, YAML.")],
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
) -> None:
    """Look for mistakes in a campaign's spec, and say which promise each mode is judged by."""
    from riobed.commands.check import check_spec

    typer.echo(check_spec(spec, as_json, _width()), nl=False)


@app.command(rich_help_panel=RUN)
def calibrate(
    spec: Annotated[Path, typer.Argument(help="Campaign specification, YAML. Its `faults` are replaced.")],
    mode: Annotated[
        str | None, typer.Option(help="Cache mode to run in.", show_default="the spec's first")
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(help="Where rows go; each stage is a campaign.", show_default="campaigns/NAME-dose"),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="File for the spec with doses.", show_default="the spec itself")
    ] = None,
    trials: Annotated[int, typer.Option(min=1, help="Trials of a class in a stage.")] = 16,
    stages: Annotated[int, typer.Option(min=1, help="Largest number of stages.")] = 6,
    most: Annotated[int, typer.Option(min=1, max=100, help="Largest dose.")] = 100,
    from_spec: Annotated[
        bool,
        typer.Option("--from-spec", help="Begin with the doses of the spec, not with 20 faults."),
    ] = False,
    workers: Annotated[
        int, typer.Option(min=1, max=64, help="Parallel trials on this host; default: one per processor.")
    ] = len(os.sched_getaffinity(0)),
    scheduler: Annotated[
        str | None, typer.Option(help="Run trials on the workers of this Dask scheduler, tcp://HOST:PORT.")
    ] = None,
    connect: Uri = None,
) -> None:
    """Find for each fault class the number of faults at which half of the runs crash; write it to the spec.

    All modes get the same faults, so one mode is enough. A stopped calibration resumes where it was stopped.
    """
    from riobed.commands.calibrate import Search
    from riobed.commands.calibrate import calibrate as search_doses
    from riobed.commands.run import Where

    with _resumable():
        search = Search(mode, trials, stages, most, from_spec)
        search_doses(spec, store, Where(workers, connect, scheduler), search, output)


@app.command(rich_help_panel=RUN)
def worker(
    scheduler: Annotated[str, typer.Argument(help="Address of a Dask scheduler: tcp://HOST:PORT.")],
    workers: Annotated[
        int, typer.Option(min=1, max=64, help="Parallel trials; default: one per processor.")
    ] = len(os.sched_getaffinity(0)),
) -> None:
    """Run trials that campaigns on other hosts submit to a scheduler ('riobed run --scheduler')."""
    from riobed.commands.worker import serve

    serve(scheduler, workers)


# Panels stand in the order of their first commands.
results_cli.mount(app)


@app.command(rich_help_panel=INSPECT)
def shell(
    mode: Annotated[str, typer.Argument(help="Cache mode of the guest.")],
    modes_file: ModesFile = None,
    connect: Uri = None,
) -> None:
    """Open a console in a guest of a cache mode; leave it with Ctrl-]."""
    from riobed.commands.shell import shell as open_shell

    open_shell(mode, modes_file, connect)


@app.command(rich_help_panel=MEASURE)
def bench(
    spec: Annotated[
        Path, typer.Argument(help="Bench specification, YAML; harness/specs/table2.yaml is one.")
    ],
    store: Annotated[
        str, typer.Option(help="Where rows go: SQLAlchemy URL, or a folder or file for SQLite.")
    ] = DEFAULT_STORE,
    workload: Annotated[
        list[str] | None,
        typer.Option(help="Make the runs of this workload only; may be repeated.", show_default="all"),
    ] = None,
    connect: Uri = None,
) -> None:
    """Measure what the cache modes of a spec cost, or resume it where it was stopped."""
    from riobed.commands.bench import run_bench

    with _resumable():
        run_bench(spec, workload or [], store, connect)


@app.command(rich_help_panel=MEASURE)
def profile(
    mode: Annotated[str, typer.Argument(help="Cache mode.")] = "rio",
    over: Annotated[str, typer.Option(help="Cache mode to compare it with.")] = "memory",
    modes_file: ModesFile = None,
    workload: Annotated[
        Path, typer.Option(help="Folder of a workload with 'measure'.", show_default="cp_rm")
    ] = CHECKOUT / "workloads/cp_rm",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the workload's stream.")] = 1,
    disk: Annotated[int, typer.Option(min=32, max=16384, help="MiB of the file system under test.")] = 512,
    functions: Annotated[int, typer.Option(min=1, help="Functions in a table for people.")] = 40,
    counts: Annotated[
        Path | None, typer.Option(help="Show the profile in this file, of --format json, and make none.")
    ] = None,
    form: results_cli.FormOption = results_cli.TableFormat.MD,
    connect: Uri = None,
) -> None:
    """Show in which functions of the kernel a cache mode executes more instructions than another one."""
    from riobed.commands.profile import Request, load_profile, profile_text, profiles

    request = Request(mode, over, modes_file, workload, seed, disk)
    found = load_profile(counts) if counts else profiles(request, connect)
    typer.echo(profile_text(found, functions, form.value), nl=False)


@guest_app.command("run", context_settings={"ignore_unknown_options": True})
def guest_run(
    mode: Annotated[str, typer.Argument(help="Cache mode of the guest.")],
    command: Annotated[list[str], typer.Argument(help="Command and arguments, after --.")],
    put: Annotated[
        list[str] | None, typer.Option(help="SRC:DST, a file or folder to copy into the guest; repeatable.")
    ] = None,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds the command may take.")] = 3600,
    modes_file: ModesFile = None,
    connect: Uri = None,
) -> None:
    """Run a command in a guest; pass on its output and exit with its status."""
    from riobed.commands.shell import guest_run as run_in_guest

    raise typer.Exit(run_in_guest(mode, modes_file, command, put or [], timeout, connect))


AsJson = Annotated[bool, typer.Option("--json", help="Machine-readable.")]


@app.command(rich_help_panel=INSPECT)
def modes(
    file: Annotated[Path | None, typer.Option(help="Also list your own modes in this file.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the cache modes with file system, kernel and devices."""
    from riobed.commands.modes import list_modes

    typer.echo(list_modes(file, as_json, _width()), nl=False)


@faults_app.command("list")
def faults_list(as_json: AsJson = False) -> None:
    """List the fault classes with their sites in the kernel (--json: also what is excluded, and why)."""
    from riobed.commands.faults import list_classes

    typer.echo(list_classes(as_json, _width()), nl=False)


@faults_app.command("executed")
def faults_executed(
    modes: Annotated[
        list[str],
        typer.Argument(metavar="MODE...", help="Cache modes; the workload runs in each of them."),
    ],
    modes_file: ModesFile = None,
    workload: Annotated[Path, typer.Option(help="Folder of a workload.", show_default="memtest")] = (
        CHECKOUT / "workloads/memtest"
    ),
    beside: Annotated[
        list[Path] | None, typer.Option(help="Folder of a workload that runs at the same time; repeatable.")
    ] = None,
    seconds: Annotated[float, typer.Option(min=0.1, max=3600, help="How long the workload runs.")] = 20.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the workload's stream.")] = 1,
    instructions: Annotated[
        bool, typer.Option("--instructions", help="List instructions, for `sites: {instructions_file: ...}`.")
    ] = False,
    common: Annotated[
        bool, typer.Option("--common", help="List only what each of the modes executes.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option(help="File to write.", show_default="standard output")
    ] = None,
    connect: Uri = None,
) -> None:
    """List what of the kernel a workload itself executes, for `sites` of a spec.

    That is what its processes execute after the first step, without interrupts, in any of the modes. By
    default functions by name, for `sites: {functions_file: ...}`. With --common, a fault of several modes
    can be executed in each of them.
    """
    from riobed.commands.executed import Request, executed

    request = Request(tuple(modes), modes_file, workload, tuple(beside or ()), seconds, seed, common)
    executed(request, instructions, output, connect)


@faults_app.command("sites")
def faults_sites(
    fault_class: Annotated[str, typer.Argument(metavar="CLASS", help="A name that 'faults list' gives.")],
    seed: Annotated[
        str,
        typer.Option(
            help="A trial's seed like 1/kernel_text/0, or a campaign's seed for its first trial of CLASS."
        ),
    ] = "1",
    count: Annotated[int, typer.Option(help="Number of faults; `faults` of the spec.")] = 20,
    subsystem: Annotated[
        list[str] | None,
        typer.Option(help="Only in this folder or file of the kernel's source, like fs/ext4; repeatable."),
    ] = None,
    function: Annotated[
        list[str] | None, typer.Option(help="Only in functions that match this shell pattern; repeatable.")
    ] = None,
    functions_file: Annotated[
        Path | None, typer.Option(help="Only in the functions that this file names, one per line.")
    ] = None,
    instructions_file: Annotated[
        Path | None,
        typer.Option(help="Only these instructions, as 'faults executed --instructions' lists them."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a class would change: a dry run, without a guest.

    A campaign injects exactly these faults. In every mode, trial N of CLASS (from 0) has the seed
    CAMPAIGN-SEED/CLASS/N, which is also in its row. Count and site filter (`sites` of the spec) must be the
    campaign's. Classes without sites in the kernel's text ignore the filter.
    """
    from riobed.commands.faults import show_sites, site_filter

    chosen = site_filter(subsystem, function, functions_file, instructions_file)
    typer.echo(show_sites(fault_class, seed, count, chosen, as_json, _width()), nl=False)


def _width() -> int:
    """Return the width in columns of a table on standard output."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else results_cli.PIPE_WIDTH


@app.command(rich_help_panel=RUN)
def soak(
    mode: Annotated[str, typer.Option(help="Cache mode of the guest.")] = "rio-protected",
    minutes: Annotated[float, typer.Option(min=0.1, help="Total time of all stressors.")] = 60,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the stressors' random choices.")] = 1,
    only: Annotated[list[str] | None, typer.Option(help="Run only this stressor; repeatable.")] = None,
    suite: Annotated[Path, typer.Option(help="Folder with a suite.yaml.")] = CHECKOUT / "workloads/stress",
    memory: Annotated[
        int | None, typer.Option(help="MiB of RAM.", show_default="512, and 256 more for each further CPU")
    ] = None,
    disk: Annotated[
        int | None,
        typer.Option(
            min=32, max=16384, help="MiB of the file system under test.", show_default="twice the memory"
        ),
    ] = None,
    vcpus: Annotated[int, typer.Option(min=1, max=4, help="Virtual CPUs, and workers of a stressor.")] = 1,
    folder: Annotated[
        Path | None,
        typer.Option(help="Folder for rows; a soak there is resumed.", show_default="campaigns/soak-MODE"),
    ] = None,
    as_json: AsJson = False,
    connect: Uri = None,
) -> None:
    """Stress a guest without faults; reset it after each stressor and compare every file."""
    from riobed.soak import soak as run_soak
    from riobed.soak.session import Request

    place = folder or Path("campaigns") / f"soak-{mode}"
    # With too little memory for its workers, a stressor is killed, which is a complaint of the kernel's.
    ram = memory or 512 + 256 * (vcpus - 1)
    # The file of stressor `eviction` is larger than memory.
    request = Request(mode, minutes, seed, only or [], suite.resolve(), ram, disk or 2 * ram, vcpus, place)
    with _resumable():
        status = run_soak(request, "json" if as_json else "md", connect)
        raise typer.Exit(status)


@app.command(rich_help_panel=RUN)
def sweep(
    mode: Annotated[str, typer.Option(help="Cache mode of the guest.")] = "rio",
    only: Annotated[list[str] | None, typer.Option(help="Sweep only this operation; repeatable.")] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
            help="What disk and memory have of files (workloads/sweep); repeatable.", show_default="all"
        ),
    ] = None,
    beside: Annotated[
        list[str] | None,
        typer.Option(help="What another task does (workloads/sweep); repeatable.", show_default="all"),
    ] = None,
    recovery: Annotated[
        bool, typer.Option("--recovery", help="Crash the recovery after an operation, at each of its writes.")
    ] = False,
    copy_step: Annotated[
        int, typer.Option(min=1, help="Of the stores of a copy, one behind the other, take 1 of so many.")
    ] = 1,
    workers: Annotated[
        int, typer.Option(min=1, max=64, help="Parallel recoveries on this host; default: one per processor.")
    ] = len(os.sched_getaffinity(0)),
    folder: Annotated[
        Path | None,
        typer.Option(help="Folder for rows; a sweep there is resumed.", show_default="campaigns/sweep-MODE"),
    ] = None,
    modes_file: ModesFile = None,
    as_json: AsJson = False,
    connect: Uri = None,
) -> None:
    """Crash operations of the file system at each store to what Rio lists; recover and compare each crash.

    Needs root: what is recovered is mounted on this host. A folder may have both kinds of rows.
    """
    from riobed.sweep import sweep as run_sweep
    from riobed.sweep.session import Request

    request = Request(
        mode,
        modes_file,
        tuple(only or ()),
        tuple(data or ()),
        tuple(beside or ()),
        copy_step,
        workers,
        folder or Path("campaigns") / f"sweep-{mode}",
        recovery,
    )
    with _resumable():
        raise typer.Exit(run_sweep(request, "json" if as_json else "md", connect))


@app.command(rich_help_panel=RUN)
def replay(
    position: Annotated[
        int | None,
        typer.Argument(metavar="[ID]", min=0, help="The trial's position, as 'riobed trials' shows it."),
    ] = None,
    store: results_cli.StoreOption = DEFAULT_STORE,
    campaign: results_cli.CampaignOption = None,
    times: Annotated[int, typer.Option(min=1, max=1000, help="Replays of the trial.")] = 1,
    crashes: Annotated[
        int | None,
        typer.Option(min=1, help="Without ID: replay this many crashes once each, balanced over classes."),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(help="Folder for logs and results.", show_default="replays/NAME-ID beside the store"),
    ] = None,
    propagation: Annotated[
        bool, typer.Option("--propagation", help="Follow the faults to the damaged blocks.")
    ] = False,
    as_json: AsJson = False,
    connect: Uri = None,
) -> None:
    """Run a stored trial again, and say whether it ended the same way. The store is not changed.

    --crashes computes the match rate over many trials; a stopped series resumes where it was stopped.
    """
    from riobed.commands.replay import Request
    from riobed.commands.replay import replay as run_again
    from riobed.commands.replay_many import Many, replay_many
    from riobed.errors import UsageError

    if crashes is not None:
        if position is not None or times > 1 or propagation:
            raise UsageError(
                "replay: --crashes cannot be combined with ID, --times or --propagation; remove them"
            )
        many = Many(crashes, store, campaign, folder)
        text = replay_many(many, "json" if as_json else "md", connect)
    elif position is None:
        raise UsageError("replay: give a trial's ID, or --crashes N")
    else:
        text = run_again(Request(position, store, campaign, folder, propagation, times), as_json, connect)
    typer.echo(text, nl=False)


@app.command(rich_help_panel=INSPECT)
def doctor(
    as_json: AsJson = False,
    connect: Uri = None,
) -> None:
    """Check this host: tools, which accelerator really boots a guest, what is missing, how to fix it."""
    from riobed.commands.doctor import doctor as examine

    raise typer.Exit(examine(as_json, connect))


app.add_typer(trace_app, name="trace", rich_help_panel=MEASURE)
app.command(rich_help_panel=MEASURE)(caches)


def main() -> None:
    """Entry point. An error prints one line; exit status 2 is wrong use, 1 any other error."""
    clean_up_when_told_to_end()
    try:
        app()
    except (RiobedError, StoreError, CachesError) as error:
        if isinstance(error, BootError) and error.console:
            print(error.console, file=sys.stderr)
        print(f"riobed: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            where, do = error.filename or "a disk that is written to", "make room there, run the same again"
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS) and error.filename:
            where, do = error.filename, "choose another place, or see that it can be written to"
        else:
            raise
        print(f"riobed: {where}: {error.strerror}; {do}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
