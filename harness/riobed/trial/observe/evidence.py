# SPDX-License-Identifier: Apache-2.0
"""The evidence log, which the injector module writes through an I/O port, byte by byte.

`R <count> <ns> <log>`: so many faults are loaded, and the moment by this log's clock and by that of the
kernel's log. `I <id> <ns>`: a fault is in place. `A <id> <ns>`: it was executed or used. `W <id> <ns>`: the
flipped byte was overwritten before it was used. The other kinds say what a fault hit. Times are nanoseconds
of the guest's monotonic clock. The guest's kernel may be corrupt by then, so lines of unknown form are
dropped.
"""

import re
from dataclasses import dataclass, field

_TIME = re.compile(rb"([IAW]) (\d{1,3}) (\d{1,18})")
_READY = re.compile(rb"^R (\d{1,4}) (\d{1,18}) (\d{1,18})$", re.MULTILINE)

_NAME = rb"[!-~]{1,40}"
_NUMBER = rb"\d{1,18}"
_ADDRESS = rb"[0-9a-f]{1,16}"
_KIND = rb"slab|page_table|struct_page|percpu|vmalloc"
_DIRECTION = rb"to_user|from_user|in_kernel"
# The words of a line of each kind, as evidence.c of the injector module writes them.
_HITS = {
    b"H": {
        "kind": _KIND,
        "name": _NAME,
        "size": _NUMBER,
        "offset": _NUMBER,
        "bit": rb"[0-7]",
        "address": _ADDRESS,
    },
    b"S": {"task": _NAME, "pid": _NUMBER, "offset": _NUMBER, "bit": rb"[0-7]", "address": _ADDRESS},
    b"F": {"routine": _NAME, "cache": _NAME, "size": _NUMBER, "address": _ADDRESS, "live": rb"[01]"},
    b"O": {
        "routine": _NAME,
        "direction": _DIRECTION,
        "length": _NUMBER,
        "extra": rb"\d{1,7}",
        "to": _ADDRESS,
        "caller": _ADDRESS,
    },
    b"L": {"procedure": _NAME, "caller": _ADDRESS},
}
_TEXTS = {_NAME, _ADDRESS, _KIND, _DIRECTION}
_PATTERNS = {
    kind: re.compile(b" ".join([rb"(\d{1,3})", *(b"(" + word + b")" for word in words.values())]))
    for kind, words in _HITS.items()
}


@dataclass
class Evidence:
    """Per fault index: guest times in ns of injection, activation and overwriting, and what the fault hit.

    `ready` is how many faults the injector had loaded. Stamps of the kernel's log are `log_ahead` ns ahead.
    """

    injected: dict[int, int] = field(default_factory=dict)
    activated: dict[int, int] = field(default_factory=dict)
    overwritten: dict[int, int] = field(default_factory=dict)
    hits: dict[int, dict[str, int | str]] = field(default_factory=dict)
    ready: int = 0
    log_ahead: int = 0

    def of_log(self, stamp: float) -> float:
        """Return the time, in seconds by the clock of the evidence, of a line of the kernel's log."""
        return stamp - self.log_ahead / 1e9

    def activated_s(self, index: int) -> float | None:
        """Return seconds of guest time from the first injection to a fault's activation, None without one."""
        return self._since_injection(self.activated.get(index))

    def overwritten_s(self, index: int) -> float | None:
        """Return seconds of guest time from the first injection to the store that removed an unused flip."""
        return self._since_injection(self.overwritten.get(index))

    def _since_injection(self, ns: int | None) -> float | None:
        if ns is None or not self.injected:
            return None
        return (ns - min(self.injected.values())) / 1e9


def read_evidence(log: bytes) -> Evidence:
    """Parse an evidence log; of each kind, the first record of a fault counts."""
    ready = _READY.search(log)
    evidence = Evidence()
    if ready:
        evidence.ready, evidence.log_ahead = int(ready[1]), int(ready[3]) - int(ready[2])
    times = {b"I": evidence.injected, b"A": evidence.activated, b"W": evidence.overwritten}
    for line in log.split(b"\n"):
        if match := _TIME.fullmatch(line):
            kind, index, ns = match.groups()
            times[kind].setdefault(int(index), int(ns))
        elif line[:1] in _PATTERNS and line[1:2] == b" ":
            _read_hit(evidence, line[:1], line[2:])
    return evidence


def _read_hit(evidence: Evidence, kind: bytes, words: bytes) -> None:
    match = _PATTERNS[kind].fullmatch(words)
    if not match:
        return
    index, *values = match.groups()
    hit: dict[str, int | str] = {
        name: value.decode() if word in _TEXTS else int(value)
        for (name, word), value in zip(_HITS[kind].items(), values, strict=True)
    }
    evidence.hits.setdefault(int(index), hit)
