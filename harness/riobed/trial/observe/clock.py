# SPDX-License-Identifier: Apache-2.0
"""The clock of a trial: seconds in which the guest could run.

Host time minus steal time, so that a busy host does not shorten trials. A guest that halts or waits for its
disk does not wait for the host.
"""

import time

from riobed.vm import Machine


def guest_time(machine: Machine) -> float:
    """Return the seconds, from an arbitrary start, in which the machine could have run."""
    return time.monotonic() - machine.delayed()
