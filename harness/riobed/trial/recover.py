# SPDX-License-Identifier: Apache-2.0
"""After a crash: reset the machine with RAM kept, wait for stage 0's recovery, and run the workload's check.

Recovery can be restarted at any moment. If it fails, the machine is reset again, as an unattended machine
would be. If it fails every time, the crash caused that: it is a result, a bad one, and must not be redrawn.
"""

from pydantic import ValidationError
from riobed_results.store import RecoveryReport

from riobed.crash import formats
from riobed.errors import BootError, InfraError, complaint
from riobed.guest import Guest, boot_production, wait_stage0
from riobed.trial.interrupt import interrupt_recovery
from riobed.trial.record import TrialRecord
from riobed.trial.verdict import read_check
from riobed.vm import AgentLost

_CHECK_S = 300.0
RECOVERY_TRIES = 3
_BEGUN = b"riorecover: "
_MAX_REPORT = 1 << 16


def recover(guest: Guest, record: TrialRecord) -> None:
    """Fill in `recovery` and `check`, or `unrecovered` if recovery failed; InfraError if we failed."""
    machine = guest.machine
    reset = not (record.observation and record.observation.restarted)
    for _ in range(RECOVERY_TRIES):
        try:
            restart(guest, record, reset)
            judge(guest, record)
            return
        except (BootError, AgentLost) as error:
            if trouble := machine.trouble():
                raise InfraError(f"after the crash: {trouble}") from None
            console, why = machine.console.text(), error
            record.console += b"\n=== recovery, failed ===\n" + console
            record.recovery = record.check = None
            reset = True
    if _BEGUN not in console:
        # riorecover never started. Until it does, stage 0 uses nothing of the crashed kernel, so we failed.
        raise InfraError(f"after the crash: {why}")
    crash = formats.recognise(console)
    record.unrecovered = f"recovery failed: {crash.title if crash else why}"


def restart(guest: Guest, record: TrialRecord, reset: bool) -> None:
    """Reset the machine if `reset`, wait for recovery, and read riorecover's report."""
    machine = guest.machine
    with record.phase("reset"):
        if reset:
            machine.console.clear()
            machine.reset()
        if record.planned.recovery_reset_s is not None and not record.interruption:
            cut_recovery_short(guest, record, record.planned.recovery_reset_s)
        wait_stage0(machine)
        # The workload may have run until the moment of the reset.
        record.progress.feed(machine.progress.new())
        if machine.progress.full:
            raise InfraError("the progress log is full, so it is not known which steps were done")
    with record.phase("report"):
        report = read_recovery(guest)
        record.recovery = report.model_copy(update={"interrupted": record.interruption})


def judge(guest: Guest, record: TrialRecord) -> None:
    """Let the workload check its files, if the file system could be mounted."""
    if record.recovery and record.recovery.mount_error:
        keep_recovery_log(guest, record)
        return
    with record.phase("check"):
        argv = guest.command(
            "check",
            seed=record.planned.workload_seed,
            done=record.progress.done,
            intent=record.progress.in_flight,
        )
        record.check = read_check(guest.machine.run(argv, timeout=_CHECK_S))
    if not record.check.equal:
        keep_recovery_log(guest, record)


def restart_production(guest: Guest, record: TrialRecord) -> None:
    """Start the production kernel after a complete recovery, and note in its report whether it came up.

    That it does not come is a result; InfraError only if the machine itself fails.
    """
    if not record.recovery or record.recovery.complete is False:
        return
    machine = guest.machine
    begin = len(machine.console.text())
    up = True
    try:
        with record.phase("production"):
            boot_production(machine)
    except (BootError, AgentLost) as error:
        if trouble := machine.trouble():
            raise InfraError(f"after the recovery: {trouble}") from None
        up, record.not_restarted = False, f"the production kernel did not come up: {error}"
        record.console += b"\n=== production, not up ===\n" + machine.console.text(begin)
    record.recovery = record.recovery.model_copy(update={"production": up})


def cut_recovery_short(guest: Guest, record: TrialRecord, planned_s: float) -> None:
    """Crash in recovery: reset in the middle of it; the next recovery has to restore everything."""
    record.interruption, log = interrupt_recovery(guest.machine, planned_s)
    record.console += b"\n=== recovery, cut short ===\n" + log


def keep_recovery_log(guest: Guest, record: TrialRecord) -> None:
    """Append recovery's console and e2fsck's log to the console log: they may explain a corruption."""
    fsck = guest.machine.run(["/bin/cat", "/run/e2fsck.log"]).stdout[:_MAX_REPORT]
    record.console += b"\n=== recovery ===\n" + guest.machine.console.text() + b"\n=== e2fsck ===\n" + fsck


def read_recovery(guest: Guest) -> RecoveryReport:
    """Read riorecover's report from the guest; InfraError if it is missing or not valid."""
    result = guest.machine.run(["/bin/cat", "/run/recovery.json"])
    try:
        return RecoveryReport.model_validate_json(result.stdout[:_MAX_REPORT])
    except ValidationError as error:
        raise InfraError(f"stage 0 left no readable recovery report: {complaint(error, 'file')}") from None
