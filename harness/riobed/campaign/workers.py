# SPDX-License-Identifier: Apache-2.0
"""Workers run a campaign's trials: here, threads of this process; cluster.py has those on other hosts."""

import itertools
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from riobed_results.store import utc_now

from riobed.errors import EnvironmentFault, InfraError
from riobed.faults import Fault
from riobed.guest import Guest, GuestSetup, open_guest
from riobed.plan import CampaignSpec, PlannedTrial
from riobed.trial import TrialRecord, run_trial
from riobed.vm import LEAST_ROOM, need_room

# A function that runs a trial and fills in its record.
Run = Callable[[Guest, CampaignSpec, TrialRecord], None]
# A process may hold the guests of several campaigns, so their numbers are unique in the process.
_numbers = itertools.count()
# When QEMU dies, its agent is lost at once, but libvirt notices a little later.
_LIBVIRT_LAG_S = 1.0
# How often close() ends the machines of trials that have not ended yet.
_DISCARD_S = 1.0


class Stopped(EnvironmentFault):
    """close() ended the trial; it has no result."""


@dataclass(frozen=True)
class Attempt:
    """One attempt at a trial: its record, its times in UTC, and why it is an infra error (else "")."""

    record: TrialRecord
    started: str
    finished: str
    error: str


class Workers(Protocol):
    """The contract of workers: they run a campaign's trials."""

    def slots(self) -> int:
        """Return how many trials can run at the same time now; at least 1."""

    def choose(self, waiting: Sequence[PlannedTrial]) -> int:
        """Return which of the trials that wait, in the order of the plan, to submit next."""

    def submit(self, planned: PlannedTrial, faults: list[Fault]) -> Future[Attempt]:
        """Submit a trial."""

    def close(self) -> None:
        """End running trials without a result, and their guests."""


class Guests:
    """Guests of this process for `count` parallel trials of a campaign: `count` guests in each mode."""

    def __init__(self, spec: CampaignSpec, setup: GuestSetup, count: int, run: Run = run_trial) -> None:
        self._spec = spec
        self._setup = setup
        self._run = run
        self._count = count
        self._stopped = threading.Event()
        self._free = [self._one_of_each() for _ in range(count)]
        self._all = [guest for guests in self._free for guest in guests.values()]
        self._freed = threading.Condition()

    def attempt(self, planned: PlannedTrial, faults: list[Fault]) -> Attempt:
        """Run a trial as soon as guests are free; Stopped if close() ended it."""
        with self._freed:
            self._freed.wait_for(lambda: self._free)
            guests = next((each for each in self._free if is_warm(each, planned)), self._free[0])
            self._free.remove(guests)
        try:
            return self._attempt(planned, faults, guests[planned.mode])
        finally:
            with self._freed:
                self._free.append(guests)
                self._freed.notify_all()

    def warm(self, planned: PlannedTrial) -> bool:
        """Whether free guests are where the trial begins, so that it needs no warm-up."""
        with self._freed:
            return not planned.fresh_boot and any(is_warm(guests, planned) for guests in self._free)

    def close(self) -> None:
        """End running trials, and remove all guests with their files."""
        self._stopped.set()
        ended = False
        while not ended:
            # Again and again: a trial that is starting its machine meanwhile goes on with it.
            for guest in self._all:
                guest.discard()
            # A trial whose machine is gone ends at once and gives its guests back.
            with self._freed:
                ended = self._freed.wait_for(lambda: len(self._free) == self._count, _DISCARD_S)
        for guest in self._all:
            shutil.rmtree(guest.machine.config.folder, ignore_errors=True)

    def _one_of_each(self) -> dict[str, Guest]:
        number = next(_numbers)
        modes = self._spec.cache_modes.items()
        return {name: open_guest(self._setup, mode, f"w{number}-{name}") for name, mode in modes}

    def _attempt(self, planned: PlannedTrial, faults: list[Fault], guest: Guest) -> Attempt:
        record = TrialRecord(planned, faults, worker=guest.machine.config.folder.name)
        started, error = utc_now(), ""
        try:
            if not self._stopped.is_set():
                self._run(guest, self._spec, record)
                need_room(guest.machine.config.folder, LEAST_ROOM)
                guest.machine.pause()
        except InfraError as error_met:
            time.sleep(_LIBVIRT_LAG_S)
            failure = guest.machine.failure()
            error = f"{error_met}; {failure}" if failure and failure not in str(error_met) else str(error_met)
            record.verdict = None
        stopped = self._stopped.is_set()
        if error or stopped:
            # The trial may have restarted the guest after close() ended it.
            guest.discard()
        if stopped:
            raise Stopped("campaign stopped; run it again to continue")
        return Attempt(record, started, utc_now(), error)


def is_warm(guests: Mapping[str, Guest], planned: PlannedTrial) -> bool:
    """Whether the trial's guest among these is where the trial begins."""
    return guests[planned.mode].is_warm(planned.round_seed)


def start_of(planned: PlannedTrial) -> tuple[str, str]:
    """Return what trials have in common that share a warm-up."""
    return planned.mode, planned.round_seed


class LocalWorkers:
    """Threads of this process, each with its own guests."""

    def __init__(self, spec: CampaignSpec, setup: GuestSetup, count: int, run: Run = run_trial) -> None:
        self._count = count
        self._guests = Guests(spec, setup, count, run)
        self._pool = ThreadPoolExecutor(count)
        # The starts of the trials that were submitted and have not ended.
        self._used: dict[Future[Attempt], tuple[str, str]] = {}

    def slots(self) -> int:
        """Return the number of threads."""
        return self._count

    def choose(self, waiting: Sequence[PlannedTrial]) -> int:
        """Return one for which free guests are warm, else one whose warm-up no other has, else the first."""
        used = {start for future, start in self._used.items() if not future.done()}
        wishes = (self._guests.warm, lambda planned: start_of(planned) not in used)
        found = (number for wish in wishes for number, planned in enumerate(waiting) if wish(planned))
        return next(found, 0)

    def submit(self, planned: PlannedTrial, faults: list[Fault]) -> Future[Attempt]:
        """Submit a trial to the next free thread."""
        future = self._pool.submit(self._guests.attempt, planned, faults)
        self._used = {each: start for each, start in self._used.items() if not each.done()}
        self._used[future] = start_of(planned)
        return future

    def close(self) -> None:
        """End running trials without a result, and their guests."""
        self._guests.close()
        self._pool.shutdown(wait=True, cancel_futures=True)
