# SPDX-License-Identifier: Apache-2.0
"""A loss of power: what was in RAM is gone. Only the file that is a guest's RAM is changed here."""

from pathlib import Path

# Firmware's own variables are below. Measured: without them SeaBIOS does not come up again after a reset.
FIRST = 1 << 20
# The noise begins anew after this many bytes: for 512 MiB, writing it takes a fifth of the time of making it.
_PERIOD = 16 << 20


def lose_memory(ram: Path, seed: int) -> None:
    """Overwrite a paused guest's RAM from the first MiB up with noise; equal seeds give equal noise.

    Not with zeros, because a kernel may rely on those.
    """
    # Late: it takes a fifth of a second, and most commands do not need it.
    import numpy as np

    noise = memoryview(np.random.SFC64(seed).random_raw(_PERIOD // 8).tobytes())
    left = ram.stat().st_size - FIRST
    with ram.open("r+b") as file:
        file.seek(FIRST)
        while left > 0:
            left -= file.write(noise[:left])
