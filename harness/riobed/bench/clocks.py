# SPDX-License-Identifier: Apache-2.0
"""Whether the guest's clock ran as the host's does."""

from riobed.errors import InfraError
from riobed.measure import Measurement

# The host polls every 20 ms whether the work began or ended.
_CLOCKS_DIFFER = 0.02
_HEARD_LATE_S = 0.05


def check_clocks(found: Measurement) -> None:
    """Raise InfraError if the guest's clock ran faster or slower than the host's while the work was done."""
    # A host that lets the guest wait may hear of it as late itself.
    allowed = _HEARD_LATE_S + _CLOCKS_DIFFER * found.host_s + found.delayed_s
    if abs(found.seconds - found.host_s) > allowed:
        raise InfraError(
            f"clocks differ: the work took {found.seconds:.2f} s by the guest's and {found.host_s:.2f} s by "
            f"the host's (allowed: {allowed:.2f} s)"
        )
