# SPDX-License-Identifier: Apache-2.0
"""`riobed run`: run a campaign and show its progress on the terminal."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.table import Table
from riobed_results.report.live import FreshReport
from riobed_results.rules.controls import failed_controls, must_lose
from riobed_results.store import (
    CONTROLS,
    OTHERS,
    REPORT_FILE,
    Row,
    TrialRow,
    Vocabulary,
    crashed,
    locate,
    locked,
    open_store,
    try_store,
)
from riobed_results.tables.corruption.comparison import kernel_note
from riobed_results.tables.corruption.protocol import Monitor

from riobed.campaign import Campaign, Cell, LocalWorkers, Workers, fixed_by_tag
from riobed.commands.trial_line import columns, ending, fitted, named
from riobed.errors import UsageError
from riobed.faults import Catalogue, catalogue_of, check_classes
from riobed.guest import GuestSetup, check_mode, guest_setup
from riobed.plan import CampaignSpec, campaign_vocabulary, load_spec
from riobed.trial import PLANTED
from riobed.vm import REPEATABLE


@dataclass(frozen=True)
class Where:
    """Where trials run: `count` in parallel on this host, or on the workers of a Dask `scheduler`."""

    count: int
    uri: str | None = None
    scheduler: str | None = None


def run_campaign(spec_path: Path, store: str, logs: Path | None, where: Where) -> None:
    """Run or resume the campaign in a spec file; rows go to `store`, console logs to `logs`."""
    run_spec(fixed_by_tag(load_spec(spec_path), spec_path), store, logs, where)


def run_spec(spec: CampaignSpec, store: str, logs: Path | None, where: Where) -> None:
    """Run or resume a campaign; rows go to `store`, console logs to `logs`, by default beside the store."""
    try_store(store)
    console = Console()
    with console.status("Looking for built products, trying accelerators (up to a minute the first time)"):
        setup = guest_setup(spec.machine, where.uri, spec.workload, spec.parked is not None, spec.loses_lines)
    # This builds the kernels that are missing.
    for mode in spec.modes:
        check_mode(mode, spec.mode(mode), setup)
    setup = replayable(setup, store)
    can_plant = bool(setup.workload and setup.workload.stop)
    # Where only some bytes count, a spec has to choose the kinds that change these.
    spec = spec.with_controls(can_plant and not (setup.workload and setup.workload.places))
    if PLANTED in spec.classes and not can_plant:
        raise UsageError(
            f"spec: fault class {PLANTED}: the workload has no stop command; give it one in workload.yaml"
        )
    if spec.host_check and not (setup.workload and setup.workload.contents):
        raise UsageError(
            "spec: host_check: the workload has no contents command; give it one, or leave host_check out"
        )
    with console.status("Reading fault sites of each kernel (about a minute the first time)"):
        catalogues = read_catalogues(spec, setup)
    logs = (logs or beside(store, "logs")).absolute()
    if logs.name == "..":
        logs = logs.resolve()
    opened = open_store(store, create=True)
    with locked(store, spec.name):
        campaign = Campaign(spec, setup, catalogues, opened, logs, stopping(spec))
        if note := kernel_note(campaign.kernels()):
            console.print(note, highlight=False, markup=False)
        workers = make_workers(spec, setup, where, console)
        # The log's path in a row starts with the name of the folder of logs.
        fresh = FreshReport(store, spec.name, logs.parent, locate(store).folder / REPORT_FILE)
        console.print(f"Report, updated while the campaign runs: {fresh.output}", highlight=False)
        try:
            with fresh:
                view = ProgressView(spec, campaign, setup.accelerator)
                show(campaign, workers, view, console, opened.campaign(spec.name).vocabulary)
        finally:
            if fresh.error:
                console.print(f"No report: {fresh.error}", highlight=False, markup=False)
    end = f"stopped by its protocol: {campaign.stopped}" if campaign.stopped else "complete"
    console.print(f"Campaign {spec.name!r} is {end}. Console logs: {logs}", highlight=False, markup=False)


def stopping(spec: CampaignSpec) -> Callable[[Row], str] | None:
    """Return what says after each row why the campaign is to stop; None if the spec has no protocol."""
    if not spec.protocol:
        return None
    return Monitor(spec.protocol, spec.fault_classes, campaign_vocabulary(spec)).add


def read_catalogues(spec: CampaignSpec, setup: GuestSetup) -> dict[str, Catalogue]:
    """Map each mode to its kernel's fault sites; UsageError if a class of the spec has too few of them."""
    kernels = {mode: setup.products(spec.mode(mode)).kernel for mode in spec.modes}
    by_build = {kernel.build_id: catalogue_of(kernel).filtered(spec.sites) for kernel in kernels.values()}
    for catalogue in by_build.values():
        for name in spec.classes:
            check_classes(catalogue, [spec.fault_class(name)], spec.fault_count(name))
    return {mode: by_build[kernel.build_id] for mode, kernel in kernels.items()}


def make_workers(spec: CampaignSpec, setup: GuestSetup, where: Where, console: Console) -> Workers:
    """Make the workers that run the trials: threads of this process, or those of a cluster."""
    if not where.scheduler:
        return LocalWorkers(spec, setup, where.count)
    # Dask takes half a second to import.
    from riobed.campaign.cluster import ClusterWorkers

    def say(text: str) -> None:
        console.print(text, highlight=False, markup=False)

    with console.status("Looking for workers that are set up like this host"):
        return ClusterWorkers(where.scheduler, spec, setup, say)


def show(
    campaign: Campaign,
    workers: Workers,
    progress: "ProgressView",
    console: Console,
    vocabulary: Vocabulary,
) -> None:
    """Run the campaign with a line per trial and the progress below; `vocabulary` is its own."""
    with Live(progress, console=console, refresh_per_second=2) as live:

        def report(row: TrialRow) -> None:
            progress.count(row)
            line = describe(row, columns(console.file), vocabulary)
            live.console.print(line, highlight=False, markup=False, soft_wrap=True)

        campaign.run(workers, report)
    if not console.is_terminal:
        # Without a terminal, Live does not end its last line.
        console.line()


def replayable(setup: GuestSetup, store: str) -> GuestSetup:
    """Return the guests of a store's campaign: deterministic ones start from the snapshots beside it.

    A replay repeats a deterministic trial only from the very snapshot that the trial started from.
    """
    deterministic = setup.accelerator == REPEATABLE
    return replace(setup, snapshots=beside(store, "snapshots")) if deterministic else setup


def beside(store: str, name: str) -> Path:
    """Return the folder `name` for files about trials: beside an SQLite store, else in the current folder."""
    return locate(store).folder / name


def describe(row: TrialRow, width: int, vocabulary: Vocabulary) -> str:
    """Describe a trial that ended, in one line of at most `width` columns."""
    if row.outcome == "infra_error":
        return fitted(f"{named(row)} infra error, attempt {row.attempt}: {row.detail}", width)
    found = f"  lost {row.steps_lost} steps" if row.lost_steps else ""
    found = found if row.corruption in (None, "none") else "  CORRUPTION"
    if row.recovery and row.recovery.production is False:
        return fitted(f"{named(row)} {ending(row)}", width, "  NO PRODUCTION KERNEL")
    if control_failed(row, vocabulary):
        found = "  CONTROL FAILED"
    elif row.corruption not in (None, "none") and row.fault_class in CONTROLS:
        found = f"  {row.corruption} (expected)"
    return fitted(f"{named(row)} {ending(row)}", width, found)


def control_failed(row: TrialRow, vocabulary: Vocabulary) -> bool:
    """Whether this is a failed trial of a control.

    In a mode that may lose data, a single reset that happens to lose nothing is no failure.
    """
    lucky = must_lose(row, vocabulary) and row.corruption == "none" and row.crash_kind == "reset"
    return bool(failed_controls([row], vocabulary)) and not lucky


class ProgressView:
    """The progress display: counts per cell and outcome, rate and time left."""

    def __init__(self, spec: CampaignSpec, campaign: Campaign, accelerator: str) -> None:
        self._spec = spec
        self._campaign = campaign
        self._accelerator = accelerator
        self._start = time.monotonic()
        self._lock = threading.Lock()
        # Rows of this session by outcome, those of them with corruption, and trials of controls.
        self.outcomes: Counter[str] = Counter()
        self.corrupted: Counter[str] = Counter()
        self.controls = 0

    def count(self, row: TrialRow) -> None:
        """Count a row that was stored."""
        with self._lock:
            if row.fault_class in CONTROLS and row.outcome != "infra_error":
                self.controls += 1
                return
            outcome = "crash" if crashed(row) else row.outcome
            self.outcomes[outcome] += 1
            self.corrupted[outcome] += row.corruption not in (None, "none")

    def __rich__(self) -> Table:
        table = Table(title=f"{self._spec.name} ({self._accelerator}): crashes")
        table.add_column("fault class")
        for mode in self._spec.modes:
            table.add_column(mode, justify="right")
        for fault_class in self._spec.classes:
            cells = [self._campaign.cells[mode, fault_class] for mode in self._spec.modes]
            table.add_row(fault_class, *(f"{cell.crashes} ({cell.trials} trials)" for cell in cells))
        table.caption = self._caption()
        return table

    def _wanted(self) -> int:
        return sum(self._spec.crashes_wanted(fault_class) for _, fault_class in self._campaign.cells)

    def hours_left(self) -> tuple[float, bool] | None:
        """Return how long the rest takes at the rate so far, and whether it may take less.

        None before a trial gave a result. Of a cell without a crash only the most trials are known.
        """
        others = sum(self.outcomes[name] for name in OTHERS)
        if not (ended := self.outcomes["crash"] + others + self.controls):
            return None
        cells = self._campaign.cells.items()
        needs = [(cell, trials_left(cell, name, self._spec)) for (_, name), cell in cells]
        at_most = any(left and not cell.crashes for cell, left in needs)
        return sum(left for _, left in needs) / ended * self._hours(), at_most

    def _hours(self) -> float:
        return max(time.monotonic() - self._start, 1e-3) / 3600

    def _caption(self) -> str:
        hours, crashes, wanted = self._hours(), self.outcomes["crash"], self._wanted()
        cells = self._campaign.cells.items()
        have = sum(min(cell.crashes, self._spec.crashes_wanted(name)) for (_, name), cell in cells)
        rest = ""
        if left := self.hours_left():
            rest = f", {'at most' if left[1] else 'about'} {span(left[0])} left"
        failures = f"{self.outcomes['infra_error']} infra errors"
        if missing := len(self._campaign.missing()):
            failures += f" ({missing} trials given up for now)"
        return (
            f"{have} of {wanted} crashes ({have / wanted:.0%}). In {hours * 60:.1f} min: "
            f"{crashes} crashes ({self.corrupted['crash']} with corruption), "
            f"{self.outcomes['stuck']} stuck ({self.corrupted['stuck']}), "
            f"{self.outcomes['survived']} survived ({self.corrupted['survived']}), "
            f"{self.controls} trials of controls, {failures}; {crashes / hours:.0f} crashes an hour{rest}"
        )


def span(hours: float) -> str:
    """Format a duration in the unit that fits it: days, hours or minutes."""
    for unit, each in (("days", 24.0), ("h", 1.0)):
        if hours >= 2 * each:
            return f"{hours / each:.1f} {unit}"
    return f"{hours * 60:.0f} min"


def trials_left(cell: Cell, fault_class: str, spec: CampaignSpec) -> float:
    """Estimate the trials a cell still needs from its crash rate so far, at most the number it may have."""
    missing = max(spec.crashes_wanted(fault_class) - cell.crashes, 0)
    allowed = max(spec.trials_allowed(fault_class) - cell.trials, 0)
    expected = missing * cell.trials / cell.crashes if cell.crashes else allowed
    return min(expected, allowed) if missing else 0
