# SPDX-License-Identifier: Apache-2.0
"""One trial from start to verdict, as a readable sequence."""

import time
from contextlib import suppress

from riobed.crash import formats
from riobed.crash.formats import Crash
from riobed.errors import InfraError
from riobed.faults import CLASSES, commands
from riobed.guest import Guest
from riobed.plan import CampaignSpec
from riobed.trial.evidence import read_evidence
from riobed.trial.panicking import PANIC, bring_down
from riobed.trial.planting import PLANTED, plant
from riobed.trial.progress import Progress
from riobed.trial.record import TrialRecord
from riobed.trial.recover import recover, restart_production
from riobed.trial.verdict import decide
from riobed.trial.watch import Observation, Watcher, crash_on
from riobed.vm import AgentLost, Machine

_WARMUP_SLACK_S = 30.0
# For a guest whose clock is slower than the host's.
_LONGEST_WARMUP_S = 900.0
_INJECT_S = 10.0
_STOP_S = 10.0
INJECTOR = "/dev/riobed-inject"
# Arguments: the seconds of warm-up and the workload's command. The faults come on standard input.
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


class EarlyCrash(InfraError):
    """The guest crashed before any fault was in place."""

    def __init__(self, crash: Crash) -> None:
        super().__init__(f"the guest crashed before any fault was in place: {crash.title}")
        self.crash = crash


def run_trial(guest: Guest, spec: CampaignSpec, record: TrialRecord) -> None:
    """Run one trial and fill in its record; on InfraError the record holds what is known so far."""
    try:
        try:
            repeatably = record.faults and guest.repeatable
            pid = begin_repeatably(guest, record) if repeatably else begin(guest, record)
        except EarlyCrash as early:
            if record.planned.fault_class not in ("none", PANIC):
                raise
            # For a negative control, a crash without a fault is the finding.
            record.observation = Observation(early.crash, 0.0, "running")
        else:
            with record.phase("watch"):
                record.observation = observe(guest, spec, record, pid)
        read_logs(guest, record)
        if record.observation.crash:
            recover(guest, record)
            if spec.boot_production:
                restart_production(guest, record)
        record.verdict = decide(record.observation, record.recovery, record.check, record.unrecovered)
    finally:
        # With an observation the console was already read, before stage 0 added to it.
        if not record.observation:
            record.console = guest.machine.console.text()


def observe(guest: Guest, spec: CampaignSpec, record: TrialRecord, pid: int) -> Observation:
    """Observe the guest until a crash or the trial's end; without faults, the harness makes the crash."""
    if record.faults:
        waiting = [fault.index for fault in record.faults if CLASSES[fault.fault_class].waits]
        return Watcher(guest.machine, spec, record.progress, pid, guest.reports_steps, waiting).watch()
    time.sleep(record.planned.run_on_s)
    crash = crash_on(guest.machine.console.text())
    if not crash and record.planned.fault_class == PANIC:
        crash = bring_down(guest.machine, record.planned.panic_by)
    return Observation(crash or Crash("reset", "reset by the harness"), 0.0, "running")


def begin(guest: Guest, record: TrialRecord) -> int:
    """Restore the snapshot, start the workload and inject the faults; return the workload's process id."""
    planned = record.planned
    with record.phase("restore"):
        record.restore_checked = guest.ready(fresh=planned.fresh_boot, check=planned.check_restore)
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
    """Do the same deterministically: the guest gets everything at once and times it by its own clock."""
    planned = record.planned
    record.progress = Progress(planned.workload_seed)
    workload = guest.command("start", seed=planned.workload_seed)
    argv = ["/bin/sh", "-c", _REPEATABLE, "trial", str(round(planned.warmup_s, 3)), *workload]
    stdin = commands(record.faults).encode()
    with record.phase("restore"):
        pid = guest.start(argv, stdin, fresh=planned.fresh_boot, check=planned.check_restore)
        record.restore_checked = planned.check_restore
    with record.phase("warmup"):
        wait_for_faults(guest, record, pid)
    return pid


def wait_for_faults(guest: Guest, record: TrialRecord, pid: int) -> None:
    """Wait until the guest has put the faults in place; each step of its workload extends the limit."""
    machine = guest.machine
    start = time.monotonic()
    patience = start + record.planned.warmup_s + _WARMUP_SLACK_S
    while not read_evidence(machine.evidence.text()).injected:
        if record.progress.feed(machine.progress.new()):
            patience = min(max(patience, time.monotonic() + _WARMUP_SLACK_S), start + _LONGEST_WARMUP_S)
        not_crashed(machine)
        if time.monotonic() > patience:
            ended = machine.status(pid)
            output = (ended.stdout + ended.stderr)[-300:] if ended else b"no step in time"
            raise InfraError(f"no fault was put in place: {record.progress.error or output!r}")
        time.sleep(0.02)
    record.progress.feed(machine.progress.new())
    if guest.reports_steps and not record.progress.done:
        raise InfraError("the workload had made no step when the faults were put in place")


def start_workload(guest: Guest, record: TrialRecord) -> int:
    """Start the workload with the trial's seed; return its process id in the guest."""
    record.progress = Progress(record.planned.workload_seed)
    return guest.machine.spawn(guest.command("start", seed=record.planned.workload_seed))


def warm_up(guest: Guest, record: TrialRecord, pid: int) -> None:
    """Let the workload run for the warm-up; InfraError if it ends or does not reach its first step."""
    deadline = time.monotonic() + record.planned.warmup_s
    patience = deadline + _WARMUP_SLACK_S
    while time.monotonic() < deadline or (guest.reports_steps and record.progress.done == 0):
        not_crashed(guest.machine)
        record.progress.feed(guest.machine.progress.new())
        if record.progress.error or time.monotonic() > patience:
            raise InfraError(f"workload did not get going: {record.progress.error or 'no step in time'}")
        time.sleep(0.02)
    try:
        ended = guest.machine.status(pid)
    except AgentLost:
        not_crashed(guest.machine)
        raise
    if ended is not None:
        output = (ended.stdout + ended.stderr).decode("utf-8", "replace").strip()[-200:]
        raise InfraError(f"workload ended with status {ended.status} before any fault: {output}")


def not_crashed(machine: Machine) -> None:
    """Raise EarlyCrash if the guest crashed before any fault was in place."""
    console = machine.console.text()
    # In this order: a fault may be injected and crash the guest between the two reads.
    if formats.started(console) and not read_evidence(machine.evidence.text()).injected:
        raise EarlyCrash(crash_on(console) or Crash("panic", formats.with_telling_line("unknown", console)))


def inject(guest: Guest, record: TrialRecord) -> None:
    """Put the faults in place; InfraError if the injector refuses them.

    The evidence log decides, not the agent's answer: a fault may kill the guest before the agent answers.
    """
    if not record.faults:
        return
    script = f"cat >/run/faults; cat /run/faults >{INJECTOR}; echo $? >/run/injected"
    with suppress(AgentLost):
        guest.machine.spawn(["/bin/sh", "-c", script], stdin=commands(record.faults).encode())
    deadline = time.monotonic() + _INJECT_S
    while not read_evidence(guest.machine.evidence.text()).injected:
        not_crashed(guest.machine)
        if time.monotonic() > deadline:
            answer = guest.machine.run(["/bin/sh", "-c", "cat /run/injected; dmesg | tail -n 2"])
            raise InfraError(f"the injector did not accept the faults: {answer.stdout[-300:]!r}")
        time.sleep(0.01)


def end_workload(guest: Guest, record: TrialRecord, pid: int) -> None:
    """Stop the workload and wait for its end: the check cannot judge a step in flight."""
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
    """Read console and evidence before stage 0 adds to them."""
    record.console = guest.machine.console.text()
    record.evidence = read_evidence(guest.machine.evidence.text())
