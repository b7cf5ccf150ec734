# SPDX-License-Identifier: Apache-2.0
"""The progress log of a workload that reports its steps (protocol of workloads/memtest).

A record is a line: a letter, the step, and the CRC32C of the seed and the line so far. The record of a step
that failed has more words: errno's name or "mismatch", then operation, path and detail. A crashing kernel may
garble a line or write anything to the port, so a line counts only if its checksum is right.

Processes that report at the same time write byte by byte between one another. Each byte of theirs has its
top bit set, then three bits for the stream and four for half of a character, the upper half first (protocol
of workloads/andrew). All other bytes are those of the one process that is in no stream.
"""

import re
from collections import deque
from dataclasses import dataclass, field
from operator import or_

from riobed.trial.observe.clock import unstolen_time
from riobed.vm import Machine

_RECORD = re.compile(rb"^(([SIDFE]) (\d{1,18}) )([0-9a-f]{8})(?: (\S+) ?(.*))?$")
_NAME = re.compile(r"[A-Za-z0-9]{1,23}")
_POLYNOMIAL = 0x82F63B78
# In bytes, longer than any record; a longer line is discarded.
_LONGEST = 1 << 16
# What is kept of a hundred thousand lines: the last ones, some errors before them, some characters of each.
_LAST, _ERRORS, _WIDTH = 300, 30, 200
# Begins each kept line, so that it is not taken for one of a console.
_MARK = "progress "
_IS_ERROR = re.compile(r"(?:\d+: )?E ")
_IN_STREAMS = bytes(range(0x80, 0x100))
_UPPER = bytes(value << 4 & 0xF0 for value in range(256))
_LOWER = bytes(value & 0x0F for value in range(256))


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


@dataclass(frozen=True)
class StepError:
    """A step that failed. `name` is errno's or, for a read of wrong content, "mismatch"."""

    step: int
    name: str
    operation: str = ""
    path: str = ""
    detail: str = ""


class Told:
    """The last lines that a workload told, the first errors before them, and when each was heard."""

    def __init__(self) -> None:
        self._errors: list[tuple[float, str]] = []
        self._last: deque[tuple[float, str]] = deque()
        self._left_out = 0

    def add(self, at: float, line: str) -> None:
        """Keep a line that was heard at that moment."""
        self._last.append((at, _harmless(line)))
        if len(self._last) > _LAST:
            at, line = self._last.popleft()
            if _IS_ERROR.match(line) and len(self._errors) < _ERRORS:
                self._errors.append((at, line))
            else:
                self._left_out += 1

    def text(self, begun: float | None) -> bytes:
        """Return the lines, for a log, with seconds since `begun`; empty without a line.

        `begun` is the moment of injection. If it is None, seconds are those before the last line.
        """
        if not self._last:
            return b""
        since = "before the last line" if begun is None else "since injection"
        zero = self._last[-1][0] if begun is None else begun
        said = [f"\n=== progress of the workload: seconds {since}, when it was heard ==="]
        said += [f"{_MARK}{at - zero:+.3f} {line}" for at, line in self._errors]
        if self._left_out:
            said.append(f"{_MARK}{self._left_out} lines left out")
        said += [f"{_MARK}{at - zero:+.3f} {line}" for at, line in self._last]
        return "\n".join([*said, ""]).encode()


def _harmless(line: str) -> str:
    """Return a line in printable ASCII and without what begins the kernel's own lines, its time stamp."""
    return line[:_WIDTH].encode("unicode_escape").decode().replace("[", "\\x5b")


@dataclass
class Progress:
    """The known state of a run: last step done, last step announced, its errors, and how it ended.

    `error` has the words of the first error. `ended` says why no further step was possible, or is empty.
    """

    seed: int
    done: int = 0
    intent: int = 0
    finished: bool = False
    error: str = ""
    errors: list[StepError] = field(default_factory=list)
    ended: str = ""
    # Whether the workload read something other than it had written.
    mismatch: bool = False
    damaged: int = 0
    # The lines that were fed with a time. Those of a stream begin with its number.
    told: Told = field(default_factory=Told, compare=False)
    stream: int | None = None
    # When it was heard that so many steps were done; None if it was fed without a time.
    _heard: list[tuple[float | None, int]] = field(default_factory=list, compare=False)
    _rest: bytes = b""

    def feed(self, data: bytes, at: float | None = None) -> bool:
        """Process newly written bytes; return whether they completed a valid record.

        `at` is when they were heard; if it is None, their lines are not kept.
        """
        lines = (self._rest + data.translate(None, _IN_STREAMS)).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > _LONGEST:
            self._rest = b""
            self.damaged += 1
        before = self.done
        good = [self._take(line) for line in lines if line]
        if any(good) and (not self._heard or self.done > before):
            self._heard.append((at, self.done))
        if at is not None:
            for line, valid in zip(filter(None, lines), good, strict=True):
                self._keep(at, line, valid)
        return any(good)

    def _keep(self, at: float, line: bytes, valid: bool) -> None:
        """Keep a line without its checksum; one that is no record begins with a question mark."""
        text = line.decode("latin-1")
        if valid:
            kind, step, _, *words = text.split(" ", 3)
            text = " ".join([kind, step, *words])
        else:
            text = f"? {text}"
        self.told.add(at, text if self.stream is None else f"{self.stream}: {text}")

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
            self.ended = (match[5] or b"").decode("latin-1")
        elif kind == b"E":
            self.mismatch |= match[5] == b"mismatch"
            said = b" ".join(part for part in (match[5], match[6]) if part).decode("latin-1")
            self.error = self.error or said
            self._note(step, said)
        return True

    def _note(self, step: int, said: str) -> None:
        name, *words = said.split(" ", 3)
        # The checksum covers the step but not the words.
        name = name if _NAME.fullmatch(name) else "unknown"
        if not self.errors or self.errors[-1].step < step:
            self.errors.append(StepError(step, name, *words))

    def seconds_lost(self, steps: int | None) -> float | None:
        """Return how long before the last of the steps done the last one was heard of that is not lost.

        `steps` of those done are lost. None if it is unknown, as of steps before the harness listened.
        """
        if steps is None or not self._heard:
            return None
        kept = next((at for at, done in self._heard if done >= self.done - steps), None)
        last = self._heard[-1][0] if self._heard[-1][1] == self.done else None
        return None if kept is None or last is None else round(last - kept, 3)

    @property
    def failed(self) -> str:
        """The steps that failed, for the check: `STEP:NAME` joined by commas."""
        return ",".join(f"{error.step}:{error.name}" for error in self.errors)

    @property
    def reported(self) -> dict[str, int | str]:
        """What the workload's check must know."""
        return {
            "done": self.done,
            "intent": self.in_flight,
            "failed": self.failed,
            "oldest": self.done,
        }

    @property
    def in_flight(self) -> int:
        """The step that was announced but not reported done; 0 if there is none."""
        return self.intent if self.intent > self.done else 0


class Streams:
    """The known state of processes that report in streams; numbers are sums over them."""

    def __init__(self, seed: int, count: int, first: int = 0) -> None:
        """`first` is the number of the first stream."""
        self.told = Told()
        self._parts = {
            number: Progress(seed, told=self.told, stream=number) for number in range(first, first + count)
        }
        self._half = dict.fromkeys(self._parts, b"")

    def feed(self, data: bytes, at: float | None = None) -> bool:
        """Process newly written bytes, as Progress does."""
        fed = [self._feed(number, part, data, at) for number, part in self._parts.items()]
        return any(fed)

    def _feed(self, number: int, part: Progress, data: bytes, at: float | None) -> bool:
        others = bytes(byte for byte in range(256) if byte >> 4 != 8 | number)
        halves = self._half[number] + data.translate(None, others)
        whole = len(halves) & ~1
        self._half[number] = halves[whole:]
        upper, lower = halves[:whole:2].translate(_UPPER), halves[1:whole:2].translate(_LOWER)
        return part.feed(bytes(map(or_, upper, lower)), at)

    def seconds_lost(self, steps: int | None) -> float | None:
        """Return None: no step of all of them is the last one."""
        return None

    @property
    def done(self) -> int:
        """The number of steps done, as far as steps are numbered without gaps."""
        return sum(part.done for part in self._parts.values())

    @property
    def damaged(self) -> int:
        """The number of lines that were no record."""
        return sum(part.damaged for part in self._parts.values())

    @property
    def finished(self) -> bool:
        """Whether all processes have reported their end."""
        return all(part.finished for part in self._parts.values())

    @property
    def mismatch(self) -> bool:
        """Whether a process read something other than it had written."""
        return any(part.mismatch for part in self._parts.values())

    @property
    def error(self) -> str:
        """The words of the first error of the first process that met one."""
        return next((part.error for part in self._parts.values() if part.error), "")

    @property
    def in_flight(self) -> int:
        """A step that a process announced but did not report done; 0 if there is none."""
        return max(part.in_flight for part in self._parts.values())

    @property
    def errors(self) -> list[StepError]:
        """All steps that failed, process by process."""
        return [error for part in self._parts.values() for error in part.errors]

    @property
    def reported(self) -> dict[str, int | str]:
        """What the workload's check must know: lists with an element for each process."""
        parts = self._parts.values()
        done = ",".join(str(part.done) for part in parts)
        return {
            "done": done,
            "oldest": done,
            "intent": ",".join(str(part.in_flight) for part in parts),
            "failed": "/".join(part.failed for part in parts),
        }


def progress(seed: int, streams: int, first: int = 0) -> Progress | Streams:
    """Begin to follow a workload's reports: those of one process, or of `streams` if that is not 0.

    `first` is the number of the first stream.
    """
    return Streams(seed, streams, first) if streams else Progress(seed)


def poll_progress(machine: Machine, progress: Progress | Streams) -> bool:
    """Take in what the workload has told since the last call; return whether a valid record was in it."""
    told = machine.progress.new()
    return bool(told) and progress.feed(told, unstolen_time(machine))
