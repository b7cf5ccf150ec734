# SPDX-License-Identifier: Apache-2.0
"""Running a campaign: trials of the plan on workers, rows into the store, on and on.

A campaign can be stopped at any time, also by SIGKILL: a trial is in the store when it is
complete, and the next run of the same spec goes on with the positions that are missing.
"""

import os
import platform
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

import yaml
from riobed_results.models import CampaignRow, TrialRow, utc_now
from riobed_results.queries import trial_rows
from riobed_results.recovery import ENDED, cut_short
from riobed_results.store import Store

from riobed.errors import EnvironmentFault, InfraError, UsageError
from riobed.faults import Catalogue, Fault
from riobed.guest import Guest, GuestSetup, machine_config
from riobed.images import run_tool
from riobed.modes import cache_mode
from riobed.plan import PlannedTrial, plan
from riobed.rows import trial_row, write_log
from riobed.scratch import scratch_dir
from riobed.spec import CampaignSpec
from riobed.stored import comparable, spec_data
from riobed.trial import TrialRecord, run_trial
from riobed.vm.connection import connect
from riobed.vm.libvirt import LibvirtMachine

# An infra error is tried again, but not for ever: then the campaign stops and says so.
_MAX_ATTEMPTS = 4


@dataclass
class Settings:
    """Where and how a campaign runs."""

    workers: int = 1
    uri: str | None = None
    logs: Path = Path("logs")


@dataclass
class Cell:
    """What one cell of the table has so far."""

    trials: int = 0
    crashes: int = 0

    def count(self, row: TrialRow) -> None:
        """Take in a trial; a crash in recovery that came too late is run, but not counted."""
        self.trials += 1
        self.crashes += row.outcome == "crash" and cut_short(row.recovery) != ENDED


class Campaign:
    """One run of a campaign, new or resumed."""

    def __init__(
        self, spec: CampaignSpec, setup: GuestSetup, catalogue: Catalogue, store: Store, settings: Settings
    ) -> None:
        self.spec = spec
        self.store = store
        self._setup = setup
        self._catalogue = catalogue
        self._settings = settings
        self._row = self._enter()
        self._complete = store.complete_positions(self._row.id)
        self.cells = {(m, c): Cell() for m in spec.modes for c in spec.fault_classes}
        self._count_what_is_there()
        self._stop = threading.Event()
        self._guests: SimpleQueue[dict[str, Guest]] = SimpleQueue()
        self._all_guests: list[Guest] = []

    def run(self, report: Callable[[TrialRow], None]) -> None:
        """Run what is missing; `report` gets each row as it is stored.

        Raises EnvironmentFault when a trial fails for our own reasons again and again.
        """
        for number in range(self._settings.workers):
            self._guests.put(self._worker_guests(number))
        pool = ThreadPoolExecutor(self._settings.workers)
        pending: dict[Future[TrialRow], PlannedTrial] = {}
        try:
            for planned in plan(self.spec):
                if planned.position in self._complete or self._enough(planned):
                    continue
                if len(pending) == self._settings.workers:
                    self._collect(pending, report)
                # What just ended may have been the last crash this cell needed.
                if self._enough(planned):
                    continue
                faults = draw_faults(self.spec, planned, self._catalogue)
                pending[pool.submit(self._attempts, planned, faults, report)] = planned
            while pending:
                self._collect(pending, report)
        finally:
            self._stop.set()
            # Trials under way end at once: their machines are gone.
            for guest in self._all_guests:
                guest.discard()
            pool.shutdown(wait=True, cancel_futures=True)

    def _enter(self) -> CampaignRow:
        """The campaign's row; UsageError if one of that name asked for something else."""
        text = yaml.safe_dump(spec_data(self.spec), sort_keys=False)
        manifest = self._setup.manifest
        new = CampaignRow(
            name=self.spec.name,
            spec=text,
            seed=str(self.spec.seed),
            kernel_release=manifest.kernel.release,
            kernel_build_id=manifest.kernel.build_id,
            series_commit=manifest.kernel.series_commit,
            qemu_version=run_tool(["qemu-system-x86_64", "--version"], "QEMU").splitlines()[0],
            accelerator=self._setup.accelerator,
            host={
                "cpus": len(os.sched_getaffinity(0)),
                "kernel": platform.release(),
                "machine": platform.machine(),
            },
        )
        names = [row.name for row in self.store.campaigns()]
        if self.spec.name not in names:
            return self.store.add_campaign(new)
        old = self.store.campaign(self.spec.name)
        for what in ("spec", "kernel_build_id", "accelerator", "qemu_version"):
            if what == "spec":
                same = comparable(old.spec) == comparable(text)
            else:
                same = getattr(old, what) == getattr(new, what)
            if not same:
                raise UsageError(
                    f"campaign {self.spec.name!r} is in this store with another {what}; "
                    "give this one another name or another store"
                )
        return old

    def _count_what_is_there(self) -> None:
        for row in trial_rows(self.store, self._row.id, faults=False):
            cell = self.cells.get((row.mode, row.fault_class))
            if cell and row.outcome != "infra_error":
                cell.count(row)

    def _enough(self, planned: PlannedTrial) -> bool:
        return self.cells[planned.mode, planned.fault_class].crashes >= self.spec.crashes_per_cell

    def _collect(
        self, pending: dict[Future[TrialRow], PlannedTrial], report: Callable[[TrialRow], None]
    ) -> None:
        done, _ = wait(pending, return_when=FIRST_COMPLETED)
        for future in done:
            planned = pending.pop(future)
            row = future.result()
            self.cells[planned.mode, planned.fault_class].count(row)
            report(row)

    def _worker_guests(self, number: int) -> dict[str, Guest]:
        guests = {}
        for name in self.spec.modes:
            mode = cache_mode(name)
            config = machine_config(self._setup, mode, scratch_dir() / f"w{number}-{name}")
            guests[name] = Guest(self._setup, mode, LibvirtMachine(connect(self._settings.uri), config))
        self._all_guests += guests.values()
        return guests

    def _attempts(
        self, planned: PlannedTrial, faults: list[Fault], report: Callable[[TrialRow], None]
    ) -> TrialRow:
        """Run a trial until it gives a result; each attempt is a row."""
        guests = self._guests.get()
        try:
            for _ in range(_MAX_ATTEMPTS):
                row = self._attempt(planned, faults, guests[planned.mode])
                if row.outcome != "infra_error":
                    return row
                report(row)
            raise EnvironmentFault(
                f"trial {planned.position} ({planned.mode}, {planned.fault_class}) failed {_MAX_ATTEMPTS} "
                f"times for our own reasons, last: {row.detail}; see {self._settings.logs}"
            )
        finally:
            self._guests.put(guests)

    def _attempt(self, planned: PlannedTrial, faults: list[Fault], guest: Guest) -> TrialRow:
        record = TrialRecord(planned, faults)
        started, error = utc_now(), ""
        try:
            run_trial(guest, self.spec, record)
            guest.machine.pause()
        except InfraError as failure:
            error = str(failure)
            record.verdict = None
        if self._stop.is_set():
            raise EnvironmentFault("campaign stopped; run it again to go on")
        if error:
            guest.discard()
        attempt = self.store.next_attempt(self._row.id, planned.position)
        row = trial_row(record, self._row.id, attempt, started, error)
        row.log = write_log(self._settings.logs, row, record.console)
        return self.store.add_trial(row)


def draw_faults(spec: CampaignSpec, planned: PlannedTrial, catalogue: Catalogue) -> list[Fault]:
    """A trial's faults; not for workers: catalogue and disassembler serve one thread at a time."""
    return spec.fault_class(planned.fault_class).draw(catalogue, planned.fault_rng(), spec.faults)
