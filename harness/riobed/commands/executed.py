# SPDX-License-Identifier: Apache-2.0
"""`riobed faults executed`: functions of the kernel that a workload executes, for a spec's `sites`."""

import re
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from rich.console import Console

from riobed.errors import InfraError, UsageError
from riobed.faults import catalogue_of
from riobed.guest import Guest, MachineSpec, WorkloadSpec, cache_mode, guest_setup, open_guest
from riobed.vm import LogsCode

# A line of QEMU's log item `in_asm`: address, bytes, assembly.
_LINE = re.compile(rb"0x([0-9a-f]{16}):")


def executed(
    mode: str, workload: Path, seconds: float, seed: int, output: Path | None, uri: str | None
) -> None:
    """Write the names of the functions, one a line, that a guest executes in so many seconds of a workload.

    What the guest's own housekeeping executes is among them. Exact, because the emulator is asked: it
    meets each block of code anew after a snapshot. UsageError, EnvironmentFault as `riobed run`.
    """
    with Console(stderr=True).status(f"Running {workload.name} in mode {mode} for {seconds:g} s"):
        # Only an emulator sees what is executed.
        setup = guest_setup(MachineSpec(accelerator="tcg"), uri, WorkloadSpec(path=workload.resolve()))
        catalogue = catalogue_of(setup.products(cache_mode(mode)).kernel)
        guest = open_guest(setup, cache_mode(mode), f"executed-{mode}")
        try:
            log = _run(guest, seconds, seed)
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
    """The address of each instruction in QEMU's log."""
    for line in lines:
        if match := _LINE.match(line):
            yield int(match[1], 16)
