# SPDX-License-Identifier: Apache-2.0
"""Crash in recovery: a reset while stage 0 recovers.

riorecover names its phases on the console as they begin, so that what the reset cut short can be
read there. The moment is counted from its first line: everything before is boot, which has been
there all along.
"""

import re
import time
from dataclasses import dataclass

from riobed_results.store.recovery_report import ENDED

from riobed.guest.boot import BOOT_S, STAGE0_READY, boot_error
from riobed.vm.machine import Machine

_PHASE = re.compile(rb"^riorecover: ([a-z0-9]+)\r?$", re.MULTILINE)
# Recovery as a whole takes tenths of a second.
_POLL_S = 0.001


@dataclass(frozen=True)
class Interruption:
    """When recovery was to be cut short and when it was (s since its first line), and in which phase."""

    planned_s: float
    at_s: float
    phase: str

    def as_stored(self) -> dict[str, float | str]:
        """What riobed_results.store.recovery_report reads."""
        return {"planned_s": round(self.planned_s, 4), "at_s": round(self.at_s, 4), "phase": self.phase}


def interrupt_recovery(machine: Machine, planned_s: float) -> tuple[Interruption, bytes]:
    """Reset the machine `planned_s` after recovery has begun; what it hit, and the console until then.

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
    # The firmware says nothing there: all of this is from before the reset.
    console = machine.console.text()
    machine.console.clear()
    return Interruption(planned_s, at_s, phase_reached(console)), console


def phase_reached(console: bytes) -> str:
    """The last phase that began; `ENDED` also if recovery ended without having restored all."""
    if STAGE0_READY in console:
        return ENDED
    last: bytes = _PHASE.findall(console)[-1]
    return last.decode()
