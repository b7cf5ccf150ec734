# SPDX-License-Identifier: Apache-2.0
"""The evidence log: what the injector module wrote through an I/O port, byte by byte.

`I <id> <ns>` a fault is in place, `A <id> <ns>` it was executed, `O <id> <routine> <length>
<extra>` a copy was lengthened. Times are nanoseconds of the guest's monotonic clock. The guest
may have been out of its mind when it wrote, so lines that make no sense are dropped.
"""

import re
from dataclasses import dataclass, field

_LINE = re.compile(rb"^(?:([IA]) (\d{1,3}) (\d{1,18})|O (\d{1,3}) (\w{1,64}) (\d{1,18}) (\d{1,6}))$")


@dataclass
class Evidence:
    """Per fault index: when it was injected and first activated (ns), and which copy it hit."""

    injected: dict[int, int] = field(default_factory=dict)
    activated: dict[int, int] = field(default_factory=dict)
    overruns: dict[int, dict[str, int | str]] = field(default_factory=dict)

    def activated_s(self, index: int) -> float | None:
        """Seconds of guest time from the first injection to the activation of a fault."""
        if index not in self.activated or not self.injected:
            return None
        return (self.activated[index] - min(self.injected.values())) / 1e9


def read_evidence(log: bytes) -> Evidence:
    """What a log says; the first record of a kind counts for each fault."""
    evidence = Evidence()
    for line in log.split(b"\n"):
        match = _LINE.match(line)
        if not match:
            continue
        kind, index, ns, overrun, routine, length, extra = match.groups()
        if kind == b"I":
            evidence.injected.setdefault(int(index), int(ns))
        elif kind == b"A":
            evidence.activated.setdefault(int(index), int(ns))
        else:
            evidence.overruns.setdefault(
                int(overrun), {"routine": routine.decode(), "length": int(length), "extra": int(extra)}
            )
    return evidence
