# SPDX-License-Identifier: Apache-2.0
"""`riobed faults executed`: coverage, what of the kernel a workload itself executes, for a spec's `sites`.

The emulator's plugin (harness/emulator/executed.c) records it, and a module in the guest
(injectors/riobed_executed) tells it at each task switch whether the task is one of the workload's.
"""

import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from riobed.errors import InfraError, UsageError
from riobed.faults import catalogue_of
from riobed.faults.sites.instructions import Ranges, overlaps, to_text, union
from riobed.faults.sites.vmlinux import Vmlinux
from riobed.guest import (
    CacheMode,
    Guest,
    GuestSetup,
    WorkloadSpec,
    check_mode,
    find_mode,
    guest_setup,
    open_guest,
)
from riobed.guest.boot import wait_until
from riobed.guest.settings.config import BesideSpec
from riobed.products import KernelPart, Manifest
from riobed.vm import Plugin, compiled

_FILE = "executed"
# The workload's processes are those of a session of its own.
_IN_SESSION = """
/sbin/insmod /lib/riobed/riobed_executed.ko || exit
exec "$@"
"""
# A workload that starts reads its programs and data, which is not its load. Its first step is past that.
_START_S = 2.0
_FIRST_STEP_S = 60.0
# Symbols of the kernel for the arguments of the plugin. The first four are in arch/x86/entry/entry_64.S and
# asm/idtentry.h, the last are system calls.
_PLACES = {
    "irq": r"asm_sysvec_\w+|asm_common_interrupt|asm_spurious_interrupt|asm_exc_nmi",
    "exception": r"asm_exc_(?!nmi)\w+",
    "iret": r"native_irq_return_iret",
    "user": r"swapgs_restore_regs_and_return_to_usermode|entry_SYSRETQ_unsafe_stack",
    "skip": r"__(x64|ia32|ia32_compat)_sys_(execve|execveat|exit|exit_group)|do_exit|do_group_exit",
}


@dataclass(frozen=True)
class Request:
    """Workloads to run together for `seconds` in each of the modes, shipped or defined in `file`.

    `common`: what each of the modes executes, instead of what any of them does.
    """

    modes: tuple[str, ...]
    file: Path | None
    workload: Path
    beside: tuple[Path, ...]
    seconds: float
    seed: int
    common: bool = False


def executed(request: Request, instructions: bool, output: Path | None, uri: str | None) -> None:
    """Write what of the kernels the requested runs execute: functions by name, or instructions.

    UsageError, EnvironmentFault as in `riobed run`.
    """
    found: dict[str, Ranges] = {}
    functions: list[set[str]] = []
    for name, mode, setup in _guests(request, uri):
        kernel = setup.products(mode).kernel
        with Console(stderr=True).status(f"Running {_what(request, name)}"):
            ranges = _recorded(request, name, mode, setup)
        before = found.get(kernel.build_id)
        found[kernel.build_id] = ranges if before is None else joined(before, ranges, request.common)
        if not instructions:
            named = catalogue_of(kernel).functions_at(at for span in ranges for at in range(*span))
            functions.append(set(named))
    if instructions:
        text = f"# {_what(request, (' and ' if request.common else ', ').join(request.modes))}\n"
        text += "".join(to_text(build, ranges) for build, ranges in found.items())
    else:
        names = set.intersection(*functions) if request.common else set.union(*functions)
        text = "".join(f"{name}\n" for name in sorted(names))
    if output:
        output.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)


def joined(left: Ranges, right: Ranges, common: bool) -> Ranges:
    """Return the addresses in both of two ordered lists of ranges if `common`, otherwise those in either."""
    return union(overlaps(left, right)) if common else union([*left, *right])


def _what(request: Request, modes: str) -> str:
    names = ", ".join(path.name for path in (request.workload, *request.beside))
    return f"{names} in {modes} for {request.seconds:g} s"


def _guests(request: Request, uri: str | None) -> list[tuple[str, CacheMode, GuestSetup]]:
    """Return each mode with its set-up; UsageError if one of them cannot run the workload."""
    beside = tuple(BesideSpec(path=path.resolve()) for path in request.beside)
    workload = WorkloadSpec(path=request.workload.resolve(), beside=beside)
    found = []
    for name in request.modes:
        mode = find_mode(name, request.file)
        # Only an emulator can tell what it executes.
        machine = mode.default_machine().model_copy(update={"accelerator": "tcg"})
        setup = guest_setup(machine, uri, workload)
        check_mode(name, mode, setup)
        found.append((name, mode, setup))
    return found


def _recorded(request: Request, name: str, mode: CacheMode, setup: GuestSetup) -> Ranges:
    kernel = setup.products(mode).kernel
    guest = open_guest(setup, mode, f"executed-{name}", plugin=recorder(setup.manifest, kernel))
    try:
        return _run(guest, request.seconds, request.seed, Vmlinux(kernel.vmlinux).text_start)
    finally:
        guest.discard()


def recorder(manifest: Manifest, kernel: KernelPart) -> Plugin:
    """Return the plugin for guests of a kernel; UsageError if it lacks a place that the plugin must know."""
    vmlinux = Vmlinux(kernel.vmlinux)
    arguments = [f"text={vmlinux.text_start:x}:{vmlinux.text_end:x}"]
    for name, pattern in _PLACES.items():
        addresses = vmlinux.addresses_named(pattern)
        if not addresses:
            raise UsageError(f"kernel build {kernel.build_id[:12]} has none of {pattern}; use a Linux 6.12")
        arguments.append(f"{name}={':'.join(f'{address:x}' for address in addresses)}")
    return Plugin(compiled(manifest, "executed"), _FILE, tuple(arguments))


def _run(guest: Guest, seconds: float, seed: int, text_start: int) -> Ranges:
    guest.ready()
    command = ["/usr/bin/setsid", "--wait", "/bin/sh", "-c", _IN_SESSION, "workload"]
    pid = guest.machine.spawn([*command, *guest.workload.command("start", seed=seed)])
    time.sleep(_START_S)

    def stepped() -> bool:
        return bool(guest.machine.progress.text())

    if guest.workload.reports_steps and not wait_until(guest.machine, stepped, _FIRST_STEP_S):
        raise InfraError("the workload made no step")
    record = guest.machine.config.folder / _FILE
    with record.open("r+b") as file:
        file.write(bytes(record.stat().st_size))
    time.sleep(seconds)
    data = record.read_bytes()
    ended = guest.machine.status(pid)
    if ended is not None and ended.status:
        output = (ended.stdout + ended.stderr).decode("utf-8", "replace").strip()[-200:]
        raise InfraError(f"the workload ended with status {ended.status}: {output}")
    return ranges_in(data, text_start)


def ranges_in(record: bytes, start: int) -> Ranges:
    """Return the ranges of addresses whose bytes in a record that begins at `start` are not 0."""
    return [(start + run.start(), start + run.end()) for run in re.finditer(rb"[^\0]+", record)]
