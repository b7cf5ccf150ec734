# SPDX-License-Identifier: Apache-2.0
"""`riobed replay`: a stored trial once more, from its snapshot and seed; did the same happen?

The store is only read. What can be drawn again is drawn again and compared with what is stored, so that
a replay is of the same trial or refused.
"""

import gzip
import json
import sys
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from rich.console import Console
from riobed_results.errors import StoreError
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
from riobed_results.tables.proportions import count_text, interval_text, share_of
from riobed_results.tables.render import printable
from riobed_results.tables.replays import JUDGED, Ending, ReplayRun

from riobed.campaign import draw_faults
from riobed.commands.lines import ending
from riobed.commands.run import beside
from riobed.crash import formats
from riobed.errors import EnvironmentFault, InfraError, UsageError
from riobed.faults import Fault, catalogue_of
from riobed.faults.sites.vmlinux import Vmlinux
from riobed.guest import GuestSetup, guest_setup, open_guest, provenance
from riobed.guest.registry import mapped
from riobed.plan import CampaignSpec, PlannedTrial, plan, stored_spec
from riobed.trace import Symbols, TraceLog, find_chunks, trace_answer, trace_text
from riobed.trial import PLANTED, Evidence, TrialRecord, fault_row, run_trial, trial_row
from riobed.vm import LEAST_ROOM, need_room

# What is no part of the crash in a stored log: trial.py.
_BEHIND = b"\n=== recovery"
# The host may be slower than it was then, and limits are by its clock.
_PATIENCE = 2.0
_MAX_ATTEMPTS = 3


@dataclass(frozen=True)
class Request:
    """Which trial is to be run again, and where the replay's files go (None: beside the store)."""

    position: int
    store: str
    campaign: str | None = None
    folder: Path | None = None
    trace: bool = False
    times: int = 1


@dataclass(frozen=True)
class StoredTrial:
    """A trial of a store, and what is needed to run it again; its log is relative to `logs`."""

    logs: Path
    campaign: CampaignRow
    row: TrialRow
    spec: CampaignSpec
    planned: PlannedTrial


def replay(request: Request, as_json: bool, uri: str | None) -> str:
    """Run a stored trial again; what was then and is now, as text or JSON.

    Raises UsageError when it cannot be the same trial, EnvironmentFault if we always fail.
    """
    stored = find(request)
    with Console(stderr=True).status("Looking for what is built, drawing the faults again") as status:
        setup = replay_setup(stored.campaign, stored.spec, request.store, uri)
        faults = redraw(stored, setup)
        folder = make_folder(request.folder or beside(request.store, "replays") / _name(stored))
        status.update(f"Running trial {stored.row.position} of {stored.campaign.name!r} again")
        replayer = Replayer(replace(setup, trace=request.trace), stored.spec, stored.planned.mode)
        with replayer:
            numbers = range(1, request.times + 1)
            replays = [replayer.run(stored, faults, folder, number) for number in numbers]
    answer = describe(stored, replays)
    (folder / "replay.json").write_text(json.dumps(answer, indent=1) + "\n", encoding="utf-8")
    return json.dumps(answer, indent=1) + "\n" if as_json else as_text(answer, folder)


def replay_setup(campaign: CampaignRow, spec: CampaignSpec, store: str, uri: str | None) -> GuestSetup:
    """What guests of a campaign in that store are made of; they begin from its snapshots if it has some.

    UsageError if the kernel that is built here is not the campaign's.
    """
    setup = guest_setup(spec.machine, uri, spec.workload)
    here = provenance(setup, campaign.seed, modes=spec.cache_modes)
    if difference := campaign.provenance.difference(here, KERNEL):
        raise UsageError(
            f"campaign {campaign.name!r}: another kernel is built here: {difference}; "
            "check out the sources it ran on"
        )
    return replace(setup, snapshots=beside(store, "snapshots"))


def find(request: Request) -> StoredTrial:
    """The trial in its store; UsageError if it is not there, or the plan made now has another one."""
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
    """Where a replay's files go; EnvironmentFault if it cannot be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EnvironmentFault(f"{folder}: {error.strerror}; choose another place with --folder") from None
    return folder


def _name(stored: StoredTrial) -> str:
    return f"{stored.campaign.name}-{stored.row.position:05d}"


def redraw(stored: StoredTrial, setup: GuestSetup) -> list[Fault]:
    """The trial's faults, drawn again; UsageError unless they are those that are stored."""
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
    """Whether a fault is the stored one; what that hit stands among its parameters and is left out."""
    row = fault_row(drawn, Evidence())
    drawn_before = ("index", "fault_class", "address", "old", "new")
    return all(getattr(row, name) == getattr(stored, name) for name in drawn_before) and (
        row.params.items() <= stored.params.items()
    )


class Replayer:
    """Runs trials of a mode on a guest of its own as a campaign would, and keeps their logs."""

    def __init__(self, setup: GuestSetup, spec: CampaignSpec, mode: str) -> None:
        self._setup = setup
        self._snapshot = False
        self._guest = open_guest(setup, spec.mode(mode), f"replay-{mode}")

    def __enter__(self) -> "Replayer":
        return self

    def __exit__(self, *_: object) -> None:
        self._guest.discard()

    def run(self, stored: StoredTrial, faults: list[Fault], folder: Path, number: int = 1) -> "Replay":
        """What came of it, compared with what is stored; EnvironmentFault if we fail again and again."""
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
        record = TrialRecord(stored.planned, faults)
        suffix = "" if number == 1 else f"-{number}"
        try:
            if not (stored.planned.fresh_boot or self._snapshot):
                self._guest.take_snapshot()
                self._snapshot = True
            run_trial(self._guest, _patient(stored), record)
            need_room(self._guest.machine.config.folder, LEAST_ROOM)
            trace = self._follow(record, folder / f"trace{suffix}.log.gz") if self._setup.trace else None
        finally:
            _keep(folder / f"console{suffix}.log.gz", record.console)
        return Replay(compare(stored, self._setup, record), trace)

    def _follow(self, record: TrialRecord, path: Path) -> dict[str, Any]:
        """The guest is where the trial left it, so that it can be asked where its files lie."""
        with mapped(self._guest.machine.ram_path()) as memory:
            log = TraceLog(find_chunks(memory))
        _keep(path, log.text())
        if not log.lines:
            raise InfraError("the guest's memory holds no trace")
        symbols = Symbols(Vmlinux(self._setup.products(self._guest.mode).kernel.vmlinux))
        return trace_answer(self._guest, record, log, symbols)


@dataclass(frozen=True)
class Replay:
    """One replay, and what its trace says if there is one."""

    run: ReplayRun
    trace: dict[str, Any] | None


def _patient(stored: StoredTrial) -> CampaignSpec:
    """The spec, with more time for a crash to come than it had, unless it came when the time was over."""
    spec, seconds = stored.spec, stored.row.time_to_crash_s
    if seconds is None or seconds > spec.limit_s:
        return spec
    return spec.model_copy(update={"limit_s": spec.limit_s * _PATIENCE})


def _keep(path: Path, log: bytes) -> None:
    path.write_bytes(gzip.compress(log, mtime=0))


def compare(stored: StoredTrial, setup: GuestSetup, record: TrialRecord) -> ReplayRun:
    """What was then, and what is now."""
    row = stored.row
    now = trial_row(record, stored.campaign.id, row.attempt, utc_now(), "")
    then = Ending.model_validate(row).model_copy(update={"crash_title": title_then(stored)})
    return ReplayRun(
        campaign=stored.campaign.name,
        position=row.position,
        mode=row.mode,
        fault_class=row.fault_class,
        seed=row.seed,
        accelerator=stored.campaign.accelerator,
        then=then,
        now=Ending.model_validate(now),
        on=provenance(setup, stored.campaign.seed, stored.spec.workload.path, stored.spec.cache_modes),
    )


def title_then(stored: StoredTrial) -> str | None:
    """The title of the stored crash as this riobed makes it: an older one may have had other rules.

    What the harness saw of a crash and its log does not tell is left as it is stored.
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
    """What was then, what is now, and what of it is the same; `matched` counts equal titles."""
    run = replays[0].run
    return {
        **run.model_dump(include={"campaign", "position", "mode", "fault_class", "seed"}),
        "then": {"accelerator": run.accelerator} | run.then.model_dump(),
        "replays": [
            {
                "now": {"accelerator": each.run.on.accelerator} | each.run.now.model_dump(),
                "same": each.run.same,
            }
            | ({"trace": each.trace} if each.trace else {})
            for each in replays
        ],
        "matched": sum(each.run.same["crash_title"] for each in replays),
    }


def as_text(answer: dict[str, Any], folder: Path) -> str:
    """The answer for people."""
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
        lines += trace_text(each["trace"]) if "trace" in each else []
    times = len(answer["replays"])
    if times > 1:
        interval = interval_text(share_of(answer["matched"], times))
        lines.append(f"Same crash title: {count_text(answer['matched'], times)}; 95 % interval {interval}")
    lines.append(f"Logs: {folder}")
    return "".join(f"{printable(line)}\n" for line in lines)


def _described(trial: dict[str, Any]) -> str:
    """One line about how a trial ended."""
    end = Ending.model_validate({name: trial[name] for name in Ending.model_fields})
    if end.outcome == "discard":
        return f"{ending(end)} ({trial['accelerator']})"
    place = f" ({end.corruption_where})" if end.corruption_where else ""
    found = f"corruption {end.corruption}{place}, {end.activated} faults activated"
    return f"{ending(end)}; {found} ({trial['accelerator']})"


def _named(what: list[str]) -> str:
    return ", ".join(name.replace("_", " ") for name in what) or "nothing"
