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
from riobed.trial.observe.watch import Observation
from riobed.vm import AgentLost, Machine

PANIC = "panic"
_PANIC_S = 60.0
# By the host's clock, so that no guest can extend it. A kernel that still can panics within a second.
_DOWN_S = 10.0
_POLL_S = 0.02


def panic_on_request(machine: Machine, by: str) -> Crash:
    """Make a sound kernel panic and wait until it has stopped; `by` is a key of PANICS.

    InfraError if it does not panic within a minute.
    """
    if by == "nmi":
        machine.nmi()
    else:
        # It may not live long enough to answer.
        with suppress(AgentLost):
            machine.spawn(["/bin/sh", "-c", "echo c >/proc/sysrq-trigger"])
    if not _stopped(machine, _PANIC_S):
        raise InfraError(f"no panic within {_PANIC_S:.0f} s of asking the kernel for one by {by}")
    return Crash("panic", PANICS[by])


def bring_down(machine: Machine, survived: Observation) -> Observation:
    """Bring down a guest that survived, so that it is judged as a crash is; return how it went down.

    That is a panic by a non-maskable interrupt, which needs no help of the guest's programs. A guest that
    does not answer it is left to the reset that follows, and the detail says so.
    """
    before = len(machine.console.text())
    machine.nmi()
    stopped = _stopped(machine, _DOWN_S)
    said = machine.console.text(before)
    answer = formats.recognise(said)
    restarted = STAGE0 in said
    if stopped and not restarted:
        crash = Crash("panic", PANICS["nmi"])
    else:
        crash = Crash("reset", "processor reset by an NMI" if restarted else "reset by the harness")
    told = [survived.detail]
    if not stopped:
        told.append(f"no panic within {_DOWN_S:.0f} s of an NMI")
    # The panic of an NMI is recognised as a hang, because that is what it usually tells of.
    if answer and answer.kind != "hang":
        told.append(f"the NMI was answered with: {answer.title}")
    return replace(survived, crash=crash, detail="; ".join(filter(None, told)), restarted=restarted)


def _stopped(machine: Machine, within_s: float) -> bool:
    """Wait until the kernel has stopped or the processor reset itself; False if neither happens in time."""
    deadline = unstolen_time(machine) + within_s
    while True:
        console = machine.console.text()
        if formats.ended(console) or STAGE0 in console:
            return True
        if failure := machine.failure():
            raise InfraError(f"{machine.config.name}: {failure}")
        if unstolen_time(machine) > deadline:
            return False
        time.sleep(_POLL_S)
