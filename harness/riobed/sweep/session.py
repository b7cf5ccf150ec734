# SPDX-License-Identifier: Apache-2.0
"""`riobed sweep`: one case after another in one guest, rows into a folder as they come."""

import math
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

from riobed_results.store import utc_now
from riobed_results.tables.controls.sweep import (
    FILE,
    MAX_LINES,
    SAME_SWEEP,
    Sweep,
    SweepProvenance,
    SweepRow,
    load_sweep,
    save_sweep,
    sweep_page,
    verdict,
)
from riobed_results.tables.framework.render import render

from riobed.errors import InfraError, UsageError
from riobed.guest import (
    CacheMode,
    Guest,
    GuestSetup,
    MachineSpec,
    check_mode,
    find_mode,
    guest_setup,
    open_guest,
    provenance,
)
from riobed.sweep.changes import change_plugin
from riobed.sweep.crash import STOP, Found, Share, crash, crash_recovery, whole_recovery
from riobed.sweep.host import need_host
from riobed.sweep.operations import BESIDE, DATA, OPERATIONS, Operation, load_operations
from riobed.sweep.programs import program
from riobed.sweep.recording import Case, Recording, record
from riobed.sweep.recovery import Programs
from riobed.vm import SINGLE_THREADED, reading_qemu
from riobed.vm.host.scratch import memory_dir

# The smallest guest, because memory and disk are copied for each case.
_MEMORY_MIB, _DISK_MIB = 256, 64
# How often another processor is next, at most, for the stores that an operation makes alone.
_SWITCHES = 40


@dataclass(frozen=True)
class Request:
    """What the user asked for; of operations, data and tasks beside, none stands for all.

    The mode is shipped or defined in `file`.
    """

    mode: str
    file: Path | None
    only: tuple[str, ...]
    data: tuple[str, ...]
    beside: tuple[str, ...]
    copy_step: int
    workers: int
    folder: Path
    # Crash what recovers from the operation, not the operation itself.
    recovery: bool = False


def sweep(request: Request, form: str, uri: str | None) -> int:
    """Run what is missing of a sweep, print its table; exit status 0 if all is explained, else 1."""
    operations = load_operations()
    plan = list(cases(operations, request))
    need_host(request.recovery)
    mode = find_mode(request.mode, request.file)
    setup = _setup(request.mode, mode, uri)
    result = _open(request.folder, _environment(request, setup))
    # A process that is forked would keep the guest's channels open.
    with ProcessPoolExecutor(request.workers, get_context("spawn")) as pool:
        for vcpus in (1, 2):
            wanted = [case for case in plan if case.vcpus == vcpus and not _has(result, case, request)]
            if wanted:
                _run(request, mode, _with_vcpus(setup, vcpus), wanted, operations, result, pool)
    page = sweep_page(result)
    sys.stdout.write(render(page, form))
    return 0 if all(row.good for row in result.rows) else 1


def cases(operations: dict[str, Operation], request: Request) -> Iterator[Case]:
    """Yield what was asked for; UsageError if something is not known.

    A second task that works on a file runs beside operations on that file only.
    """
    _check_names("operation", request.only, operations)
    _check_names("data", request.data, DATA)
    _check_names("task beside", request.beside, BESIDE)
    for name in request.only or operations:
        for beside in request.beside or BESIDE:
            needs = BESIDE[beside].file
            for data in request.data or DATA:
                if not needs or f" {needs} " in f"{operations[name].prepare} ":
                    yield Case(name, data, beside)


def _check_names(what: str, names: Iterable[str], known: Iterable[str]) -> None:
    for name in names:
        if name not in known:
            raise UsageError(f"unknown {what} {name!r}; there are: {', '.join(known)}")


def _setup(name: str, mode: CacheMode, uri: str | None) -> GuestSetup:
    if not mode.restores_memory or mode.nvdimm:
        raise UsageError(f"mode {name} keeps no registry of memory: a sweep wants one that does, as rio")
    machine = MachineSpec(memory_mib=_MEMORY_MIB, disk_mib=_DISK_MIB, accelerator="tcg")
    setup = guest_setup(machine, uri)
    check_mode(name, mode, setup)
    # Only one thread shows all stores in their order, and only real time passes while it waits.
    return replace(setup, accelerator=SINGLE_THREADED, qemu=reading_qemu(setup.manifest), snapshots=None)


def _with_vcpus(setup: GuestSetup, vcpus: int) -> GuestSetup:
    return replace(setup, machine=setup.machine.model_copy(update={"vcpus": vcpus}))


def _environment(request: Request, setup: GuestSetup) -> SweepProvenance:
    return SweepProvenance(
        mode=request.mode,
        memory_mib=_MEMORY_MIB,
        disk_mib=_DISK_MIB,
        copy_step=request.copy_step,
        **provenance(setup, "0", [OPERATIONS.parent]).model_dump(),
    )


def _open(folder: Path, now: SweepProvenance) -> Sweep:
    """Return the sweep to go on with, without its infra errors; UsageError if it is one of something else."""
    if not (folder / FILE).exists():
        return Sweep(environment=now)
    old = load_sweep(folder)
    if difference := old.environment.difference(now, SAME_SWEEP):
        raise UsageError(f"{folder}: has a sweep of something else: {difference}; choose another folder")
    return Sweep(environment=old.environment, rows=[row for row in old.rows if not row.infra_error])


def _has(result: Sweep, case: Case, request: Request) -> bool:
    wanted = (case, request.recovery)
    return any(wanted == (Case(row.operation, row.data, row.beside), row.recovery) for row in result.rows)


def _run(
    request: Request,
    mode: CacheMode,
    setup: GuestSetup,
    wanted: list[Case],
    operations: dict[str, Operation],
    result: Sweep,
    pool: Executor,
) -> None:
    names = ("riorecover", "riorecover-steps", "operation")
    programs = Programs(*(program(setup.manifest, name) for name in names))
    plugin = change_plugin(setup.manifest, setup.layout(mode), setup.qemu)
    guest = open_guest(setup, mode, "sweep", plugin=plugin)
    try:
        for case in wanted:
            row = SweepRow(
                operation=case.operation,
                data=case.data,
                beside=case.beside,
                vcpus=setup.machine.vcpus,
                recovery=request.recovery,
            )
            begin = time.monotonic()
            try:
                _take(guest, case, operations[case.operation], programs, request, pool, row)
            except InfraError as error:
                row.infra_error = str(error)
                guest.discard()
            row.seconds, row.finished = round(time.monotonic() - begin, 1), utc_now()
            result.rows.append(row)
            save_sweep(request.folder, result)
            print(f"{case}: {describe(row)}", file=sys.stderr, flush=True)
    finally:
        guest.discard()


def _take(
    guest: Guest,
    case: Case,
    operation: Operation,
    programs: Programs,
    request: Request,
    pool: Executor,
    row: SweepRow,
) -> None:
    """Record a case, crash it at each point, and fill in its row."""
    layout = guest.setup.layout(guest.mode)
    with tempfile.TemporaryDirectory(dir=memory_dir()) as made:
        folder = Path(made)
        recording = _record(guest, case, operation, programs, folder)
        kind = ("recovery",) if request.recovery else ()
        evidence = request.folder / "unexplained" / "-".join((case.operation, case.data, case.beside, *kind))
        # What an earlier run of the case found there is not what this one finds.
        shutil.rmtree(evidence, ignore_errors=True)
        shares = [
            Share(first, request.workers, request.copy_step, evidence) for first in range(request.workers)
        ]
        places = (layout, programs)
        if request.recovery:
            whole = whole_recovery(recording, *places, folder)
            futures = [
                pool.submit(crash_recovery, recording, whole, *places, share, folder) for share in shares
            ]
        else:
            between = {"it": operation.between, "beside": BESIDE[case.beside].between}
            futures = [pool.submit(crash, recording, between, *places, share, folder) for share in shares]
        # None may be at work when the folder is removed, also if this process was told to end.
        try:
            wait(futures)
        except BaseException:
            (folder / STOP).touch()
            wait(futures)
            raise
        found: list[Found] = [future.result() for future in futures]
    stores = sum(change.store for change in recording.changes)
    row.points = found[0].points if request.recovery else stores
    row.compared = sum(each.compared for each in found)
    row.unexplained = sum(len({line.split(":")[0] for line in each.unexplained}) for each in found)
    row.said = sorted(line for each in found for line in each.unexplained)[:MAX_LINES]


def _record(guest: Guest, case: Case, operation: Operation, programs: Programs, folder: Path) -> Recording:
    """Record a case; with a task beside it, first alone, to know how many stores it makes."""
    alone = replace(case, beside="nothing")
    guest.ready()
    first = record(guest, alone, operation, programs.operation, 0, folder)
    if case == alone:
        return first
    guest.ready()
    every = max(math.ceil(first.stores / _SWITCHES), 1)
    return record(guest, case, operation, programs.operation, every, folder)


def describe(row: SweepRow) -> str:
    """One line about a case that ended."""
    told = f"{row.points} crash points, {row.compared} states compared, {row.unexplained} unexplained"
    return f"{row.infra_error or told}, {row.seconds:.0f} s: {verdict([row])}"
