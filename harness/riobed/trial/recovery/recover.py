# SPDX-License-Identifier: Apache-2.0
"""After a crash: restart the machine, wait for stage 0's recovery, run the workload's check.

RAM is kept, unless the plan has a loss of power.

Recovery can be restarted at any moment. If it fails, the machine is reset again, as an unattended machine
would be. If it fails every time, the crash caused that: it is a result, a bad one, and must not be redrawn.
"""

from dataclasses import asdict
from typing import Any

from pydantic import ValidationError
from riobed_results.store import LOSSES_OF_POWER, CheckReport, RecoveryReport, Restart

from riobed.crash import formats
from riobed.errors import BootError, InfraError, complaint
from riobed.guest import Beside, Guest, Parking, boot_production, wait_stage0
from riobed.trial.observe.progress import poll_progress, progress
from riobed.trial.record import TrialRecord
from riobed.trial.recovery.bystanders import check_outside
from riobed.trial.recovery.check import CHECK_S, check_files, differing
from riobed.trial.recovery.interrupt import interrupt_recovery
from riobed.trial.verdict import broken
from riobed.vm import AgentLost

RECOVERY_TRIES = 3
_BEGUN = b"riorecover: "
_MAX_REPORT = 1 << 16


def recover(guest: Guest, record: TrialRecord) -> None:
    """Fill in `recovery` and `check`, or `unrecovered` if recovery failed; InfraError if we failed.

    If the plan says so, recovery also runs before, from a copy, and what differs is noted.
    """
    if record.planned.restart in LOSSES_OF_POWER:
        # Also if it restarted by itself: what recovery had not written yet is lost as well.
        recover_by(guest, record, record.planned.restart)
    elif record.observation and record.observation.restarted:
        recover_by(guest, record, None)
    elif guest.parking and record.planned.restart == "both":
        copied = recover_copy(guest, guest.parking, record)
        recover_by(guest, record, None)
        record.restart = "both"
        record.restart_differs = ", ".join(differing(findings(copied), findings(record)))
    else:
        recover_by(guest, record, record.planned.restart if guest.parking else "reset")


def recover_copy(guest: Guest, parking: Parking, record: TrialRecord) -> TrialRecord:
    """Recover by the parked stage 0, then put the crash back and reset; return that recovery's record.

    That the parked stage 0 does not work is a difference; InfraError only if the machine itself fails.
    """
    copied = TrialRecord(
        record.planned, record.faults, progress=record.progress, reported_before=record.reported_before
    )
    with record.phase("copy"):
        copy = parking.copy()
        try:
            recover_by(guest, copied, "parked")
        except InfraError as error:
            if guest.machine.failure():
                raise
            copied.unrecovered = str(error)
        copy.restore()
        # In this order nothing of the crashed kernel runs again.
        guest.machine.console.clear()
        guest.machine.reset()
        guest.machine.resume()
    return copied


def findings(record: TrialRecord) -> dict[str, Any]:
    """Return what a recovery and its check found, without what no two of them have in common: the time."""
    recovery = record.recovery.model_dump(mode="json", exclude={"seconds"}) if record.recovery else None
    check = record.check.model_dump(mode="json") if record.check else None
    unrecovered = bool(record.unrecovered)
    return {"recovery": recovery, "check": check, "unrecovered": unrecovered, "tries": record.tries}


def recover_by(guest: Guest, record: TrialRecord, how: Restart | None) -> None:
    """Restart the machine in that way, recover and check; None: it has restarted by itself.

    After a recovery that failed, the next try begins with a reset.
    """
    machine = guest.machine
    record.promise = guest.workload.judged_by
    for record.tries in range(1, RECOVERY_TRIES + 1):
        try:
            restart(guest, record, how)
            judge(guest, record)
            return
        except (BootError, AgentLost) as error:
            if failure := machine.failure():
                raise InfraError(f"after the crash: {failure}") from None
            console, why = machine.console.text(), error
            record.console += b"\n=== recovery, failed ===\n" + console
            record.recovery = record.check = record.broken = None
            how = "reset"
    if _BEGUN not in console:
        # riorecover never started. Until it does, stage 0 uses nothing of the crashed kernel, so we failed.
        raise InfraError(f"after the crash: {why}")
    crash = formats.recognise(console)
    record.unrecovered = f"recovery failed: {crash.title if crash else why}"


def restart(guest: Guest, record: TrialRecord, how: Restart | None) -> None:
    """Restart the machine unless it has done so, wait for recovery, and read riorecover's report."""
    machine = guest.machine
    # What a loss of power took does not come back by a further reset, and what a parked stage 0 did is done.
    if record.tries == 1:
        record.restart = how
    with record.phase("reset"):
        if how:
            machine.console.clear()
        if how == "parked" and guest.parking:
            guest.parking.restart()
        elif how in LOSSES_OF_POWER:
            record.lines = machine.power_loss(record.planned.noise_seed)
        elif how:
            machine.reset()
        # At once: what is heard after the boot would seem to be that late.
        poll_progress(machine, record.progress)
        if record.planned.recovery_reset_s is not None and not record.interruption:
            cut_recovery_short(guest, record, record.planned.recovery_reset_s)
        wait_stage0(machine)
        # Some of it may have been on its way.
        poll_progress(machine, record.progress)
        if machine.progress.full:
            raise InfraError("the progress log is full, so it is not known which steps were done")
    with record.phase("report"):
        report = read_recovery(guest)
        if report.boot_id not in (None, guest.known.boot_id):
            raise InfraError(f"recovery found memory of boot {report.boot_id}, not of {guest.known.boot_id}")
        record.recovery = report.model_copy(update={"interrupted": record.interruption})


def judge(guest: Guest, record: TrialRecord) -> None:
    """Let the workload check its files, if the file system could be mounted."""
    if record.recovery and record.recovery.mount_error:
        keep_recovery_log(guest, record)
        return
    reported = record.progress.reported
    if record.promise == "synced":
        reported["oldest"] = 0
    check = guest.workload.check(None, seed=record.planned.workload_seed, **reported)
    record.check = check_files(guest, record, check)
    beside = [check_beside(guest, record, each) for each in guest.workload.beside]
    if guest.known.outside:
        with record.phase("check"):
            beside.append(check_outside(guest, CHECK_S))
    if beside:
        record.check = CheckReport.model_validate(record.check.model_dump() | {"beside": beside})
    record.broken = broken(
        record.check, guest.mode.promised, record.progress.seconds_lost(record.check.steps_lost)
    )
    if record.broken or (record.recovery and record.recovery.trouble):
        keep_recovery_log(guest, record)


def check_beside(guest: Guest, record: TrialRecord, beside: Beside) -> dict[str, Any]:
    """Let a workload that ran beside the judged one check its files; return its name and its report."""
    seed = record.planned.workload_seed
    reports = progress(seed, beside.workload.streams, beside.slot.stream)
    reports.feed(record.reported_before + guest.machine.progress.text())
    check = guest.workload.check(beside, seed=seed, **reports.reported)
    report = check_files(guest, record, check)
    errors = [asdict(error) for error in reports.errors]
    return report.model_dump() | {"workload": beside.workload.name, "done": reports.done, "errors": errors}


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
        if failure := machine.failure():
            raise InfraError(f"after the recovery: {failure}") from None
        up, record.not_restarted = False, f"the production kernel did not come up: {error}"
        record.console += b"\n=== production, not up ===\n" + machine.console.text(begin)
    record.recovery = record.recovery.model_copy(update={"production": up})


def cut_recovery_short(guest: Guest, record: TrialRecord, planned_s: float) -> None:
    """Crash in recovery: reset in the middle of it; the next recovery has to restore everything."""
    record.interruption, log = interrupt_recovery(guest.machine, planned_s)
    record.console += b"\n=== recovery, cut short ===\n" + log


def keep_recovery_log(guest: Guest, record: TrialRecord) -> None:
    """Append to the console log that of recovery, and what the file system's check or repair said."""
    fsck = guest.machine.read_file("/run/e2fsck.log")[:_MAX_REPORT]
    record.console += b"\n=== recovery ===\n" + guest.machine.console.text() + b"\n=== e2fsck ===\n" + fsck


def read_recovery(guest: Guest) -> RecoveryReport:
    """Read riorecover's report from the guest.

    InfraError if it is missing or not valid, or if the file system's check could not check.
    """
    text = guest.machine.read_file("/run/recovery.json")
    try:
        report = RecoveryReport.model_validate_json(text[:_MAX_REPORT])
    except ValidationError as error:
        raise InfraError(f"stage 0 left no readable recovery report: {complaint(error, 'file')}") from None
    if report.unchecked:
        raise InfraError(f"recovery: {report.unchecked}")
    return report
