# SPDX-License-Identifier: Apache-2.0
"""A loss of power: what was in RAM is gone. Only the file that is a guest's RAM is changed here."""

from pathlib import Path

# Firmware's own variables are below. Measured: without them SeaBIOS does not come up again after a reset.
FIRST = 1 << 20
_CHUNK = 1 << 20


def lose_memory(ram: Path, seed: int) -> None:
    """Overwrite a paused guest's RAM from the first MiB up with noise; equal seeds give equal noise.

    Not with zeros, because a kernel may rely on those.
    """
    # Late: it takes a fifth of a second, and most commands do not need it.
    import numpy as np

    noise = np.random.SFC64(seed)
    left = ram.stat().st_size - FIRST
    with ram.open("r+b") as file:
        file.seek(FIRST)
        while left > 0:
            left -= file.write(noise.random_raw(min(left, _CHUNK) // 8).tobytes())
