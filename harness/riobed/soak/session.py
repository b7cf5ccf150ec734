# SPDX-License-Identifier: Apache-2.0
"""`riobed soak`: every stressor in turn, one guest, rows into a folder as they come."""

import sys
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError
from riobed_results.store import utc_now
from riobed_results.tables.controls.soak import (
    FILE,
    SAME_SOAK,
    Soak,
    SoakProvenance,
    SoakRow,
    load_soak,
    save_soak,
    soak_page,
    verdict,
)
from riobed_results.tables.framework.render import render

from riobed.errors import InfraError, UsageError, complaint
from riobed.guest import (
    Guest,
    GuestSetup,
    MachineSpec,
    cache_mode,
    guest_setup,
    open_guest,
    provenance,
    workload_image,
)
from riobed.soak.life import go_on, take_turn
from riobed.soak.random_reset import take_random_turn
from riobed.soak.suite import Turn, load_suite, turns


@dataclass(frozen=True)
class Request:
    """What the user asked for."""

    mode: str
    minutes: float
    seed: int
    only: list[str]
    suite: Path
    memory_mib: int
    disk_mib: int
    vcpus: int
    folder: Path

    def machine(self) -> MachineSpec:
        """The guest; UsageError when there is none like that.

        A file system on an NVDIMM has the size that is asked for the disk.
        """
        mode = cache_mode(self.mode)
        nvdimm = self.disk_mib if mode.nvdimm == "filesystem" else mode.default_machine().nvdimm_mib
        try:
            return MachineSpec(
                memory_mib=self.memory_mib, disk_mib=self.disk_mib, nvdimm_mib=nvdimm, vcpus=self.vcpus
            )
        except ValidationError as error:
            raise UsageError(f"guest: {complaint(error, 'machine')}") from None


def soak(request: Request, form: str, uri: str | None) -> int:
    """Run what is missing of a soak, print its table; exit status 0 if all held, else 1."""
    mode = cache_mode(request.mode)
    mode.check_machine(request.machine())
    suite = load_suite(request.suite)
    plan = turns(suite, request.minutes, request.only)
    setup = guest_setup(request.machine(), uri)
    result = open_soak(request.folder, environment(request, setup))
    setup = replace(setup, workload_image=workload_image(request.suite, suite.build, setup.manifest))
    guest = open_guest(setup, mode, "soak")
    try:
        run_turns(guest, plan, request, result)
    finally:
        guest.discard()
    page = soak_page(result)
    (request.folder / "soak.md").write_text(render(page, "md"), encoding="utf-8")
    sys.stdout.write(render(page, form))
    return 0 if all(row.good for row in result.rows) else 1


def environment(request: Request, setup: GuestSetup) -> SoakProvenance:
    """What this soak is run on and with, and what was asked for."""
    # The mode may have a kernel of its own.
    setup = replace(setup, manifest=setup.products(cache_mode(request.mode)))
    return SoakProvenance(
        mode=request.mode,
        minutes=request.minutes,
        suite=request.suite.name,
        memory_mib=request.memory_mib,
        disk_mib=request.disk_mib,
        vcpus=request.vcpus,
        **provenance(setup, str(request.seed), [request.suite]).model_dump(),
    )


def open_soak(folder: Path, now: SoakProvenance) -> Soak:
    """The soak to go on with, without its infra errors, or a new one.

    UsageError when the folder has one of something else.
    """
    if not (folder / FILE).exists():
        return Soak(environment=now)
    old = load_soak(folder)
    if difference := old.environment.difference(now, SAME_SOAK):
        raise UsageError(f"{folder}: has a soak of something else: {difference}; choose another folder")
    return Soak(environment=old.environment, rows=[row for row in old.rows if not row.infra_error])


def run_turns(guest: Guest, plan: list[Turn], request: Request, result: Soak) -> None:
    """Take the turns that have no row yet; each row is saved at once."""
    done = {row.stressor for row in result.rows}
    running = False
    for turn in plan:
        if turn.name in done:
            continue
        row = SoakRow(stressor=turn.name, what=turn.what)
        try:
            if running:
                go_on(guest)
            else:
                guest.boot()
            take = take_random_turn if turn.check else take_turn
            take(guest, turn, request.seed, row)
        except InfraError as error:
            row.infra_error = str(error)
        row.finished = utc_now()
        # What is damaged would damage the next row.
        running = row.good
        result.rows.append(row)
        save_soak(request.folder, result)
        if not row.good:
            keep_console(guest, request.folder, turn.name)
        print(describe(row, turn), file=sys.stderr, flush=True)


def keep_console(guest: Guest, folder: Path, name: str) -> None:
    """The console of a turn that found something."""
    (folder / f"{name}.console").write_bytes(guest.machine.console.text())


def describe(row: SoakRow, turn: Turn) -> str:
    """One line about a turn that ended."""
    compared = f"{row.files} files compared, {row.files_different} different"
    if row.resets is not None:
        compared = f"{row.resets} resets; check: {(row.check_output.splitlines() or ['-'])[0]}"
    what = row.infra_error or compared
    return f"{turn.name:<12} {turn.seconds:5d} s asked, {row.seconds:7.1f} s run: {verdict(row)}; {what}"
