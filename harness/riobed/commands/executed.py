# SPDX-License-Identifier: Apache-2.0
"""`riobed faults executed`: coverage, the kernel functions a workload executes, for a spec's `sites`."""

import re
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from riobed.errors import InfraError, UsageError
from riobed.faults import catalogue_of
from riobed.guest import Guest, WorkloadSpec, check_mode, find_mode, guest_setup, open_guest
from riobed.vm import LogsCode

# A line of QEMU's log item `in_asm`: address, bytes, assembly.
_LINE = re.compile(rb"0x([0-9a-f]{16}):")


@dataclass(frozen=True)
class Request:
    """A workload to run for `seconds` in a mode, which is shipped or defined in `file`."""

    mode: str
    file: Path | None
    workload: Path
    seconds: float
    seed: int


def executed(request: Request, output: Path | None, uri: str | None) -> None:
    """Write the names of the kernel functions that a guest executes in the requested run, one per line.

    The list includes what the guest's own housekeeping executes. It is exact: once a snapshot is restored the
    emulator translates and logs each block of code again. UsageError, EnvironmentFault as in `riobed run`.
    """
    mode = find_mode(request.mode, request.file)
    # Only an emulator can log what it executes.
    machine = mode.default_machine().model_copy(update={"accelerator": "tcg"})
    setup = guest_setup(machine, uri, WorkloadSpec(path=request.workload.resolve()))
    check_mode(request.mode, mode, setup)
    what = f"Running {request.workload.name} in mode {request.mode} for {request.seconds:g} s"
    with Console(stderr=True).status(what):
        catalogue = catalogue_of(setup.products(mode).kernel)
        guest = open_guest(setup, mode, f"executed-{request.mode}")
        try:
            log = _run(guest, request.seconds, request.seed)
            with log.open("rb") as lines:
                names = sorted(catalogue.functions_at(addresses(lines)))
        finally:
            guest.discard()
    text = "".join(f"{name}\n" for name in names)
    if output:
        output.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)


def _run(guest: Guest, seconds: float, seed: int) -> Path:
    if not isinstance(guest.machine, LogsCode):
        raise UsageError("faults executed: the machines of this --connect do not log what they execute")
    guest.ready()
    log = guest.machine.config.folder / "code.log"
    guest.machine.log_code(log)
    guest.ready()
    pid = guest.machine.spawn(guest.command("start", seed=seed))
    time.sleep(seconds)
    ended = guest.machine.status(pid)
    guest.machine.log_code(None)
    if ended is not None and ended.status:
        output = (ended.stdout + ended.stderr).decode("utf-8", "replace").strip()[-200:]
        raise InfraError(f"the workload ended with status {ended.status}: {output}")
    return log


def addresses(lines: Iterable[bytes]) -> Iterator[int]:
    """Yield the address of each instruction in QEMU's log."""
    for line in lines:
        if match := _LINE.match(line):
            yield int(match[1], 16)
