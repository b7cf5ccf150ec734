# SPDX-License-Identifier: Apache-2.0
"""Run a campaign: workers run the planned trials, and each becomes one row of the store.

A campaign can be stopped at any time, even by SIGKILL. Only complete trials are in the store, and the next
run of the same spec continues with the missing positions.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from pathlib import Path

from riobed_results.rules.attempts import ATTEMPTS, Attempts
from riobed_results.rules.controls import differing
from riobed_results.rules.stops import each_attempt
from riobed_results.store import CampaignRow, Row, Store, TrialRow, is_counted_crash, kernels, read_results

from riobed.campaign.entry import open_campaign
from riobed.campaign.workers import Attempt, Workers
from riobed.errors import EnvironmentFault
from riobed.faults import Catalogue, Fault
from riobed.guest import GuestSetup, provenance
from riobed.plan import CampaignSpec, PlannedTrial, campaign_vocabulary, comparable, plan, spec_data
from riobed.trial import name_callers, trial_row, write_log

# The campaign stops after this many infra errors in a row, or after twice as many as there are workers if
# that is more: one cause may hit all workers at once.
_MAX_FAILURES = 8
# Workers may come and go while trials run.
_LOOK_AGAIN_S = 5.0


@dataclass
class Cell:
    """The counts of one cell of the table so far."""

    trials: int = 0
    crashes: int = 0

    def count(self, row: Row) -> None:
        """Count trials; a crash in recovery whose reset came too late is not a counted crash."""
        self.trials += row.weight
        self.crashes += row.weight * is_counted_crash(row)


@dataclass
class Task:
    """A trial to run, and the number of its infra errors so far: of a fixed size all, else of this run."""

    planned: PlannedTrial
    faults: list[Fault]
    failures: int = 0


class Campaign:
    """One run of a campaign, new or resumed; `catalogues` maps each mode to the fault sites of its kernel.

    `decided` is given the facts of each result in the order of the plan, whatever ended first, and says why
    the campaign is to stop, empty if it is not. `stopped` has what it said.
    """

    def __init__(
        self,
        spec: CampaignSpec,
        setup: GuestSetup,
        catalogues: Mapping[str, Catalogue],
        store: Store,
        logs: Path,
        decided: Callable[[Row], str] | None = None,
    ) -> None:
        self.spec = spec
        self.store = store
        self._setup = setup
        self._catalogues = catalogues
        self._logs = logs
        self._decided = decided
        self._pending: dict[Future[Attempt], Task] = {}
        # Trials that are still to be submitted.
        self._waiting: list[PlannedTrial] = []
        # Results that wait for those before them in the plan.
        self._undecided: dict[int, Row] = {}
        self.stopped = ""
        self._row = self._enter()
        self._complete = store.complete_positions(self._row.id)
        self.cells = {(m, c): Cell() for m in spec.modes for c in spec.classes}
        self._given_up: list[PlannedTrial] = []
        self._failures = 0
        self._attempts = Attempts()
        self._count_what_is_there()

    def run(self, workers: Workers, report: Callable[[TrialRow], None]) -> None:
        """Run the missing trials, then close the workers; `report` gets each row as it is stored.

        Raises EnvironmentFault after too many infra errors in a row, and at the end if trials that are needed
        gave no result.
        """
        try:
            for planned in plan(self.spec):
                self._decide(planned.position)
                if self.stopped or self._complete_cells():
                    break
                if planned.position in self._complete or self._enough(planned) or self._is_lost(planned):
                    continue
                self._waiting.append(planned)
                if len(self._waiting) > self._ahead(workers):
                    self._start(workers, report)
            while self._waiting:
                self._start(workers, report)
            while self._pending:
                # On this call a cluster reports workers that came or left.
                workers.slots()
                self._collect(workers, report)
        finally:
            workers.close()
        self._decide(max(self._undecided, default=0) + 1)
        if missing := self.missing():
            raise EnvironmentFault(
                f"campaign {self.spec.name!r}: trials that gave no result: {len(missing)}, the first "
                f"{missing[0].position}; run the same command again to try them again; see {self._logs}"
            )

    def _ahead(self, workers: Workers) -> int:
        """Return how many trials may wait for others with their warm-up: fewer than a round has."""
        return max(0, len(self.cells) - workers.slots()) if self.spec.run_on_s else 0

    def _start(self, workers: Workers, report: Callable[[TrialRow], None]) -> None:
        """Submit one of the trials that wait when a worker is free, unless it is not needed any more."""
        while len(self._pending) >= workers.slots():
            self._collect(workers, report)
            self._decide(self._waiting[0].position)
        ready = self._ready()
        planned = ready[workers.choose(ready)]
        self._waiting.remove(planned)
        # The trial that just ended may have given the last crash that this cell needs.
        if not (self.stopped or self._enough(planned)):
            faults = draw_faults(self.spec, planned, self._catalogues[planned.mode])
            task = Task(planned, faults, self._failed_before(planned))
            self._pending[workers.submit(task.planned, task.faults)] = task

    def _ready(self) -> list[PlannedTrial]:
        """Return the trials that may come next.

        Those of a cell come one after the other, unless there are more workers than cells: one that came
        early could make the one before needless.
        """
        under_way = {(task.planned.mode, task.planned.fault_class) for task in self._pending.values()}
        first: dict[tuple[str, str], PlannedTrial] = {}
        for planned in self._waiting:
            first.setdefault((planned.mode, planned.fault_class), planned)
        return [planned for cell, planned in first.items() if cell not in under_way] or self._waiting[:1]

    def missing(self) -> list[PlannedTrial]:
        """Return the trials that this run gave up but cells still need; the next run tries them again."""
        return [
            planned
            for planned in self._given_up
            if not (self.stopped or self._enough(planned) or self._is_lost(planned))
        ]

    def _failed_before(self, planned: PlannedTrial) -> int:
        """Return the infra errors of a trial that count, of other runs of the campaign, too.

        Claims of a fixed size are tested once. So a trial must not get more attempts after a look.
        """
        if not self.spec.protocol or not self.spec.protocol.runs:
            return 0
        return self._attempts.failures[planned.mode, planned.fault_class, planned.seed]

    def _is_lost(self, planned: PlannedTrial) -> bool:
        """Whether a trial never gave a result, and gets no more attempts; claims count it against them."""
        return self._failed_before(planned) >= ATTEMPTS

    def _enter(self) -> CampaignRow:
        here = provenance(self._setup, str(self.spec.seed), self.spec.workload.folders, self.spec.cache_modes)
        return open_campaign(
            self.store, self.spec.name, spec_data(self.spec), campaign_vocabulary(self.spec), here, comparable
        )

    def kernels(self) -> dict[str, str]:
        """Return the kernels' build ids by mode; empty if all modes share one kernel."""
        return kernels(self._row)

    def _count_what_is_there(self) -> None:
        found = read_results(self.store, self._row.name)
        for row in found.trials:
            cell = self.cells.get((row.mode, row.fault_class))
            if cell and row.outcome != "infra_error":
                cell.count(row)
            self._refuse(differing(row))
        if self.spec.protocol:
            for self._attempts, row, _ in each_attempt(found):
                self._check_share(row)
        for row, _, position in found.each("position", _has_result) if self._decided else ():
            self._undecided[position] = row

    def _decide(self, next_position: int) -> None:
        """Decide by the results before all that may still come: a quick crash counts in its turn."""
        coming = (*self._waiting, *(task.planned for task in self._pending.values()))
        end = min((planned.position for planned in coming), default=next_position)
        while self._decided and not self.stopped and min(self._undecided, default=end) < end:
            self.stopped = self._decided(self._undecided.pop(min(self._undecided)))

    def _complete_cells(self) -> bool:
        return all(cell.crashes >= self.spec.crashes_wanted(name) for (_, name), cell in self.cells.items())

    def _enough(self, planned: PlannedTrial) -> bool:
        wanted = self.spec.crashes_wanted(planned.fault_class)
        return self.cells[planned.mode, planned.fault_class].crashes >= wanted

    def _collect(self, workers: Workers, report: Callable[[TrialRow], None]) -> None:
        """Wait up to _LOOK_AGAIN_S seconds for trials to end; store their rows and resubmit infra errors."""
        done, _ = wait(self._pending, timeout=_LOOK_AGAIN_S, return_when=FIRST_COMPLETED)
        # Rows first, exceptions last: an exception ends the campaign.
        for future in sorted(done, key=failed):
            task = self._pending.pop(future)
            row = self._add(future.result(), task)
            if row.outcome != "infra_error":
                self._failures = 0
                self.cells[row.mode, row.fault_class].count(row)
                if self._decided:
                    self._undecided[row.position] = row
            report(row)
            self._refuse(differing(row))
            self._attempts.add((row.mode, row.fault_class, row.seed), row.outcome == "infra_error")
            self._check_share(row)
            if row.outcome == "infra_error" and self._again(task, row, workers):
                self._pending[workers.submit(task.planned, task.faults)] = task

    def _refuse(self, differ: str) -> None:
        """EnvironmentFault if a crash was treated in two ways that differ: the faster one is then wrong."""
        if differ:
            raise EnvironmentFault(
                f"campaign {self.spec.name!r}: {differ}, so no row counts; 'riobed trials' has the fields; "
                "take 'parked' or 'host_check' out of the spec and rename it"
            )

    def _check_share(self, row: Row) -> None:
        """EnvironmentFault if more of the row's arm failed than the protocol allows an arm of a claim."""
        protocol = self.spec.protocol
        if row.outcome != "infra_error" or not protocol or row.mode not in protocol.arms:
            return
        if said := self._attempts.too_many(row.mode, protocol.infra_errors):
            raise EnvironmentFault(
                f"campaign {self.spec.name!r}: {said}, so no row counts; 'riobed trials' has them; mend the "
                "cause and rename the campaign"
            )

    def _again(self, task: Task, row: TrialRow, workers: Workers) -> bool:
        """Whether to try a failed trial again; EnvironmentFault after too many failures in a row."""
        task.failures += 1
        self._failures += 1
        if self._failures >= max(_MAX_FAILURES, 2 * workers.slots()):
            raise EnvironmentFault(
                f"{self._failures} trials in a row failed for our own reasons, last: trial {row.position} "
                f"({row.mode}, {row.fault_class}): {row.detail}; see {self._logs}"
            )
        if task.failures == ATTEMPTS:
            self._given_up.append(task.planned)
        return task.failures < ATTEMPTS

    def _add(self, attempt: Attempt, task: Task) -> TrialRow:
        """Store one attempt as a row."""
        number = self.store.next_attempt(self._row.id, task.planned.position)
        row = trial_row(attempt.record, self._row.id, number, attempt.started, attempt.error)
        name_callers(row.faults, lambda address: self._catalogues[row.mode].symbol(address))
        # By the worker's clock, like `started`.
        row.finished = attempt.finished
        row.log = write_log(self._logs, row, attempt.record.log)
        return self.store.add_trial(row)


def _has_result(row: Row) -> bool:
    return row.outcome != "infra_error"


def failed(future: Future[Attempt]) -> bool:
    """Whether a trial ended without a row to store."""
    return future.cancelled() or future.exception() is not None


def draw_faults(spec: CampaignSpec, planned: PlannedTrial, catalogue: Catalogue) -> list[Fault]:
    """Draw a trial's faults. Not thread-safe: catalogue and disassembler serve one thread at a time."""
    name = planned.fault_class
    return spec.fault_class(name).draw(catalogue, planned.fault_rng(), spec.fault_count(name))
