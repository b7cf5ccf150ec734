# SPDX-License-Identifier: Apache-2.0
"""A campaign whose store is real and whose guests are not, and what was seen of it."""

import random
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from harness_builders import spec, text_fault
from riobed.campaign import workers
from riobed.campaign.campaign import Campaign
from riobed.campaign.workers import LocalWorkers
from riobed.crash.formats import Crash
from riobed.guest import setup as setup_module
from riobed.guest.config import MachineSpec
from riobed.guest.guest import Guest, GuestSetup
from riobed.guest.modes import cache_mode
from riobed.plan.spec import CampaignSpec
from riobed.products import Manifest
from riobed.trial.record import TrialRecord
from riobed.trial.verdict import Verdict
from riobed.trial.watch import Observation
from riobed.vm.fake import FakeMachine
from riobed.vm.machine import MachineConfig
from riobed_results.store.models import TrialRow
from riobed_results.store.queries import trial_rows
from riobed_results.store.store import Store, open_store

MODES = ["write-through", "rio"]
CLASSES = ["kernel_text", "delete_branch"]
SPEC = spec(modes=MODES, fault_classes=CLASSES, crashes_per_cell=2, max_trials_per_cell=8, faults=3, seed=15)

Trial = Callable[[Any, CampaignSpec, TrialRecord], None]


class Machine(FakeMachine):
    """Counts how it is used; two trials in one guest at once are an error."""

    def __init__(self, config: MachineConfig) -> None:
        super().__init__(config)
        self.mode = cache_mode(config.folder.name.partition("-")[2])
        self.discarded = threading.Event()
        self.discards = 0
        self.busy = threading.Lock()

    def trouble(self) -> str:
        return ""

    def destroy(self) -> None:
        self.discards += 1
        self.discarded.set()


def result(guest: Guest, spec: CampaignSpec, record: TrialRecord) -> None:
    """A crash or a discard, as the trial's seed and mode have it."""
    planned = record.planned
    assert guest.mode == cache_mode(planned.mode)
    rng = random.Random(f"{planned.seed}/{planned.mode}")
    record.console = f"console of {planned.seed} in {planned.mode}".encode()
    if rng.random() < 0.6:
        record.observation = Observation(Crash("oops", "BUG at fs/inode.c"), 1.0, "running")
        record.verdict = Verdict("crash", "oops", "BUG at fs/inode.c", "none")
    else:
        record.observation = Observation(None, 600.0, "running")
        record.verdict = Verdict("discard")


class World:
    """A campaign with everything below it replaced, and what was seen of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.folder = folder
        self.trial: Trial = result
        self.started: list[int] = []
        self.drew: set[int] = set()
        self.reported: list[TrialRow] = []
        self.machines: list[Machine] = []
        self.build_id = "0123abcd"
        self.accelerator = "tcg"
        self.qemu = "QEMU emulator version 7.2.0"
        self.image = "0" * 16
        monkeypatch.setattr(setup_module, "qemu_version", lambda: self.qemu)
        monkeypatch.setattr(workers, "_HEARSAY_S", 0.0)
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
            self.trial(guest, spec, record)
        finally:
            guest.machine.busy.release()

    def store(self) -> Store:
        return open_store(str(self.folder / "store.sqlite"), create=True)

    def setup(self) -> GuestSetup:
        somewhere = self.folder / "product"
        key = "0" * 16
        places = ("bzimage", "vmlinux", "system_map", "tree", "config")
        manifest = Manifest.model_validate(
            {
                "schema": 1,
                "toolchain": {"key": key, "root": somewhere},
                "kernel": {"key": key, "release": "6.12.107", "build_id": self.build_id, "series_commit": key}
                | dict.fromkeys(places, somewhere),
                "image": {"key": self.image, "root": somewhere, "recovery": somewhere},
            }
        )
        return GuestSetup(manifest, MachineSpec(), self.accelerator, driver=self._machine)

    def campaign(self, spec: CampaignSpec = SPEC) -> Campaign:
        catalogues: Any = dict.fromkeys(spec.modes)
        return Campaign(spec, self.setup(), catalogues, self.store(), self.folder / "logs")

    def workers(self, spec: CampaignSpec = SPEC, count: int = 1) -> LocalWorkers:
        return LocalWorkers(spec, self.setup(), count, self.run_trial)

    def run(self, spec: CampaignSpec = SPEC, workers: int = 1) -> list[TrialRow]:
        """Run or resume; the rows there are then."""
        self.campaign(spec).run(self.workers(spec, workers), self.reported.append)
        return self.rows()

    def rows(self) -> list[TrialRow]:
        return trial_rows(self.store(), self.store().campaign().id)


def essence(row: TrialRow) -> tuple[object, ...]:
    """What must not depend on how often a campaign was interrupted."""
    faults = tuple((fault.index, fault.address, fault.activated) for fault in row.faults)
    return row.position, row.seed, row.mode, row.fault_class, row.outcome, row.crash_title, faults
