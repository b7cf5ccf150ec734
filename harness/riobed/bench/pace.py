# SPDX-License-Identifier: Apache-2.0
"""How fast the guest's processor is just now, beside the one for which a disk was made."""

import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

from riobed.bench.clocks import check_clocks
from riobed.errors import EnvironmentFault, InfraError
from riobed.guest import CacheMode, Guest, GuestSetup
from riobed.measure import Measurement, guests

# Runs of which the median counts.
_RUNS = 3
_MAX_ATTEMPTS = 4

# Does the work of a guest once, with a seed.
Measure = Callable[[Guest, int], Measurement]


@contextmanager
def paced(
    seconds: float, setup: GuestSetup, mode: CacheMode, seed: int, measure: Measure
) -> Iterator[Callable[[int], float]]:
    """Give what says by round how many times as fast this processor is as one that takes `seconds`.

    A guest of its own does the work of `setup` in `mode`, by `measure`, when a round is first asked for. Its
    disk has no limits. EnvironmentFault if that fails again and again.
    """
    with guests(setup, {mode.summary: mode}, "time", "pace") as opened:
        (guest,) = opened.values()

        @cache
        def times(_: int) -> float:
            return seconds / statistics.median(_took(guest, seed, measure) for _ in range(_RUNS))

        yield times


def _took(guest: Guest, seed: int, measure: Measure) -> float:
    """Return how many seconds the work takes once."""
    failed: InfraError | None = None
    for _ in range(_MAX_ATTEMPTS):
        try:
            guest.ready()
            found = measure(guest, seed)
            check_clocks(found)
            # One guest runs at a time.
            guest.machine.pause()
            return found.seconds
        except InfraError as error:
            guest.discard()
            failed = error
    raise EnvironmentFault(
        f"the processor's pace cannot be measured: {failed}; run the same command again to go on"
    ) from failed
