# SPDX-License-Identifier: Apache-2.0
"""Crash in recovery: reset the machine while stage 0 recovers.

riorecover prints each phase on the console when it begins, so the console shows which phase the reset
interrupted. The delay counts from riorecover's first line; what comes before is only boot.
"""

import re
import time

from riobed_results.store import ENDED, Interruption

from riobed.guest import BOOT_S, STAGE0_READY, boot_error
from riobed.vm import Machine

_PHASE = re.compile(rb"^riorecover: ([a-z0-9]+)\r?$", re.MULTILINE)
# Short, because all of recovery takes only tenths of a second.
_POLL_S = 0.001


def interrupt_recovery(machine: Machine, planned_s: float) -> tuple[Interruption, bytes]:
    """Reset the machine `planned_s` seconds into recovery; return what it hit, and the console until then.

    BootError if recovery does not begin within BOOT_S seconds.
    """
    deadline = time.monotonic() + BOOT_S
    more = machine.console.follow()
    while not _PHASE.search(more()):
        if time.monotonic() > deadline:
            raise boot_error(machine, f"no recovery began within {BOOT_S:.0f} s")
        time.sleep(_POLL_S)
    begin = time.monotonic()
    time.sleep(planned_s)
    machine.reset()
    at_s = time.monotonic() - begin
    # The firmware prints nothing here, so all of this was printed before the reset.
    console = machine.console.text()
    machine.console.clear()
    reached = Interruption(planned_s=round(planned_s, 4), at_s=round(at_s, 4), phase=phase_reached(console))
    return reached, console


def phase_reached(console: bytes) -> str:
    """Return the last phase that began; `ENDED` also if recovery ended without restoring everything."""
    if STAGE0_READY in console:
        return ENDED
    last: bytes = _PHASE.findall(console)[-1]
    return last.decode()
