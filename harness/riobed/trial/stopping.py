# SPDX-License-Identifier: Apache-2.0
"""Stop the workload before something is planted: at its end, or in the middle of a step."""

import time

from riobed.errors import InfraError
from riobed.guest import GUEST_DIR, GUEST_FOLDER, Guest
from riobed.trial.guest_time import guest_time
from riobed.trial.hear import hear
from riobed.trial.record import TrialRecord

_STOP_S = 10.0
# Number of times that it is stopped and goes on, until a step is in flight.
_STOPS = 50
# Sends signal $1 to all processes that a workload began, which are where its files are. After STOP it waits
# until each of them stands still, because a system call is finished first.
_SIGNAL = f"""
found=$(find /proc/[0-9]*/cwd -maxdepth 0 -printf '%h %l\\n' 2>/dev/null |
	grep -e ' {GUEST_FOLDER}' -e ' {GUEST_DIR}' | cut -d ' ' -f 1)
for process in $found; do
	kill -"$1" "${{process#/proc/}}"
	while [ "$1" = STOP ] && grep -q '^State:.[^TZ]' "$process/status" 2>/dev/null; do sleep 0.01; done
done
"""


def stop_workload(guest: Guest, record: TrialRecord, pid: int) -> int | None:
    """Stop the workload as the plan says; return the step that it is in, None if it has ended."""
    # Who has to be asked where its bytes are must not be in the middle of changing them.
    if record.planned.in_step and guest.reports_steps and not guest.names_places:
        return stop_in_step(guest, record)
    end_workload(guest, record, pid)
    return None


def end_workload(guest: Guest, record: TrialRecord, pid: int) -> None:
    """Tell the workload to stop, and wait for its end."""
    guest.machine.run(guest.command("stop", seed=record.planned.workload_seed), timeout=_STOP_S)
    deadline = guest_time(guest.machine) + _STOP_S
    while guest.machine.status(pid) is None:
        if guest_time(guest.machine) > deadline:
            raise InfraError("the workload did not end when it was told to stop")
        time.sleep(0.02)
    hear(guest.machine, record.progress)
    if guest.reports_steps and not record.progress.finished:
        raise InfraError("the workload did not end with the step it was in")


def stop_in_step(guest: Guest, record: TrialRecord) -> int:
    """Let the workload stand still, for good, between two system calls of a step; return the step."""
    for _ in range(_STOPS):
        _signal(guest, "STOP")
        hear(guest.machine, record.progress)
        if step := record.progress.in_flight:
            return step
        _signal(guest, "CONT")
    raise InfraError(f"the workload had no step in flight, {_STOPS} times")


def _signal(guest: Guest, name: str) -> None:
    guest.machine.run(["/bin/sh", "-c", _SIGNAL, "signal", name], timeout=_STOP_S)
