# SPDX-License-Identifier: Apache-2.0
"""Stop the workload before something is planted: at its end, or in the middle of a step."""

import time

from riobed.errors import InfraError
from riobed.guest import GUEST_DIR, GUEST_FOLDER, Guest
from riobed.plan import PlannedTrial
from riobed.trial.observe.clock import unstolen_time
from riobed.trial.observe.progress import Progress, Streams, poll_progress

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


def stop_workload(guest: Guest, planned: PlannedTrial, progress: Progress | Streams, pid: int) -> int | None:
    """Stop the workload as the plan says; return the step that it is in, None if it has ended."""
    # Who has to be asked where its bytes are must not be in the middle of changing them.
    if planned.in_step and guest.workload.reports_steps and not guest.workload.names_places:
        return stop_in_step(guest, progress)
    end_workload(guest, planned.workload_seed, progress, pid)
    return None


def end_workload(guest: Guest, seed: int, progress: Progress | Streams, pid: int) -> None:
    """Tell the workload to stop, and wait for its end."""
    guest.machine.run(guest.workload.command("stop", seed=seed), timeout=_STOP_S)
    deadline = unstolen_time(guest.machine) + _STOP_S
    while guest.machine.status(pid) is None:
        if unstolen_time(guest.machine) > deadline:
            raise InfraError("the workload did not end when it was told to stop")
        time.sleep(0.02)
    poll_progress(guest.machine, progress)
    if guest.workload.reports_steps and not progress.finished:
        raise InfraError("the workload did not end with the step it was in")


def stop_in_step(guest: Guest, progress: Progress | Streams) -> int:
    """Let the workload stand still, for good, between two system calls of a step; return the step."""
    for _ in range(_STOPS):
        _signal(guest, "STOP")
        poll_progress(guest.machine, progress)
        if step := progress.in_flight:
            return step
        _signal(guest, "CONT")
    raise InfraError(f"the workload had no step in flight, {_STOPS} times")


def _signal(guest: Guest, name: str) -> None:
    guest.machine.run(["/bin/sh", "-c", _SIGNAL, "signal", name], timeout=_STOP_S)
