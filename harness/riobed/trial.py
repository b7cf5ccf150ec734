# SPDX-License-Identifier: Apache-2.0
"""The life of one trial, as a readable sequence."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from riobed import oops
from riobed.errors import BootError, InfraError
from riobed.evidence import Evidence, read_evidence
from riobed.faults import CLASSES, Fault, commands
from riobed.guest import Guest
from riobed.interrupt import Interruption, interrupt_recovery
from riobed.oops import Crash
from riobed.plan import PlannedTrial
from riobed.planted import PLANTED, Plant, plant
from riobed.progress import Progress
from riobed.spec import CampaignSpec
from riobed.verdict import Verdict, decide, read_check
from riobed.vm.agent import AgentLost
from riobed.watch import Observation, Watcher

_BOOT_S = 90.0
_CHECK_S = 300.0
_WARMUP_SLACK_S = 30.0
# Of a guest whose seconds are longer than the host's.
_LONGEST_WARMUP_S = 900.0
_INJECT_S = 10.0
_STOP_S = 10.0
INJECTOR = "/dev/riobed-inject"
_MAX_REPORT = 1 << 16
# Arguments: seconds of warm-up, then the workload; the faults come on standard input.
_REPEATABLE = f"""
cat >/run/faults
warmup=$1
shift
"$@" &
workload=$!
sleep $warmup
kill -0 $workload || exit
cat /run/faults >{INJECTOR} || {{ kill $workload; dmesg | tail -n 2 >&2; exit 1; }}
wait $workload
"""


@dataclass
class TrialRecord:
    """All that is known of a trial, complete or cut short by an infra error."""

    planned: PlannedTrial
    faults: list[Fault]
    plant: Plant | None = None
    phases: dict[str, float] = field(default_factory=dict)
    progress: Progress = field(default_factory=lambda: Progress(0))
    evidence: Evidence = field(default_factory=Evidence)
    observation: Observation | None = None
    interruption: Interruption | None = None
    recovery: dict[str, Any] | None = None
    check: dict[str, Any] | None = None
    verdict: Verdict | None = None
    console: bytes = b""

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measure a phase in seconds of host time."""
        start = time.monotonic()
        try:
            yield
        finally:
            self.phases[name] = round(time.monotonic() - start, 3)


def run_trial(guest: Guest, spec: CampaignSpec, record: TrialRecord) -> None:
    """Run one trial and fill in its record; InfraError when we failed, with the record so far."""
    planned = record.planned
    try:
        pid = begin_repeatably(guest, record) if record.faults and guest.repeatable else begin(guest, record)
        with record.phase("watch"):
            if record.faults:
                waiting = [fault.index for fault in record.faults if CLASSES[fault.fault_class].waits]
                record.observation = Watcher(
                    guest.machine, spec, record.progress, pid, guest.reports_steps, waiting
                ).watch()
            else:
                # A control: the reset itself is the crash.
                time.sleep(planned.run_on_s)
                record.observation = Observation(Crash("reset", "reset by the harness"), 0.0, "running")
        read_logs(guest, record)
        if record.observation.crash:
            recover(guest, record)
        record.verdict = decide(record.observation, record.recovery, record.check)
    finally:
        # With an observation it has been read, before stage 0 added to it.
        if not record.observation:
            record.console = guest.machine.console.text()


def begin(guest: Guest, record: TrialRecord) -> int:
    """From the snapshot to faults in place; the workload's process id."""
    planned = record.planned
    with record.phase(restore_phase(planned)):
        guest.ready(fresh=planned.fresh_boot, check=planned.check_restore)
    with record.phase("warmup"):
        pid = start_workload(guest, record)
        warm_up(guest, record, pid)
    with record.phase("inject"):
        if planned.fault_class == PLANTED:
            end_workload(guest, record, pid)
            record.plant = plant(guest, planned.fault_rng())
        else:
            inject(guest, record)
    return pid


def begin_repeatably(guest: Guest, record: TrialRecord) -> int:
    """The same at the same instructions each time: the guest is told all at once and goes by its clock."""
    planned = record.planned
    record.progress = Progress(planned.workload_seed)
    workload = guest.command("start", seed=planned.workload_seed)
    argv = ["/bin/sh", "-c", _REPEATABLE, "trial", str(round(planned.warmup_s, 3)), *workload]
    stdin = commands(record.faults).encode()
    with record.phase(restore_phase(planned)):
        pid = guest.start(argv, stdin, fresh=planned.fresh_boot, check=planned.check_restore)
    with record.phase("warmup"):
        wait_for_faults(guest, record, pid)
    return pid


def restore_phase(planned: PlannedTrial) -> str:
    """By their name in the table of phases, checks of restored memory are counted."""
    return "restore_checked" if planned.check_restore else "restore"


def wait_for_faults(guest: Guest, record: TrialRecord, pid: int) -> None:
    """Until the guest has put them in place; it has time as long as its workload makes steps."""
    machine = guest.machine
    start = time.monotonic()
    patience = start + record.planned.warmup_s + _WARMUP_SLACK_S
    while not read_evidence(machine.evidence.text()).injected:
        if record.progress.feed(machine.progress.new()):
            patience = min(max(patience, time.monotonic() + _WARMUP_SLACK_S), start + _LONGEST_WARMUP_S)
        if oops.started(machine.console.text()):
            raise InfraError("the guest crashed before any fault was in place")
        if time.monotonic() > patience:
            ended = machine.status(pid)
            output = (ended.stdout + ended.stderr)[-300:] if ended else b"no step in time"
            raise InfraError(f"no fault was put in place: {record.progress.error or output!r}")
        time.sleep(0.02)
    record.progress.feed(machine.progress.new())
    if guest.reports_steps and not record.progress.done:
        raise InfraError("the workload had made no step when the faults were put in place")


def start_workload(guest: Guest, record: TrialRecord) -> int:
    """Start the workload with the trial's seed; its process id in the guest."""
    record.progress = Progress(record.planned.workload_seed)
    return guest.machine.spawn(guest.command("start", seed=record.planned.workload_seed))


def warm_up(guest: Guest, record: TrialRecord, pid: int) -> None:
    """Let the workload run; InfraError when it does not come to its first step."""
    deadline = time.monotonic() + record.planned.warmup_s
    patience = deadline + _WARMUP_SLACK_S
    while time.monotonic() < deadline or (guest.reports_steps and record.progress.done == 0):
        record.progress.feed(guest.machine.progress.new())
        if record.progress.error or time.monotonic() > patience:
            raise InfraError(f"workload did not get going: {record.progress.error or 'no step in time'}")
        time.sleep(0.02)
    ended = guest.machine.status(pid)
    if ended is not None:
        output = (ended.stdout + ended.stderr).decode("utf-8", "replace").strip()[-200:]
        raise InfraError(f"workload ended with status {ended.status} before any fault: {output}")


def inject(guest: Guest, record: TrialRecord) -> None:
    """Put the faults in place; InfraError when the injector refuses them.

    What counts is the evidence: a fault may kill the guest before the agent could answer.
    """
    if not record.faults:
        return
    script = f"cat >/run/faults; cat /run/faults >{INJECTOR}; echo $? >/run/injected"
    with suppress(AgentLost):
        guest.machine.spawn(["/bin/sh", "-c", script], stdin=commands(record.faults).encode())
    deadline = time.monotonic() + _INJECT_S
    while not read_evidence(guest.machine.evidence.text()).injected:
        if oops.started(guest.machine.console.text()):
            raise InfraError("the guest crashed before any fault was in place")
        if time.monotonic() > deadline:
            answer = guest.machine.run(["/bin/sh", "-c", "cat /run/injected; dmesg | tail -n 2"])
            raise InfraError(f"the injector did not accept the faults: {answer.stdout[-300:]!r}")
        time.sleep(0.01)


def end_workload(guest: Guest, record: TrialRecord, pid: int) -> None:
    """Stop the workload for good: of a step in flight its check could not say what is right."""
    guest.machine.run(guest.command("stop", seed=record.planned.workload_seed), timeout=_STOP_S)
    deadline = time.monotonic() + _STOP_S
    while guest.machine.status(pid) is None:
        if time.monotonic() > deadline:
            raise InfraError("the workload did not end when it was told to stop")
        time.sleep(0.02)
    record.progress.feed(guest.machine.progress.new())
    if guest.reports_steps and not record.progress.finished:
        raise InfraError("the workload did not end with the step it was in")


def read_logs(guest: Guest, record: TrialRecord) -> None:
    """Keep console and evidence before stage 0 adds to them."""
    record.console = guest.machine.console.text()
    record.evidence = read_evidence(guest.machine.evidence.text())


def recover(guest: Guest, record: TrialRecord) -> None:
    """Reset with RAM kept, wait for stage 0's recovery, and let the oracle judge."""
    machine = guest.machine
    with record.phase("reset"):
        if not (record.observation and record.observation.restarted):
            machine.console.clear()
            machine.reset()
        try:
            if record.planned.recovery_reset_s is not None:
                cut_recovery_short(guest, record, record.planned.recovery_reset_s)
            machine.wait_stage0(_BOOT_S)
        except BootError as error:
            raise InfraError(f"after the crash: {error}") from None
        # The workload may have gone on until the very moment of the reset.
        record.progress.feed(machine.progress.new())
    with record.phase("report"):
        record.recovery = read_recovery(guest)
        if record.interruption:
            record.recovery["interrupted"] = record.interruption.as_stored()
    if record.recovery["mount_error"]:
        keep_recovery_log(guest, record)
        return
    with record.phase("check"):
        argv = guest.command(
            "check",
            seed=record.planned.workload_seed,
            done=record.progress.done,
            intent=record.progress.in_flight,
        )
        record.check = read_check(machine.run(argv, timeout=_CHECK_S))
    if not record.check["equal"]:
        keep_recovery_log(guest, record)


def cut_recovery_short(guest: Guest, record: TrialRecord, planned_s: float) -> None:
    """Crash in recovery: reset once more in the middle of it; the next recovery has to do it all."""
    record.interruption, log = interrupt_recovery(guest.machine, planned_s, _BOOT_S)
    record.console += b"\n=== recovery, cut short ===\n" + log


def keep_recovery_log(guest: Guest, record: TrialRecord) -> None:
    """Behind the console log, what recovery said and what e2fsck changed: it may explain a corruption."""
    fsck = guest.machine.run(["/bin/cat", "/run/e2fsck.log"]).stdout[:_MAX_REPORT]
    record.console += b"\n=== recovery ===\n" + guest.machine.console.text() + b"\n=== e2fsck ===\n" + fsck


def read_recovery(guest: Guest) -> dict[str, Any]:
    """riorecover's report, from the guest; InfraError when it is not one."""
    result = guest.machine.run(["/bin/cat", "/run/recovery.json"])
    try:
        report = json.loads(result.stdout[:_MAX_REPORT])
        report["mount_error"], report["registry"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InfraError("stage 0 left no readable recovery report") from None
    return dict(report)
