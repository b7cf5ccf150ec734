# SPDX-License-Identifier: Apache-2.0
"""Tell a kernel to panic: a sound one, for the control `panic`, or one that survived its faults.

SysRq c panics in the context of a process. A non-maskable interrupt comes between any two instructions, on
each processor; the guest's kernel panics because it knows no reason for it (`unknown_nmi_panic`).
"""

import time
from contextlib import suppress
from dataclasses import replace

from riobed_results.store import PANICS

from riobed.crash import formats
from riobed.crash.formats import Crash
from riobed.errors import InfraError
from riobed.guest import STAGE0
from riobed.trial.observe.clock import unstolen_time
from riobed.trial.observe.progress import Progress, Streams, poll_progress
from riobed.trial.observe.watch import Observation
from riobed.vm import AgentLost, Machine

PANIC = "panic"
_PANIC_S = 60.0
# By the host's clock, so that no guest can extend it. A kernel that still can panics within a second.
_DOWN_S = 10.0
_POLL_S = 0.02
# The keys of PANICS in words of a row.
_BY = {"nmi": "an NMI", "sysrq": "SysRq c"}
# The title of SysRq c's panic (sysrq_handle_crash() in drivers/tty/sysrq.c).
_BY_SYSRQ = "panic: sysrq triggered crash"


def panic_on_request(
    machine: Machine, by: str, progress: Progress | Streams, panic_sync_s: float = 0.0
) -> Crash:
    """Make a sound kernel panic and wait until it has stopped; `by` is a key of PANICS.

    InfraError if it has not stopped after a minute, and `panic_sync_s` more, in which it may write.
    """
    _request(machine, by)
    if not _stopped(machine, progress, _PANIC_S + panic_sync_s):
        raise InfraError(f"no panic within {_PANIC_S:.0f} s of asking the kernel for one by {by}")
    return Crash("panic", PANICS[by])


def bring_down(
    machine: Machine, survived: Observation, progress: Progress | Streams, panic_sync_s: float = 0.0
) -> Observation:
    """Bring down a guest that survived, so that it is judged as a crash is; return how it went down.

    That is a panic by a non-maskable interrupt, which needs no help of the guest's programs. But a kernel
    that may write dirty data at a panic, for `panic_sync_s` seconds, writes none in an interrupt. It is asked
    by SysRq first, because it would go on and write all. A guest that does not answer is left to the reset
    that follows, and the detail says so.
    """
    before = len(machine.console.text())
    by, stopped = "sysrq", False
    if panic_sync_s:
        _request(machine, by)
        stopped = _stopped(machine, progress, _DOWN_S + panic_sync_s)
    # A kernel that has begun to panic takes no other one.
    if not stopped and not formats.started(machine.console.text(before)):
        by = "nmi"
        _request(machine, by)
        stopped = _stopped(machine, progress, _DOWN_S)
    said = machine.console.text(before)
    answer = formats.recognise(said)
    restarted = STAGE0 in said
    if stopped and not restarted:
        crash = Crash("panic", PANICS[by])
    else:
        crash = Crash("reset", f"processor reset by {_BY[by]}" if restarted else "reset by the harness")
    told = [survived.detail]
    if not stopped and by == "nmi":
        told.append(f"no panic within {_DOWN_S:.0f} s of {_BY[by]}")
    # The panic of an NMI is recognised as a hang, because that is what it usually tells of.
    if answer and answer.kind != "hang" and answer.title != _BY_SYSRQ:
        told.append(f"{_BY[by]} was answered with: {answer.title}")
    return replace(survived, crash=crash, detail="; ".join(filter(None, told)), restarted=restarted)


def _request(machine: Machine, by: str) -> None:
    if by == "nmi":
        machine.nmi()
    else:
        # It may not live long enough to answer.
        with suppress(AgentLost):
            machine.spawn(["/bin/sh", "-c", "echo c >/proc/sysrq-trigger"])


def _stopped(machine: Machine, progress: Progress | Streams, within_s: float) -> bool:
    """Wait until the kernel has stopped or the processor reset itself; False if neither happens in time."""
    deadline = unstolen_time(machine) + within_s
    while True:
        # The age of what is lost is counted from when its step was heard.
        poll_progress(machine, progress)
        console = machine.console.text()
        if formats.ended(console) or STAGE0 in console:
            return True
        if failure := machine.failure():
            raise InfraError(f"{machine.config.name}: {failure}")
        if unstolen_time(machine) > deadline:
            return False
        time.sleep(_POLL_S)
