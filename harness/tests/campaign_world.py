# SPDX-License-Identifier: Apache-2.0
"""A campaign whose store is real and whose guests are not, and what was seen of it."""

import gzip
import random
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from harness_builders import KEY, manifest, spec, survive, text_fault
from riobed.campaign import Campaign, LocalWorkers, workers
from riobed.commands.run import stopping
from riobed.crash.formats import Crash
from riobed.guest import Guest, GuestSetup, MachineSpec, cache_mode
from riobed.guest import setup as setup_module
from riobed.plan.spec import CampaignSpec
from riobed.trial.observe.watch import Observation
from riobed.trial.record import TrialRecord
from riobed.trial.verdict import Verdict
from riobed.vm.fake import FakeMachine
from riobed.vm.machine import MachineConfig
from riobed_results.store import Store, TrialRow, open_store, trial_rows

MODES = ["write-through", "rio"]
CLASSES = ["kernel_text", "delete_branch"]
SPEC = spec(modes=MODES, fault_classes=CLASSES, crashes_per_cell=2, max_trials_per_cell=8, faults=3, seed=15)

Essence = tuple[Any, ...]
Rows = list[Essence]
# What happens in a guest in the trial at some position, before it gives its result.
Before = Callable[[Any, int], object]


class Machine(FakeMachine):
    """CellCounts how it is used; two trials in one guest at once are an error."""

    def __init__(self, config: MachineConfig) -> None:
        super().__init__(config)
        self.mode = cache_mode(config.folder.name.partition("-")[2])
        self.discarded = threading.Event()
        self.discards = 0
        self.busy = threading.Lock()

    def failure(self) -> str:
        return ""

    def destroy(self) -> None:
        self.discards += 1
        self.discarded.set()


def result(guest: Guest, spec: CampaignSpec, record: TrialRecord) -> None:
    """A crash or none, as the trial's seed and mode have it."""
    planned = record.planned
    assert guest.mode == cache_mode(planned.mode)
    rng = random.Random(f"{planned.seed}/{planned.mode}")
    record.console = f"console of {planned.seed} in {planned.mode}".encode()
    if rng.random() < 0.6:
        record.observation = Observation("panic", Crash("oops", "BUG at fs/inode.c"), 1.0, "running")
        record.verdict = Verdict("panic", "oops", "BUG at fs/inode.c", "none")
    else:
        survive(record)


def undisturbed(guest: Guest, position: int) -> None:
    """Nothing happens."""


def failing(error: BaseException, at: Callable[[int], bool], times: int = 1000) -> Before:
    """So many of the trials at some positions fail."""
    left = [error] * times

    def before(guest: Guest, position: int) -> None:
        if at(position) and left:
            raise left.pop()

    return before


class World:
    """A campaign with everything below it replaced, and what was seen of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.folder = folder
        self.before: Before = undisturbed
        self.trial: Callable[[Any, CampaignSpec, TrialRecord], None] = result
        self.started: list[int] = []
        self.drew: set[int] = set()
        self.reported: list[TrialRow] = []
        self.machines: list[Machine] = []
        self.build_id = "0123abcd"
        self.accelerator = "tcg"
        self.qemu = "QEMU emulator version 7.2.0"
        self.image = KEY
        monkeypatch.setattr(setup_module, "qemu_version", lambda *_: self.qemu)
        monkeypatch.setattr(workers, "_LIBVIRT_LAG_S", 0.0)
        monkeypatch.setattr(CampaignSpec, "fault_class", lambda spec, name: SimpleNamespace(draw=self._draw))

    def _machine(self, config: MachineConfig) -> Machine:
        self.machines.append(Machine(config))
        return self.machines[-1]

    def _draw(self, catalogue: object, rng: random.Random, count: int) -> list[Any]:
        self.drew.add(threading.get_ident())
        return [text_fault(index, probe=rng.random() < 0.5) for index in range(count)]

    def run_trial(self, guest: Any, spec: CampaignSpec, record: TrialRecord) -> None:
        assert guest.machine.busy.acquire(blocking=False), "two trials in one guest"
        try:
            self.started.append(record.planned.position)
            # What a trial that fails may leave.
            survive(record)
            record.console = b"half a console"
            self.before(guest, record.planned.position)
            self.trial(guest, spec, record)
        finally:
            guest.machine.busy.release()

    def store(self) -> Store:
        return open_store(str(self.folder / "store.sqlite"), create=True)

    def setup(self) -> GuestSetup:
        products = manifest(self.folder, self.build_id, self.image)
        return GuestSetup(products, MachineSpec(), self.accelerator, driver=self._machine)

    def campaign(self, spec: CampaignSpec = SPEC) -> Campaign:
        catalogues: Any = dict.fromkeys(spec.modes)
        return Campaign(spec, self.setup(), catalogues, self.store(), self.folder / "logs", stopping(spec))

    def workers(self, spec: CampaignSpec = SPEC, count: int = 1) -> LocalWorkers:
        return LocalWorkers(spec, self.setup(), count, self.run_trial)

    def run(self, spec: CampaignSpec = SPEC, workers: int = 1) -> list[TrialRow]:
        """Run or resume; the rows there are then."""
        self.campaign(spec).run(self.workers(spec, workers), self.reported.append)
        return self.rows(spec.name)

    def rows(self, name: str | None = None) -> list[TrialRow]:
        return trial_rows(self.store(), self.store().campaign(name).id)

    def console(self, row: TrialRow) -> str:
        return gzip.decompress((self.folder / str(row.log)).read_bytes()).decode()


def essence(row: TrialRow) -> Essence:
    """What must not depend on how often a campaign was interrupted."""
    faults = tuple((fault.index, fault.address, fault.activated) for fault in row.faults)
    return row.position, row.seed, row.mode, row.fault_class, row.outcome, row.crash_title, faults


def results(rows: list[TrialRow]) -> Rows:
    """In the plan's order, without attempts that failed for our own reasons."""
    return sorted(essence(row) for row in rows if row.outcome != "infra_error")
