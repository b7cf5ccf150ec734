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
from riobed.faults.sites.instructions import Ranges, to_text
from riobed.faults.sites.vmlinux import Vmlinux
from riobed.guest import (
    Guest,
    WorkloadSpec,
    check_mode,
    find_mode,
    guest_setup,
    open_guest,
)
from riobed.guest.boot import wait_until
from riobed.guest.config import BesideSpec
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
    """Workloads to run together for `seconds` in a mode, which is shipped or defined in `file`."""

    mode: str
    file: Path | None
    workload: Path
    beside: tuple[Path, ...]
    seconds: float
    seed: int


def executed(request: Request, instructions: bool, output: Path | None, uri: str | None) -> None:
    """Write what of the kernel the requested run executes: functions by name, or instructions.

    UsageError, EnvironmentFault as in `riobed run`.
    """
    mode = find_mode(request.mode, request.file)
    # Only an emulator can tell what it executes.
    machine = mode.default_machine().model_copy(update={"accelerator": "tcg"})
    beside = tuple(BesideSpec(path=path.resolve()) for path in request.beside)
    setup = guest_setup(machine, uri, WorkloadSpec(path=request.workload.resolve(), beside=beside))
    check_mode(request.mode, mode, setup)
    names = ", ".join(path.name for path in (request.workload, *request.beside))
    what = f"{names} in mode {request.mode} for {request.seconds:g} s"
    with Console(stderr=True).status(f"Running {what}"):
        kernel = setup.products(mode).kernel
        catalogue = catalogue_of(kernel)
        guest = open_guest(setup, mode, f"executed-{request.mode}", plugin=recorder(setup.manifest, kernel))
        try:
            ranges = _run(guest, request.seconds, request.seed, Vmlinux(kernel.vmlinux).text_start)
        finally:
            guest.discard()
    if instructions:
        text = f"# {what}\n{to_text(kernel.build_id, ranges)}"
    else:
        found = catalogue.functions_at(address for span in ranges for address in range(*span))
        text = "".join(f"{name}\n" for name in sorted(found))
    if output:
        output.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)


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
    pid = guest.machine.spawn([*command, *guest.command("start", seed=seed)])
    time.sleep(_START_S)

    def stepped() -> bool:
        return bool(guest.machine.progress.text())

    if guest.reports_steps and not wait_until(guest.machine, stepped, _FIRST_STEP_S):
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
