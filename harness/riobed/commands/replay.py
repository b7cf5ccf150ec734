# SPDX-License-Identifier: Apache-2.0
"""`riobed replay`: run a stored trial again from its snapshot and seed, and compare how it ended.

The store is only read. Plan and faults are drawn again and compared with the stored ones, so a replay runs
the same trial or is refused.
"""

import gzip
import json
import sys
import time
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from rich.console import Console
from riobed_results.errors import StoreError
from riobed_results.stats.proportions import share_of
from riobed_results.store import (
    KERNEL,
    CampaignRow,
    FaultRow,
    Logs,
    TrialRow,
    locate,
    open_store,
    result_at,
    utc_now,
)
from riobed_results.tables.controls.replays import JUDGED, Ending, ReplayRun
from riobed_results.tables.framework.shares import count_text, interval_text
from riobed_results.text import printable

from riobed.campaign import draw_faults
from riobed.commands.run import beside, replayable
from riobed.commands.trial_line import ending
from riobed.crash import formats
from riobed.errors import EnvironmentFault, InfraError, UsageError
from riobed.faults import Fault, catalogue_of
from riobed.faults.sites.vmlinux import Vmlinux
from riobed.guest import GuestSetup, guest_setup, open_guest, provenance
from riobed.plan import CampaignSpec, PlannedTrial, plan, stored_spec
from riobed.propagation import (
    EventLog,
    Symbols,
    propagation_report,
    propagation_text,
    store_plugin,
    stores_report,
    stores_so_far,
)
from riobed.trial import PLANTED, Evidence, TrialRecord, fault_row, run_trial, trial_row
from riobed.vm import LEAST_ROOM, need_room

# Separates the crash from the recovery in a stored log (riobed.trial.recovery.recover).
_BEHIND = b"\n=== recovery"
# Time limits follow the host's clock, and the host may be slower than in the original trial.
_PATIENCE = 2.0
_MAX_ATTEMPTS = 3
# Phases of a replay beside those of its trial.
_SNAPSHOT, _FOLLOW = "snapshot", "follow"
# What a replay does in each phase, for the lines that show how far it is; the other phases take no time.
_PHASES = {
    _SNAPSHOT: "booting the guest and taking its snapshot",
    "restore": "bringing the guest to where the trial begins",
    "warmup": "warming the workload up",
    "inject": "injecting",
    "watch": "waiting for a crash",
    "bring_down": "bringing down the guest, which has survived",
    "reset": "restarting the guest and recovering its files",
    "check": "checking the files",
    "production": "starting the production kernel",
    _FOLLOW: "following the faults to the damaged blocks",
}


@dataclass(frozen=True)
class Request:
    """Which trial to replay, and where the replay's files go (None: beside the store)."""

    position: int
    store: str
    campaign: str | None = None
    folder: Path | None = None
    propagation: bool = False
    times: int = 1


@dataclass(frozen=True)
class StoredTrial:
    """A stored trial with what is needed to run it again; the path of its log is relative to `logs`."""

    logs: Path
    campaign: CampaignRow
    row: TrialRow
    spec: CampaignSpec
    planned: PlannedTrial


def replay(request: Request, as_json: bool, uri: str | None) -> str:
    """Replay a stored trial; return the comparison of original and replays, as text or JSON.

    Raises UsageError if it cannot be the same trial, EnvironmentFault if every attempt is an infra error.
    """
    stored = find(request)
    console = Console(stderr=True)
    with console.status("Looking for built products, drawing the faults again") as status:
        setup = replay_setup(stored.campaign, stored.spec, request.store, uri, request.propagation)
        faults = redraw(stored, setup)
        folder = make_folder(request.folder or beside(request.store, "replays") / _name(stored))
        status.update(f"Running trial {stored.row.position} of {stored.campaign.name!r} again")
        replayer = Replayer(setup, stored.spec, stored.planned.mode, PhaseLines(console, request.times))
        with replayer:
            numbers = range(1, request.times + 1)
            replays = [replayer.run(stored, faults, folder, number) for number in numbers]
    answer = describe(stored, replays)
    (folder / "replay.json").write_text(json.dumps(answer, indent=1) + "\n", encoding="utf-8")
    return json.dumps(answer, indent=1) + "\n" if as_json else as_text(answer, folder)


def replay_setup(
    campaign: CampaignRow, spec: CampaignSpec, store: str, uri: str | None, propagation: bool = False
) -> GuestSetup:
    """Return what a campaign's guests are made of; they start from the store's snapshot cache if it has one.

    With `propagation` they log what becomes of their pages, and a canary takes a QEMU that can watch it.
    UsageError if the kernel built here is not the campaign's.
    """
    watched = propagation and bool(spec.machine.canary_mib)
    # Only an emulator can be asked who stored.
    machine = spec.machine.model_copy(update={"accelerator": "tcg"}) if watched else spec.machine
    setup = guest_setup(machine, uri, spec.workload, loses_lines=spec.loses_lines, counts_nvdimm=watched)
    here = provenance(setup, campaign.seed, modes=spec.cache_modes)
    if difference := campaign.provenance.difference(here, KERNEL):
        raise UsageError(
            f"campaign {campaign.name!r}: another kernel is built here: {difference}; "
            "check out the sources it ran on"
        )
    return replace(replayable(setup, store), propagation=propagation)


def find(request: Request) -> StoredTrial:
    """Find a trial in its store; UsageError if it is missing, or if today's plan has another trial there."""
    store = open_store(request.store)
    campaign = store.campaign(request.campaign)
    row = result_at(store, campaign.id, request.position)
    where = f"trial {request.position} of campaign {campaign.name!r}"
    if row is None:
        raise UsageError(f"{where}: the store has no result of it; 'riobed trials' lists what there is")
    spec = stored_spec(campaign.name, campaign.spec)
    planned = next(islice(plan(spec), request.position, None), None)
    if planned is None or (planned.mode, planned.fault_class, planned.seed) != (
        row.mode,
        row.fault_class,
        row.seed,
    ):
        raise UsageError(f"{where}: the plan has another trial there now; use the riobed that ran it")
    return StoredTrial(locate(request.store).folder, campaign, row, spec, planned)


def make_folder(folder: Path) -> Path:
    """Make the folder for a replay's files; EnvironmentFault if that fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EnvironmentFault(f"{folder}: {error.strerror}; choose another place with --folder") from None
    return folder


def _name(stored: StoredTrial) -> str:
    return f"{stored.campaign.name}-{stored.row.position:05d}"


def redraw(stored: StoredTrial, setup: GuestSetup) -> list[Fault]:
    """Draw the trial's faults again; UsageError if they differ from the stored ones."""
    kernel = setup.products(stored.spec.mode(stored.planned.mode)).kernel
    catalogue = catalogue_of(kernel).filtered(stored.spec.sites)
    faults = draw_faults(stored.spec, stored.planned, catalogue)
    # A planted change is drawn in the guest.
    known = [row for row in stored.row.faults if row.fault_class != PLANTED]
    if len(faults) != len(known) or not all(map(same_fault, faults, known)):
        raise UsageError(
            f"trial {stored.row.position} of campaign {stored.campaign.name!r}: other faults are drawn now "
            "than are stored; use the riobed that ran it"
        )
    return faults


def same_fault(drawn: Fault, stored: FaultRow) -> bool:
    """Whether a fault is the stored one; stored parameters that say what the fault hit are ignored."""
    row = fault_row(drawn, Evidence())
    drawn_before = ("index", "fault_class", "address", "old", "new")
    return all(getattr(row, name) == getattr(stored, name) for name in drawn_before) and (
        row.params.items() <= stored.params.items()
    )


class PhaseLines:
    """Prints a line when a phase of a replay begins, with the seconds since the first one."""

    def __init__(self, console: Console, times: int) -> None:
        self._console = console
        self._times = times
        self._start = time.monotonic()

    def begin(self, number: int, phase: str) -> None:
        """Print what replay `number` does in a phase; nothing for a phase that is over at once."""
        if does := _PHASES.get(phase):
            replay = f"replay {number}: " if self._times > 1 else ""
            line = f"{time.monotonic() - self._start:6.0f} s  {replay}{does}"
            self._console.print(line, highlight=False, markup=False)


class Replayer:
    """Runs trials of a mode on its own guest, as a campaign would, and keeps their logs.

    `lines` tells how far a replay is.
    """

    def __init__(
        self, setup: GuestSetup, spec: CampaignSpec, mode: str, lines: PhaseLines | None = None
    ) -> None:
        self._setup = setup
        self._lines = lines
        self._snapshot = False
        # Another plugin knows the lines that a loss of power takes, and a machine has one.
        cache_mode = spec.mode(mode)
        canary = setup.machine.canary_mib and cache_mode.nvdimm and not setup.loses_lines
        self._watches = bool(setup.propagation and canary)
        plugin = store_plugin(setup, setup.layout(cache_mode)) if self._watches else None
        self._guest = open_guest(setup, cache_mode, f"replay-{mode}", plugin=plugin)

    def __enter__(self) -> "Replayer":
        return self

    def __exit__(self, *_: object) -> None:
        self._guest.discard()

    def run(self, stored: StoredTrial, faults: list[Fault], folder: Path, number: int = 1) -> "Replay":
        """Replay a trial and compare; EnvironmentFault if _MAX_ATTEMPTS attempts end with infra errors."""
        position = stored.row.position
        for attempt in range(1, _MAX_ATTEMPTS + 1):
            try:
                return self._run(stored, faults, folder, number)
            except InfraError as error:
                print(f"{position:5d}  attempt {attempt}: {error}", file=sys.stderr)
                self._guest.discard()
                self._snapshot = False
        raise EnvironmentFault(
            f"trial {position}: {_MAX_ATTEMPTS} replays failed for our own reasons; see above"
        )

    def _run(self, stored: StoredTrial, faults: list[Fault], folder: Path, number: int) -> "Replay":
        begin = partial(self._lines.begin, number) if self._lines else None
        record = TrialRecord(stored.planned, faults, entered=begin)
        suffix = "" if number == 1 else f"-{number}"
        try:
            if not (stored.planned.fresh_boot or self._snapshot):
                with record.phase(_SNAPSHOT):
                    self._guest.take_snapshot()
                self._snapshot = True
            before = stores_so_far(self._guest.machine.config) if self._watches else 0
            run_trial(self._guest, _patient(stored), record)
            need_room(self._guest.machine.config.folder, LEAST_ROOM)
            path = folder / f"propagation{suffix}.log.gz"
            followed = None
            if self._setup.propagation:
                with record.phase(_FOLLOW):
                    followed = self._follow(record, path, before)
        finally:
            _keep(folder / f"console{suffix}.log.gz", record.log)
        return Replay(compare(stored, self._setup, record), followed)

    def _follow(self, record: TrialRecord, path: Path, stores: int) -> dict[str, Any]:
        """Follow the log. The guest is still as the trial left it, so it can tell where its files lie.

        Before the trial there were so many stores into the canary.
        """
        if not record.chunks:
            raise InfraError("the guest's memory holds no propagation log")
        log = EventLog(record.chunks)
        _keep(path, log.text())
        vmlinux = Vmlinux(self._setup.products(self._guest.mode).kernel.vmlinux)
        answer = propagation_report(self._guest, record, log, Symbols(vmlinux))
        if self._watches:
            answer["canary"] = stores_report(self._guest.machine.config, stores, vmlinux)
        return answer


@dataclass(frozen=True)
class Replay:
    """One replay, and what its propagation log shows if there is one."""

    run: ReplayRun
    propagation: dict[str, Any] | None


def _patient(stored: StoredTrial) -> CampaignSpec:
    """Return the spec with a longer time limit, unless the original trial did not crash within the limit."""
    spec, seconds = stored.spec, stored.row.time_to_crash_s
    if stored.row.outcome == "survived" or seconds is None or seconds > spec.limit_s:
        return spec
    return spec.model_copy(update={"limit_s": spec.limit_s * _PATIENCE})


def _keep(path: Path, log: bytes) -> None:
    path.write_bytes(gzip.compress(log, mtime=0))


def compare(stored: StoredTrial, setup: GuestSetup, record: TrialRecord) -> ReplayRun:
    """Compare a replay with the original trial."""
    row = stored.row
    now = trial_row(record, stored.campaign.id, row.attempt, utc_now(), "")
    then = Ending.model_validate(row).model_copy(
        update={"outcome": outcome_then(row), "crash_title": title_then(stored)}
    )
    return ReplayRun(
        campaign=stored.campaign.name,
        position=row.position,
        mode=row.mode,
        fault_class=row.fault_class,
        seed=row.seed,
        accelerator=stored.campaign.accelerator,
        then=then,
        now=Ending.model_validate(now),
        on=provenance(setup, stored.campaign.seed, stored.spec.workload.folders, stored.spec.cache_modes),
    )


def outcome_then(row: TrialRow) -> str:
    """Return how the original trial ended; stores before schema 3 called three outcomes a crash."""
    if row.outcome != "crash":
        return row.outcome
    if (row.crash_title or "").startswith("workload stuck"):
        return "stuck"
    return "hang" if row.crash_kind == "hang" else "panic"


def title_then(stored: StoredTrial) -> str | None:
    """Recompute the original crash title from the stored log, as older versions normalised it differently.

    A title that the log does not give stays as it is stored.
    """
    row = stored.row
    if not row.log:
        return row.crash_title
    try:
        console = Logs(stored.logs).read(row.log)
    except StoreError:
        return row.crash_title
    crash = formats.recognise(console.partition(_BEHIND)[0])
    return crash.title if crash and crash.kind == row.crash_kind else row.crash_title


def describe(stored: StoredTrial, replays: list[Replay]) -> dict[str, Any]:
    """Return original, replays and which fields are equal, for JSON; `matched` counts equal titles."""
    run = replays[0].run
    return {
        **run.model_dump(include={"campaign", "position", "mode", "fault_class", "seed"}),
        "then": {"accelerator": run.accelerator} | run.then.model_dump(),
        "replays": [
            {
                "now": {"accelerator": each.run.on.accelerator} | each.run.now.model_dump(),
                "same": each.run.same,
            }
            | ({"propagation": each.propagation} if each.propagation else {})
            for each in replays
        ],
        "matched": sum(each.run.same["crash_title"] for each in replays),
    }


def as_text(answer: dict[str, Any], folder: Path) -> str:
    """Return the comparison as text."""
    lines = [
        f"Trial {answer['position']} of {answer['campaign']}: {answer['mode']}, {answer['fault_class']}, "
        f"seed {answer['seed']}",
        f"  then  {_described(answer['then'])}",
    ]
    for each in answer["replays"]:
        same = [name for name in JUDGED if each["same"][name]]
        other = [name for name in JUDGED if not each["same"][name]]
        lines.append(f"  now   {_described(each['now'])}")
        lines.append(f"  same: {_named(same)}; other: {_named(other)}")
        lines += propagation_text(each["propagation"]) if "propagation" in each else []
    times = len(answer["replays"])
    if times > 1:
        interval = interval_text(share_of(answer["matched"], times))
        lines.append(f"Same crash title: {count_text(answer['matched'], times)}; 95 % interval {interval}")
    lines.append(f"Logs: {folder}")
    return "".join(f"{printable(line)}\n" for line in lines)


def _described(trial: dict[str, Any]) -> str:
    """Describe in one line how a trial ended."""
    end = Ending.model_validate({name: trial[name] for name in Ending.model_fields})
    if end.outcome == "discard":
        return f"{ending(end)} ({trial['accelerator']})"
    place = f" ({end.corruption_where})" if end.corruption_where else ""
    found = f"corruption {end.corruption}{place}, {end.activated} faults activated"
    return f"{ending(end)}; {found} ({trial['accelerator']})"


def _named(what: list[str]) -> str:
    return ", ".join(name.replace("_", " ") for name in what) or "nothing"
