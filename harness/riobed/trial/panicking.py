# SPDX-License-Identifier: Apache-2.0
"""The control `panic`: a sound kernel is told to panic under its workload.

SysRq c panics in the context of a process. A non-maskable interrupt comes between any two instructions, on
each processor; the guest's kernel panics because it knows no reason for it (`unknown_nmi_panic`).
"""

import time
from contextlib import suppress

from riobed_results.store import PANICS

from riobed.crash import formats
from riobed.crash.formats import Crash
from riobed.errors import InfraError
from riobed.vm import AgentLost, Machine

PANIC = "panic"
_PANIC_S = 60.0
_POLL_S = 0.02


def bring_down(machine: Machine, by: str) -> Crash:
    """Make the kernel panic and wait until it has stopped; `by` is a key of PANICS.

    InfraError if it does not panic within a minute.
    """
    if by == "nmi":
        machine.nmi()
    else:
        # It may not live long enough to answer.
        with suppress(AgentLost):
            machine.spawn(["/bin/sh", "-c", "echo c >/proc/sysrq-trigger"])
    deadline = time.monotonic() + _PANIC_S
    while not formats.ended(machine.console.text()):
        if trouble := machine.trouble():
            raise InfraError(f"{machine.config.name}: {trouble}")
        if time.monotonic() > deadline:
            raise InfraError(f"no panic within {_PANIC_S:.0f} s of asking the kernel for one by {by}")
        time.sleep(_POLL_S)
    return Crash("panic", PANICS[by])
