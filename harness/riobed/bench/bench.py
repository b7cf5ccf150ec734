# SPDX-License-Identifier: Apache-2.0
"""Make the runs of a bench; each becomes one row of the store.

A bench can be stopped at any time. Only complete runs are in the store, and the next run of the same spec
makes the rounds that are missing.
"""

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from riobed_results.store import RunRow, Store, utc_now

from riobed.bench.before import Steps
from riobed.bench.pace import Measure, paced
from riobed.bench.plan import PlannedRun, Series, plan_runs
from riobed.bench.run import make_run
from riobed.bench.spec import BenchSpec, Pace, bench_data, comparable
from riobed.bench.writeback import scale_writeback_timers
from riobed.campaign import open_campaign
from riobed.errors import EnvironmentFault, InfraError, UsageError
from riobed.guest import Guest, GuestSetup, Throttle, WorkloadSpec, check_mode, guest_setup, provenance
from riobed.guest.workload.description import load_workload
from riobed.measure import guests, measure, workload_seed
from riobed.plan import generator, vocabulary
from riobed.vm import COUNTED

# Attempts at a run that fails for our own reasons; after the last, this bench goes on without it.
_MAX_ATTEMPTS = 4
# What is not made again. Wrong output is a finding; another attempt would hide it.
_RESULTS = ("measured", "wrong")
# The bench stops after this many infra errors in a row.
_MAX_FAILURES = 8

# A pace that is asked for before the first round.
_BEFORE = -1

# By workload and number of processors; of what says a disk's pace, by the disk and no processor.
Setups = Mapping[tuple[str, int], GuestSetup]
# Makes a run in a guest, with limits of its disks, after what comes before the work; returns columns of its
# row. InfraError if it fails.
Make = Callable[[PlannedRun, Guest, Mapping[str, Throttle], Steps], dict[str, Any]]
# How many times as fast the disk under test is in a round.
Times = Callable[[int], float]


def bench_setups(spec: BenchSpec, uri: str | None) -> dict[tuple[str, int], GuestSetup]:
    """Collect what the guests are made of, and build what is missing.

    UsageError if a workload or a mode does not fit, EnvironmentFault if something is not built or installed.
    """
    wanted = [(name, vcpus, each) for name, each in spec.workloads.items() for vcpus in spec.vcpus]
    wanted += [(disk, 0, pace.workload) for disk, pace in spec.paces.items()]
    for *_, each in wanted:
        if not load_workload(each.path).measure:
            raise UsageError(f"workload {each.path}: has no 'measure', a piece of work of fixed size")
    setups = {
        (name, vcpus): guest_setup(
            spec.machine.model_copy(update={"vcpus": vcpus or 1}),
            uri,
            WorkloadSpec(path=each.path, options=each.options),
            counts_nvdimm=bool(spec.machine.nvdimm_mib and spec.counted_rounds),
        )
        for name, vcpus, each in wanted
    }
    for setup in setups.values():
        for name, mode in spec.cache_modes.items():
            check_mode(name, mode, setup)
            if setup.accelerator == "kvm" and "rio.protect=pks" in mode.kernel_parameters:
                raise UsageError(
                    f"mode {name}: KVM gives guests no protection keys; set machine.accelerator: tcg"
                )
    return setups


class Bench:
    """One run of a bench, new or resumed: all of it, or what it measures with some workloads.

    `make` makes one run, `pace` does a piece of work to see how fast the processor is. UsageError if the
    store has another bench of that name, or a kernel too few places for the probes of a mode.
    """

    def __init__(
        self,
        spec: BenchSpec,
        setups: Setups,
        store: Store,
        workloads: Collection[str] = (),
        make: Make = make_run,
        pace: Measure = measure,
    ) -> None:
        self.spec = spec
        self._setups = setups
        self._make, self._pace = make, pace
        self._store = store
        any_setup = next(iter(setups.values()))
        self._before = {
            name: each.steps(any_setup.products(spec.mode(name)).kernel, generator(spec.seed, "probes", name))
            for name, each in spec.before.items()
        }
        folders = [each.path for each in spec.workloads.values()]
        here = provenance(any_setup, str(spec.seed), folders, spec.cache_modes)
        self._campaign = open_campaign(
            store, spec.name, bench_data(spec), vocabulary(spec.cache_modes), here, comparable
        ).id
        stored = store.runs(self._campaign)
        self._attempts = Counter(row.key for row in stored)
        made = {row.key: row.session for row in stored if row.outcome in _RESULTS}
        self._done = set(made)
        chosen = workloads or spec.workloads
        self._plan = [series for series in plan_runs(spec, made) if series.workload in chosen]
        self._failures = 0
        self._session = utc_now()

    def missing(self) -> list[PlannedRun]:
        """Return the runs that are not measured yet, in order."""
        return [run for series in self._plan for run in self._missing_of(series)]

    def run(self, report: Callable[[RunRow], None]) -> None:
        """Make the missing runs; `report` gets each row as it is stored, also one whose output is wrong.

        Raises EnvironmentFault after too many infra errors in a row, and at the end if runs gave no result.
        """
        for series in self._plan:
            if missing := self._missing_of(series):
                with self._times(series) as times:
                    self._run_series(series, missing, times, report)
        if missing := self.missing():
            raise EnvironmentFault(
                f"bench {self.spec.name!r}: runs that gave no result: {len(missing)}, the first "
                f"{' '.join(map(str, missing[0].key))}; run the same command again to try them again"
            )

    def _run_series(
        self, series: Series, missing: list[PlannedRun], times: Times, report: Callable[[RunRow], None]
    ) -> None:
        # How soon the kernel writes is in the snapshot, and the same in all rounds of this session.
        at_first = times(_BEFORE)
        modes = {name: scale_writeback_timers(self.spec.mode(name), at_first) for name in self.spec.modes}
        with guests(self._setup(series), modes, series.kind, "bench") as opened:
            _boot_all(opened.values())
            for planned in missing:
                self._run(planned, opened[planned.mode], times(planned.round), report)

    @contextmanager
    def _times(self, series: Series) -> Iterator[Times]:
        """Give what says by round how many times as fast the disk of a series is."""
        times = self.spec.times.get(series.disk, 1.0) if series.kind == "time" else 1.0
        if not isinstance(times, Pace):
            yield lambda _: times
            return
        setup = replace(self._setups[series.disk, 0], settled=True)
        seed = workload_seed(self.spec.seed, 0)
        with paced(times.seconds, setup, self.spec.mode(times.mode), seed, self._pace) as of_round:
            yield of_round

    def _missing_of(self, series: Series) -> list[PlannedRun]:
        return [run for run in series.runs if run.key not in self._done]

    def _setup(self, series: Series) -> GuestSetup:
        setup = self._setups[series.workload, series.vcpus]
        machine = self.spec.machine.model_copy(update={"vcpus": series.vcpus})
        accelerator = COUNTED if series.kind == "instructions" else setup.accelerator
        # What `prepare` wrote is not left by the work.
        return replace(setup, machine=machine, accelerator=accelerator, settled=True)

    def _run(self, planned: PlannedRun, guest: Guest, times: float, report: Callable[[RunRow], None]) -> None:
        """Make one run, again if it fails for our own reasons; EnvironmentFault if too many fail in a row."""
        for _ in range(_MAX_ATTEMPTS):
            row = self._store.add_run(self._attempt(planned, guest, times))
            made = row.outcome in _RESULTS
            if made:
                self._done.add(planned.key)
            report(row)
            if made:
                self._failures = 0
                return
            self._failures += 1
            if self._failures >= _MAX_FAILURES:
                raise EnvironmentFault(
                    f"{self._failures} runs in a row failed for our own reasons, last: {row.workload} in "
                    f"{row.mode}: {row.detail}"
                )

    def _attempt(self, planned: PlannedRun, guest: Guest, times: float) -> RunRow:
        self._attempts[planned.key] += 1
        started = utc_now()
        found: dict[str, Any]
        try:
            timed = planned.kind == "time"
            limits = self.spec.limits(planned.mode, planned.disk, times) if timed else {}
            found = self._make(planned, guest, limits, self._before.get(planned.mode, Steps()))
            # One guest runs at a time.
            guest.machine.pause()
        except InfraError as error:
            found = {"outcome": "infra_error", "detail": str(error)}
            guest.discard()
        return RunRow(
            campaign_id=self._campaign,
            workload=planned.workload,
            disk=planned.disk,
            vcpus=planned.vcpus,
            kind=planned.kind,
            mode=planned.mode,
            round=planned.round,
            attempt=self._attempts[planned.key],
            accelerator=guest.setup.accelerator,
            seed=str(planned.seed),
            permanent=guest.mode.permanent,
            session=self._session,
            disk_speedup=times if planned.kind == "time" else None,
            started=started,
            finished=utc_now(),
            **found,
        )


def _boot_all(guests: Iterable[Guest]) -> None:
    """Boot guests before the first round, which would take longer than its pace holds.

    One for each processor of the host boots at a time. Nothing is measured meanwhile.
    """
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(_boot, guests))


def _boot(guest: Guest) -> None:
    try:
        guest.ready()
        guest.machine.pause()
    except InfraError:
        # The first run in it tries again, and says what is wrong.
        guest.discard()
