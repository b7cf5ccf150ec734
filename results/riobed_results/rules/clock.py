# SPDX-License-Identifier: Apache-2.0
"""The clock of what is told of a trial: the guest's own, from the first injection on."""

from dataclasses import dataclass
from typing import Literal

from riobed_results.store import FaultRow, TrialRow

CRASH_NOTE = (
    "from injection to the first line of the crash report, by the guest's clock. *: by the trial's clock, "
    "because the row lacks the guest's."
)
# How far the clock of faults and that of the kernel's log drift apart within a trial. In the published
# campaign `instrument`, activations are less than 1.3 ms or more than 3.6 ms behind a first line. A serial
# port takes longer to print the rest.
_DRIFT_S = 0.002


@dataclass(frozen=True)
class Moment:
    """Seconds since the first injection, and by which clock; as text, the trial's clock has an asterisk."""

    seconds: float
    clock: Literal["guest", "trial"]

    def __str__(self) -> str:
        return f"{self.seconds:.2f}{'*' if self.clock == 'trial' else ''}"


def crash_moment(row: TrialRow, last_activation_s: float | None = None) -> Moment | None:
    """Return when a trial crashed, or was brought down; None if that is not known.

    Nor is it told by the trial's clock if it were before the last activation, which is by the guest's.
    """
    if row.crash_after_s is not None:
        return Moment(row.crash_after_s, "guest")
    if row.time_to_crash_s is None or row.time_to_crash_s < (last_activation_s or 0.0):
        return None
    return Moment(row.time_to_crash_s, "trial")


def activation_text(fault: FaultRow, crash: Moment | None) -> str:
    """Return when a fault was activated: by the guest's clock, and never after the crash; "" if unknown."""
    if fault.activated_s is None:
        return ""
    if crash is None or crash.clock == "trial":
        return f"after {fault.activated_s:.3f} s"
    if fault.activated_s > crash.seconds + _DRIFT_S:
        return "while the crash was reported"
    return f"after {min(fault.activated_s, crash.seconds):.3f} s"
