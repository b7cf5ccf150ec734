# SPDX-License-Identifier: Apache-2.0
"""One trial from start to verdict, as a readable sequence."""

import time
from collections.abc import Collection

from riobed_results.store import LOSSES_OF_POWER

from riobed.crash import formats
from riobed.crash.formats import Crash
from riobed.errors import InfraError
from riobed.faults import CLASSES, commands
from riobed.guest import STAGE0, Guest, WarmStart
from riobed.plan import CampaignSpec
from riobed.trial.control.plant import PLANTED, note_e2fsck, plant
from riobed.trial.control.stopping import stop_workload
from riobed.trial.observe.clock import unstolen_time
from riobed.trial.observe.evidence import read_evidence
from riobed.trial.observe.panicking import PANIC, bring_down, panic_on_request
from riobed.trial.observe.progress import poll_progress, progress
from riobed.trial.observe.watch import Observation, Watcher, crash_on, crash_outcome
from riobed.trial.record import TrialRecord
from riobed.trial.recovery.recover import recover, restart_production
from riobed.trial.verdict import decide
from riobed.vm import AgentLost, ExecResult, Machine

_WARMUP_SLACK_S = 30.0
# For a guest whose clock is slower than the host's.
_LONGEST_WARMUP_S = 900.0
_INJECT_S = 10.0
# By the host's clock: loading maps pages and sets hooks.
_LOAD_S = 60.0
INJECTOR = "/dev/riobed-inject"
_INJECTOR_SAYS = "riobed_inject: "
# In a deterministic guest: loads the faults that come on standard input, then becomes the workload, whose
# command are its arguments.
_LOADED = f"""
cat >{INJECTOR} || {{ dmesg -t | grep riobed_inject | tail -n 1 >&2; exit 1; }}
exec "$@" </dev/null
"""
# A workload that reports steps and was silent for so long is asked whether it has ended.
_SILENCE_S = 1.0
# The process id of riobed-init.
_INIT = 1


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
            how = begin_repeatably if repeatably else begin if record.planned.run_on_s is None else begin_warm
            pid = how(guest, record)
        except EarlyCrash as early:
            if record.planned.fault_class not in ("none", PANIC):
                raise
            # For a negative control, a crash without a fault is the finding.
            record.observation = Observation(crash_outcome(early.crash), early.crash, 0.0, "running")
        else:
            stolen_s = guest.machine.steal_time()
            with record.phase("watch"):
                record.observation = observe(guest, spec, record, pid)
            record.steal_s = guest.machine.steal_time() - stolen_s
        if not record.observation.crash:
            with record.phase("bring_down"):
                record.observation = bring_down(
                    guest.machine, record.observation, record.progress, guest.mode.panic_sync_s
                )
        read_logs(guest, record)
        recover(guest, record)
        # Not before: a kernel that hangs may still store. What recovers has no use for the canary.
        record.canary = guest.canary_hits()
        if record.plant and not record.unrecovered:
            record.plant = note_e2fsck(guest, record.plant)
        if spec.boot_production:
            restart_production(guest, record)
        power_lost = record.restart in LOSSES_OF_POWER
        hit = bool(record.canary and record.canary.blocks)
        record.verdict = decide(
            record.observation, record.recovery, record.broken, record.unrecovered, power_lost, hit
        )
    finally:
        # With an observation the console was already read, before stage 0 added to it.
        if not record.observation:
            record.console = guest.machine.console.text()


def observe(guest: Guest, spec: CampaignSpec, record: TrialRecord, pid: int) -> Observation:
    """Observe the guest until a crash or the trial's end; without faults, the harness brings it down."""
    record.begun = unstolen_time(guest.machine)
    if record.faults:
        poll_progress(guest.machine, record.progress)
        record.steps_at_injection = record.progress.done
        waiting = [fault.index for fault in record.faults if CLASSES[fault.fault_class].waits]
        steps = guest.workload.reports_steps
        agent, sync_s = guest.known.agent, guest.mode.panic_sync_s
        return Watcher(guest.machine, spec, record.progress, pid, steps, waiting, agent, sync_s).watch()
    time.sleep(record.planned.undisturbed_s)
    if crash := crash_on(guest.machine.console.text()):
        return Observation(crash_outcome(crash), crash, 0.0, "running")
    if record.planned.fault_class == PANIC:
        by, sync_s = record.planned.panic_by, guest.mode.panic_sync_s
        crash = panic_on_request(guest.machine, by, record.progress, sync_s)
    by_us = "power lost" if record.planned.restart in LOSSES_OF_POWER else "reset by the harness"
    return Observation("survived", crash or Crash("reset", by_us), 0.0, "running")


def begin(guest: Guest, record: TrialRecord) -> int:
    """Restore the snapshot, start the workload and inject the faults; return the workload's process id."""
    planned = record.planned
    with record.phase("restore"):
        record.restore_checked = guest.ready(fresh=planned.fresh_boot, check=planned.check_restore)
    with record.phase("warmup"):
        pid = start_workload(guest, record)
        warm_up(guest, record, pid)
    with record.phase("inject"):
        plant_or_inject(guest, record, pid)
    return pid


def begin_warm(guest: Guest, record: TrialRecord) -> int:
    """Start from where this round's warm-up ended, and inject; return the workload's process id."""
    planned = record.planned
    with record.phase("restore"):
        warm = None if planned.fresh_boot else guest.start_warm(planned.round_seed, planned.check_restore)
        record.restore_checked = planned.check_restore and warm is not None
    if not warm:
        warm = warm_up_round(guest, record)
    record.snapshot = warm.memory.hex()[:16]
    record.progress = progress(planned.workload_seed, guest.workload.streams)
    record.progress.feed(warm.progress)
    record.reported_before = warm.progress
    with record.phase("inject"):
        load_faults(guest, record)
        run_on(guest, record, warm.pid)
        plant_or_inject(guest, record, warm.pid)
    return warm.pid


def warm_up_round(guest: Guest, record: TrialRecord) -> WarmStart:
    """Warm the workload up, and keep the end of it as the start of this round's trials."""
    planned = record.planned
    with record.phase("restore"):
        guest.ready(fresh=planned.fresh_boot)
    with record.phase("warmup"):
        pid = spawn_workload(guest, record)
        warm_up(guest, record, pid)
        return guest.keep_warm(planned.round_seed, pid)


def load_faults(guest: Guest, record: TrialRecord) -> None:
    """Let the agent load the trial's faults, which then wait for an interrupt; InfraError if it cannot."""
    if not record.faults:
        return
    machine, refused = guest.machine, ""
    try:
        machine.write_file(INJECTOR, commands(record.faults, "nmi").encode(), timeout=_LOAD_S)
    except InfraError as error:
        refused = str(error)
    not_crashed(machine)
    if refused or read_evidence(machine.evidence.text()).ready != len(record.faults):
        said = [line for line in formats.clean(machine.console.text()).splitlines() if _INJECTOR_SAYS in line]
        raise InfraError("; ".join(["the injector did not load the faults", refused, *said[-1:]]))


def run_on(guest: Guest, record: TrialRecord, pid: int) -> None:
    """Let the workload run on until the moment of injection; InfraError if it ends."""
    machine = guest.machine
    deadline = unstolen_time(machine) + (record.planned.run_on_s or 0.0)
    while unstolen_time(machine) < deadline:
        not_crashed(machine)
        time.sleep(0.005)
    poll_progress(machine, record.progress)
    if record.progress.finished or not guest.workload.reports_steps:
        not_ended(machine, pid)


def plant_or_inject(guest: Guest, record: TrialRecord, pid: int) -> None:
    """Do to the warm guest what the trial's class says."""
    planned = record.planned
    if planned.fault_class == PLANTED:
        step = stop_workload(guest, planned, record.progress, pid)
        record.plant = plant(guest, planned.change, planned.fault_rng(), step)
    else:
        inject(guest, record)


def start_workload(guest: Guest, record: TrialRecord) -> int:
    """Load the trial's faults, which wait for an interrupt, and start its workload; return its process id."""
    load_faults(guest, record)
    return spawn_workload(guest, record)


def spawn_workload(guest: Guest, record: TrialRecord) -> int:
    """Start the trial's workload, and follow its steps from then on; return its process id."""
    seed = record.planned.workload_seed
    record.progress = progress(seed, guest.workload.streams)
    return guest.machine.spawn(guest.workload.command("start", seed=seed))


def begin_repeatably(guest: Guest, record: TrialRecord) -> int:
    """Do the same deterministically: the guest gets everything at once and times it by its own clock."""
    planned = record.planned
    argv, stdin = workload_with_faults(guest, record)
    with record.phase("restore"):
        pid = guest.start(argv, stdin, fresh=planned.fresh_boot, check=planned.check_restore)
        record.restore_checked = planned.check_restore
    with record.phase("warmup"):
        wait_for_faults(guest, record, pid)
    return pid


def workload_with_faults(guest: Guest, record: TrialRecord) -> tuple[list[str], bytes]:
    """Return the command that loads the trial's faults and starts its workload, and its standard input.

    Nothing may talk to a deterministic guest, so it is a process that loads. That is over before the workload
    begins. No process injects.
    """
    planned = record.planned
    record.progress = progress(planned.workload_seed, guest.workload.streams)
    batch = commands(record.faults, f"after {round(planned.warmup_s * 1000)}")
    argv = ["/bin/sh", "-c", _LOADED, "trial", *guest.workload.command("start", seed=planned.workload_seed)]
    return argv, batch.encode()


def how_ended(ended: ExecResult | None) -> str:
    """Describe how a command ended, with the end of its output."""
    if ended is None:
        return "its command still runs"
    lines = (ended.stdout + ended.stderr).decode("utf-8", "replace").strip().splitlines()
    return f"status {ended.status}: {'; '.join(lines[-2:])[-300:]}"


def wait_for_faults(guest: Guest, record: TrialRecord, pid: int) -> None:
    """Wait until the guest has put the faults in place; each step of its workload extends the limit."""
    machine = guest.machine
    start = unstolen_time(machine)
    patience = start + record.planned.warmup_s + _WARMUP_SLACK_S
    while not read_evidence(machine.evidence.text()).injected:
        if poll_progress(machine, record.progress):
            patience = min(max(patience, unstolen_time(machine) + _WARMUP_SLACK_S), start + _LONGEST_WARMUP_S)
        not_crashed(machine)
        if unstolen_time(machine) > patience:
            why = record.progress.error or how_ended(machine.status(pid))
            raise InfraError(f"no fault was put in place in time: {why}")
        time.sleep(0.02)
    poll_progress(machine, record.progress)
    if guest.workload.reports_steps and (record.progress.finished or not record.progress.done):
        what = "ended" if record.progress.finished else "made no step"
        raise InfraError(f"the workload had {what} when the faults were put in place")


def warm_up(guest: Guest, record: TrialRecord, pid: int) -> None:
    """Let the workload run for the warm-up; InfraError if it ends or does not reach its first step.

    The agent is not asked if steps tell that the workload lives: what answers might be what the faults hit.
    """
    machine = guest.machine
    steps = guest.workload.reports_steps
    heard = start = unstolen_time(machine)
    deadline = start + record.planned.warmup_s
    while (now := unstolen_time(machine)) < deadline or (steps and record.progress.done == 0):
        not_crashed(machine)
        if poll_progress(machine, record.progress):
            heard = now
        if record.progress.error or now > deadline + _WARMUP_SLACK_S:
            raise InfraError(f"workload did not get going: {record.progress.error or 'no step in time'}")
        time.sleep(0.02)
    if record.progress.finished or now - heard > _SILENCE_S or not steps:
        not_ended(machine, pid)


def not_ended(machine: Machine, pid: int) -> None:
    """Raise InfraError if the workload has ended."""
    try:
        ended = machine.status(pid)
    except AgentLost:
        not_crashed(machine)
        raise
    if ended is not None:
        raise InfraError(f"workload ended before any fault: {how_ended(ended)}")


def not_crashed(machine: Machine) -> None:
    """Raise EarlyCrash if the guest crashed before any fault was in place."""
    console = machine.console.text()
    # In this order: a fault may be injected and crash the guest between the two reads.
    if formats.started(console) and not read_evidence(machine.evidence.text()).injected:
        raise EarlyCrash(crash_on(console) or Crash("panic", formats.with_telling_line("unknown", console)))


def inject(guest: Guest, record: TrialRecord) -> None:
    """Let the loaded faults take effect; InfraError if the injector says nothing of it."""
    if not record.faults:
        return
    machine = guest.machine
    machine.nmi()
    deadline = unstolen_time(machine) + _INJECT_S
    while not read_evidence(machine.evidence.text()).injected:
        not_crashed(machine)
        if unstolen_time(machine) > deadline:
            raise InfraError("the injector did not answer the interrupt that triggers it")
        time.sleep(0.01)


def of_harness(pid: int, agent: Collection[int]) -> bool | None:
    """Whether a task is the harness's, by its process id; None if those of the agent are unknown.

    While a trial is watched, the harness has the agent and init in the guest, and starts nothing else there.
    """
    return pid == _INIT or pid in agent if agent else None


def read_logs(guest: Guest, record: TrialRecord) -> None:
    """Read what the guest wrote before a restart takes or adds to it, and what is known without asking it."""
    poll_progress(guest.machine, record.progress)
    record.console = guest.machine.console.text()
    record.evidence = read_evidence(guest.machine.evidence.text())
    record.chunks = guest.propagation_log()
    stamp = formats.moment(record.console)
    record.crash_guest_s = None if stamp is None else record.evidence.of_log(stamp)
    # A processor that reset itself may already be in stage 0.
    before = record.console.partition(STAGE0)[0]
    record.complaints = formats.complaints(before)
    if guest.mode.panic_sync_s:
        record.panic_sync = formats.sync_at_panic(before)
    if victim := formats.victim(record.console):
        record.victim = victim.name
        record.harness_victim = of_harness(victim.pid, guest.known.agent)
    record.snapshot = record.snapshot or guest.snapshot
    record.boot = guest.known.boot_id
    record.cache = guest.known.cache
