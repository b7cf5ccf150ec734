# SPDX-License-Identifier: Apache-2.0
"""The record of a trial: everything known about it, during and after the run."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from riobed_results.store import CheckReport, Interruption, PromiseKind, RecoveryReport, Restart

from riobed.crash.formats import Complaints
from riobed.faults import Fault
from riobed.guest import CacheUse
from riobed.plan import PlannedTrial
from riobed.trial.control.change import Plant
from riobed.trial.observe.evidence import Evidence
from riobed.trial.observe.progress import Progress, Streams
from riobed.trial.observe.watch import Observation
from riobed.trial.verdict import Verdict
from riobed.vm import CanaryHits, LostLines


@dataclass
class TrialRecord:
    """Everything known about a trial, complete or cut short by an infra error."""

    planned: PlannedTrial
    faults: list[Fault]
    plant: Plant | None = None
    phases: dict[str, float] = field(default_factory=dict)
    # Whether restored memory was compared with the snapshot's.
    restore_checked: bool = False
    progress: Progress | Streams = field(default_factory=lambda: Progress(0))
    # When observation began, by the clock of the trial: all faults are in place.
    begun: float | None = None
    # How long the guest waited for a processor of the host from then on, until the observation ended.
    steal_s: float | None = None
    # What the workload had reported before the trial's own start.
    reported_before: bytes = b""
    evidence: Evidence = field(default_factory=Evidence)
    # Done when the harness saw the faults in place; None without faults.
    steps_at_injection: int | None = None
    # The guest's time of the first line of its crash report.
    crash_guest_s: float | None = None
    # What the kernel reported and outlived; None if its console was not read.
    complaints: Complaints | None = None
    # How it ended to write dirty data at its panic, if the mode does so.
    panic_sync: str = ""
    # The task that ran then.
    victim: str | None = None
    # Whether it was one of the harness; None if it is unknown.
    harness_victim: bool | None = None
    # Which guest ran it, which memory it started from, and which boot that memory comes from.
    worker: str = ""
    snapshot: str = ""
    boot: str = ""
    # The file cache when the snapshot was taken.
    cache: CacheUse | None = None
    observation: Observation | None = None
    # How the machine was restarted; None until then, or if it restarted by itself.
    restart: Restart | None = None
    # After a recovery from a copy: what of it the recovery of the crash itself did not find.
    restart_differs: str | None = None
    # How often recovery was started until it succeeded, or was given up.
    tries: int = 0
    interruption: Interruption | None = None
    recovery: RecoveryReport | None = None
    # By which promise the files were judged; None: they were not.
    promise: PromiseKind | None = None
    # What of it the check found broken; None: there was no check.
    broken: tuple[str, ...] | None = None
    check: CheckReport | None = None
    # What of the NVDIMM's canary differed after the crash; None without one.
    canary: CanaryHits | None = None
    # Of the NVDIMM at a loss of power; None where it is unknown.
    lines: LostLines | None = None
    # Why a crash has neither of the two, in one line.
    unrecovered: str = ""
    # Why the production kernel did not come up after the recovery, in one line.
    not_restarted: str = ""
    verdict: Verdict | None = None
    console: bytes = b""
    # Of the log of what happened to the file cache; none unless the guest keeps one.
    chunks: list[bytes] = field(default_factory=list)
    # Is told the name of each phase that begins.
    entered: Callable[[str], None] | None = None

    @property
    def log(self) -> bytes:
        """What is kept for a reader: the console, and then the last that the workload told."""
        return self.console + self.progress.told.text(self.begun)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measure a phase in seconds of host time; the times of a repeated phase add up."""
        if self.entered:
            self.entered(name)
        start = time.monotonic()
        try:
            yield
        finally:
            self.phases[name] = round(self.phases.get(name, 0.0) + time.monotonic() - start, 3)
