# SPDX-License-Identifier: Apache-2.0
"""The clock of a trial: the host's time minus the guest's steal time, so a busy host shortens no trial.

Time in which the guest halts or waits for its disk counts, because it could have run.
"""

import time

from riobed.vm import Machine


def unstolen_time(machine: Machine) -> float:
    """Return the seconds, from an arbitrary start, in which the machine could have run."""
    return time.monotonic() - machine.steal_time()
