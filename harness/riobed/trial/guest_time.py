# SPDX-License-Identifier: Apache-2.0
"""The clock of a trial: seconds in which the guest could run.

A guest that has to wait for a processor of the host does not get on, and a limit in seconds of the host would
end its trial the earlier, the busier the host. A guest that halts or waits for its disk does get on.
"""

import time

from riobed.vm import Machine


def guest_time(machine: Machine) -> float:
    """Return the seconds, from an arbitrary start, in which the machine could have run."""
    return time.monotonic() - machine.delayed()
