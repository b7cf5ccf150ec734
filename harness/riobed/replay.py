# SPDX-License-Identifier: Apache-2.0
"""`riobed replay`: a stored trial once more, from its snapshot and seed; did the same happen?

The store is only read. What can be drawn again is drawn again and compared with what is stored, so that
a replay is of the same trial or refused.
"""

import gzip
import json
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from rich.console import Console
from riobed_results.models import CampaignRow, FaultRow, TrialRow, utc_now
from riobed_results.queries import result_at
from riobed_results.render import printable
from riobed_results.store import open_store

from riobed.artifacts import Manifest, cache_dir, load_manifest
from riobed.campaign import draw_faults
from riobed.errors import EnvironmentFault, InfraError, UsageError
from riobed.evidence import Evidence
from riobed.faults import Catalogue, Fault
from riobed.faults.vmlinux import Vmlinux
from riobed.guest import Guest, GuestSetup, machine_config
from riobed.modes import cache_mode
from riobed.plan import PlannedTrial, plan
from riobed.planted import PLANTED
from riobed.registry import mapped
from riobed.rows import fault_row, trial_row
from riobed.run import beside
from riobed.scratch import scratch_dir
from riobed.setup import guest_setup
from riobed.spec import CampaignSpec
from riobed.stored import stored_spec
from riobed.symbols import Symbols
from riobed.trace import TraceLog, find_chunks
from riobed.trace_report import trace_answer, trace_text
from riobed.trial import TrialRecord, run_trial
from riobed.vm.connection import connect
from riobed.vm.libvirt import LibvirtMachine

# What is compared; "same" in the answer has each of them.
_JUDGED = ("outcome", "crash_title", "corruption")
_SHOWN = (
    "outcome",
    "crash_kind",
    "crash_title",
    "time_to_crash_s",
    "activated",
    "corruption",
    "corruption_where",
)


@dataclass(frozen=True)
class Request:
    """Which trial is to be run again, and where the replay's files go (None: beside the store)."""

    position: int
    store: str
    campaign: str | None = None
    folder: Path | None = None
    trace: bool = False


@dataclass(frozen=True)
class StoredTrial:
    """A trial of a store, and what is needed to run it again."""

    campaign: CampaignRow
    row: TrialRow
    spec: CampaignSpec
    planned: PlannedTrial


def replay(request: Request, as_json: bool, uri: str | None) -> str:
    """Run a stored trial again; what was then and is now, as text or JSON.

    Raises UsageError when it cannot be the same trial, InfraError when the guest did not get that far.
    """
    stored = find(request)
    manifest = load_manifest()
    check_kernel(stored.campaign, manifest)
    folder = make_folder(request, stored)
    with Console(stderr=True).status("Looking for what is built, drawing the faults again") as status:
        setup = guest_setup(stored.spec.machine, uri, stored.spec.workload)
        faults = redraw(stored, manifest)
        status.update(f"Running trial {stored.row.position} of {stored.campaign.name!r} again")
        replayer = Replayer(stored, replace(setup, trace=request.trace), folder, uri)
        answer = replayer.run(faults)
    (folder / "replay.json").write_text(json.dumps(answer, indent=1) + "\n", encoding="utf-8")
    return json.dumps(answer, indent=1) + "\n" if as_json else as_text(answer, folder)


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
    return StoredTrial(campaign, row, spec, planned)


def check_kernel(campaign: CampaignRow, manifest: Manifest) -> None:
    """UsageError unless the kernel that is built here is the campaign's."""
    built = manifest.kernel.build_id
    if campaign.kernel_build_id != built:
        raise UsageError(
            f"campaign {campaign.name!r} ran on kernel build {campaign.kernel_build_id}, here is {built}; "
            "check out the sources it ran on"
        )


def make_folder(request: Request, stored: StoredTrial) -> Path:
    """Where the replay's files go; EnvironmentFault if it cannot be made."""
    name = f"{stored.campaign.name}-{stored.row.position:05d}"
    folder = request.folder or beside(request.store, "replays") / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EnvironmentFault(f"{folder}: {error.strerror}; choose another place with --folder") from None
    return folder


def redraw(stored: StoredTrial, manifest: Manifest) -> list[Fault]:
    """The trial's faults, drawn again; UsageError unless they are those that are stored."""
    kernel = manifest.kernel
    catalogue = Catalogue.open(kernel.vmlinux, cache_dir(), kernel.build_id).narrowed(stored.spec.sites)
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
    """Runs the trial on a new guest as a campaign would, and keeps its logs."""

    def __init__(self, stored: StoredTrial, setup: GuestSetup, folder: Path, uri: str | None) -> None:
        self._stored = stored
        self._setup = setup
        self._folder = folder
        mode = cache_mode(stored.planned.mode)
        config = machine_config(setup, mode, scratch_dir() / "replay")
        self._guest = Guest(setup, mode, LibvirtMachine(connect(uri), config))

    def run(self, faults: list[Fault]) -> dict[str, Any]:
        """What came of it, compared with what is stored; InfraError when the guest did not get that far."""
        record = TrialRecord(self._stored.planned, faults)
        try:
            if not self._stored.planned.fresh_boot:
                self._guest.take_snapshot()
            run_trial(self._guest, self._stored.spec, record)
            answer = compare(self._stored, self._setup, record)
            if self._setup.trace:
                answer["trace"] = self._follow(record)
        finally:
            self._keep("console.log.gz", record.console)
            self._guest.discard()
        return answer

    def _follow(self, record: TrialRecord) -> dict[str, Any]:
        """The guest is where the trial left it, so that it can be asked where its files lie."""
        with mapped(self._guest.machine.ram_path()) as memory:
            log = TraceLog(find_chunks(memory))
        self._keep("trace.log.gz", log.text())
        if not log.lines:
            raise InfraError("the guest's memory holds no trace")
        symbols = Symbols(Vmlinux(self._setup.manifest.kernel.vmlinux))
        return trace_answer(self._guest, record, log, symbols)

    def _keep(self, name: str, log: bytes) -> None:
        (self._folder / name).write_bytes(gzip.compress(log, mtime=0))


def compare(stored: StoredTrial, setup: GuestSetup, record: TrialRecord) -> dict[str, Any]:
    """What was then, what is now, and what of it is the same."""
    then = stored.row
    now = trial_row(record, stored.campaign.id, then.attempt, utc_now(), "")
    return {
        "campaign": stored.campaign.name,
        "position": then.position,
        "mode": then.mode,
        "fault_class": then.fault_class,
        "seed": then.seed,
        "then": {"accelerator": stored.campaign.accelerator} | {name: getattr(then, name) for name in _SHOWN},
        "now": {"accelerator": setup.accelerator} | {name: getattr(now, name) for name in _SHOWN},
        "same": {name: getattr(then, name) == getattr(now, name) for name in _JUDGED},
    }


def as_text(answer: dict[str, Any], folder: Path) -> str:
    """The answer for people."""
    lines = [
        f"Trial {answer['position']} of {answer['campaign']}: {answer['mode']}, {answer['fault_class']}, "
        f"seed {answer['seed']}"
    ]
    for when in ("then", "now"):
        lines.append(f"  {when:<5} {_described(answer[when])}")
    same, other = ([name for name in _JUDGED if answer["same"][name] is is_same] for is_same in (True, False))
    lines.append(f"  same: {_named(same)}; other: {_named(other)}")
    lines += trace_text(answer["trace"]) if "trace" in answer else []
    lines.append(f"Logs: {folder}")
    return "".join(f"{printable(line)}\n" for line in lines)


def _described(trial: dict[str, Any]) -> str:
    """One line about how a trial ended."""
    if trial["outcome"] == "discard":
        return f"discard, {trial['activated']} faults activated ({trial['accelerator']})"
    place = f" ({trial['corruption_where']})" if trial["corruption_where"] else ""
    return (
        f"{trial['crash_kind']} after {trial['time_to_crash_s']:.2f} s: {trial['crash_title']}; "
        f"corruption {trial['corruption']}{place}, {trial['activated']} faults activated "
        f"({trial['accelerator']})"
    )


def _named(what: list[str]) -> str:
    return ", ".join(name.replace("_", " ") for name in what) or "nothing"
