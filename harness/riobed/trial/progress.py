# SPDX-License-Identifier: Apache-2.0
"""The progress log of a workload that reports its steps (protocol of workloads/memtest).

A record is a line: a letter, the step, and the CRC32C of the seed and the line so far; an error's record has
two more words. A crashing kernel may garble a line or write anything to the port, so a line counts only if
its checksum is right.
"""

import re
from dataclasses import dataclass

_RECORD = re.compile(rb"^(([SIDFE]) (\d{1,18}) )([0-9a-f]{8})(?: (\S+) ?(.*))?$")
_POLYNOMIAL = 0x82F63B78
# In bytes, longer than any record; a longer line is discarded.
_LONGEST = 1 << 16


def _table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _table()


def crc32c(data: bytes) -> int:
    """CRC32C (Castagnoli) with inversion at both ends, as in RFC 3720, appendix B.4."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


@dataclass
class Progress:
    """The known state of a run: last step done, last step announced, and how it ended."""

    seed: int
    done: int = 0
    intent: int = 0
    finished: bool = False
    error: str = ""
    # Whether the workload read something other than it had written.
    mismatch: bool = False
    damaged: int = 0
    _rest: bytes = b""

    def feed(self, data: bytes) -> bool:
        """Process newly written bytes; return whether they completed a valid record."""
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > _LONGEST:
            self._rest = b""
            self.damaged += 1
        good = [self._take(line) for line in lines if line]
        return any(good)

    def _take(self, line: bytes) -> bool:
        match = _RECORD.match(line)
        if not match or int(match[4], 16) != crc32c(self.seed.to_bytes(8, "little") + match[1]):
            self.damaged += 1
            return False
        kind, step = match[2], int(match[3])
        if kind == b"I":
            # Steps are sequential: the previous one is done even if its own record is damaged.
            self.intent, self.done = max(self.intent, step), max(self.done, step - 1)
        elif kind == b"D":
            self.done = max(self.done, step)
        elif kind == b"F":
            self.finished = True
        elif kind == b"E":
            self.mismatch |= match[5] == b"mismatch"
            said = b" ".join(part for part in (match[5], match[6]) if part).decode("latin-1")
            self.error = self.error or said
        return True

    @property
    def in_flight(self) -> int:
        """The step that was announced but not reported done; 0 if there is none."""
        return self.intent if self.intent > self.done else 0
