# SPDX-License-Identifier: Apache-2.0
"""Table 2 of the paper, and what it says of its ratios.

Chen et al., "The Rio File Cache: Surviving Operating System Crashes", ASPLOS 1996, section 4: averages of at
least 5 runs on a DEC 3000/600.
"""

from dataclasses import dataclass

from pydantic import BaseModel

# Names of the paper's systems by our modes.
SYSTEMS = {
    "memory": "Memory File System",
    "delayed-no-journal": "UFS with delayed data and metadata",
    "delayed": "AdvFS (log metadata updates)",
    "dirsync": "UFS",
    "write-through-on-close": "UFS with write-through after each close",
    "write-through-on-write": "UFS with write-through after each write",
    "rio": "Rio without protection",
    "rio-protected": "Rio with protection",
}


class PaperTime(BaseModel):
    """Seconds of the paper, of the whole and of its parts."""

    seconds: float
    parts: list[float] = []


def _times(cp: float, rm: float, whole: float, sdet: float, andrew: float) -> dict[str, PaperTime]:
    return {
        "cp_rm": PaperTime(seconds=whole, parts=[cp, rm]),
        "sdet": PaperTime(seconds=sdet),
        "andrew": PaperTime(seconds=andrew),
    }


# By mode and workload. The whole of cp+rm is as printed.
TIMES = {
    "memory": _times(15, 6, 21, 43, 13),
    "delayed-no-journal": _times(76, 5, 81, 47, 13),
    "delayed": _times(110, 15, 125, 132, 16),
    "dirsync": _times(245, 87, 332, 401, 23),
    "write-through-on-close": _times(274, 120, 394, 699, 49),
    "write-through-on-write": _times(419, 120, 539, 910, 178),
    "rio": _times(18, 6, 24, 42, 12),
    "rio-protected": _times(18, 7, 25, 42, 13),
}


@dataclass(frozen=True)
class Statement:
    """The paper's word on how many times the seconds of `over` the `modes` take, `low` to `high`.

    The paper gives whole numbers, so a ratio counts as the nearest one unless `exact`. Less than 1 is never
    1: what takes half the time of something else is not as slow as it.
    """

    key: str
    text: str
    modes: tuple[str, ...]
    over: str
    low: float
    high: float
    exact: bool = False

    def holds(self, low: float, high: float) -> bool | None:
        """Whether a ratio with this interval is as the paper has it; None if the interval says both."""
        margin = 0 if self.exact else 0.5
        least, most = max(self.low - margin, min(self.low, 1.0)), self.high + margin
        if low >= least and high <= most:
            return True
        return False if high < least or low > most else None


_WRITE_THROUGH = ("write-through-on-close", "write-through-on-write")
STATEMENTS = (
    Statement("write through", "write-through, 4 to 22 times", _WRITE_THROUGH, "rio", 4, 22),
    Statement("default", "UFS as it comes, 2 to 14 times", ("dirsync",), "rio", 2, 14),
    Statement("delayed", "delayed data and metadata, 1 to 3 times", ("delayed-no-journal",), "rio", 1, 3),
    # The paper says "as fast as"; a tenth is what we take that to mean. Its own seconds are not within it.
    Statement(
        "memory",
        "Rio over memory, at most 1.1 times (its own: cp_rm 1.14, sdet 0.98, andrew 0.92)",
        ("rio",),
        "memory",
        0,
        1.1,
        exact=True,
    ),
)
