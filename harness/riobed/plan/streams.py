# SPDX-License-Identifier: Apache-2.0
"""What is drawn from a seed. Each stream has a generator of its own, so that none changes another's draws.

The names are part of what is drawn: published seeds give the same trials only as long as no name changes.
"""

import random
from enum import StrEnum


class Stream(StrEnum):
    """A stream of random numbers; its value stands behind the seed."""

    # Time of injection, fresh boot, reset of the recovery.
    TRIAL = "trial"
    FAULTS = "faults"
    RESTART = "restart"
    # Where the bytes of files are compared.
    CHECK = "check"
    RUN_ON = "run-on"
    # The moment of a reset without a fault. It has the name of RUN_ON, and so the same draws, because seeds
    # were published that way.
    UNDISTURBED = "run-on"
    # How class `panic` panics.
    PANIC = "panic"
    # The noise in RAM after a loss of power.
    POWER = "power"
    WORKLOAD = "workload"
    # The seeds of a calibration's stages.
    DOSE = "dose"
    # Which crashes are replayed.
    REPLAYS = "replays"

    def of(self, seed: int | str, part: int | str | None = None) -> random.Random:
        """Return the generator of this stream for a seed, or for a part of it that has a number or a name."""
        return generator(seed, self.value, part)


def generator(seed: int | str, stream: str, part: int | str | None = None) -> random.Random:
    """Return the generator of a stream that has no fixed name, as of the runs of a bench."""
    return random.Random(f"{seed}/{stream}" if part is None else f"{seed}/{stream}/{part}")
