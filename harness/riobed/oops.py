# SPDX-License-Identifier: Apache-2.0
"""Crash formats of the Linux console: a table; the earliest match counts, of one place the first row.

Each row is a pattern, the crash kind it means and the title made from it. Titles are
normalised, so that equal crashes count as one: no addresses, process names or numbers; the
function in which it happened stays, without offset. Sources: arch/x86/mm/fault.c,
arch/x86/kernel/traps.c, dumpstack.c and nmi.c, kernel/panic.c, exit.c and watchdog.c,
mm/usercopy.c.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Crash:
    """A recognised crash; kind is one of panic, oops, trap, hang, reset."""

    kind: str
    title: str


@dataclass(frozen=True)
class _Format:
    pattern: re.Pattern[str]
    kind: str
    title: str


def _format(pattern: str, kind: str, title: str) -> _Format:
    return _Format(re.compile(pattern, re.MULTILINE), kind, title)


# What the kernel says first when it will not go on (an oops is a panic here, and so is a soft
# lockup). {0} is the pattern's first group, {where} the function: the pattern's, else that of
# the registers printed next.
_FORMATS = [
    _format(
        r"BUG: rio: protection trap in (?P<where>[A-Za-z_][\w.]*)\+0x", "trap", "protection trap in {where}"
    ),
    _format(r"rio: protection trap", "trap", "protection trap in {where}"),
    _format(r"BUG: kernel NULL pointer dereference, address", "oops", "NULL pointer dereference in {where}"),
    _format(r"BUG: unable to handle page fault for address", "oops", "page fault in {where}"),
    _format(r"kernel BUG at ([\w./-]+):\d+!", "oops", "BUG at {0}"),
    _format(r"BUG: [\w#]+ stack guard page was hit", "panic", "stack overflow in {where}"),
    _format(r"PANIC: double fault", "panic", "double fault in {where}"),
    _format(
        r"usercopy: Kernel memory (exposure|overwrite) attempt detected (?:from|to) ([\w ]+?) [('\d]",
        "oops",
        "usercopy {0} of {1}",
    ),
    _format(r"watchdog: BUG: (soft lockup)", "hang", "{0} in {where}"),
    _format(r"Kernel panic - not syncing: NMI: Not continuing", "hang", "hang in {where}"),
    _format(
        r"Kernel panic - not syncing: stack-protector: Kernel stack is corrupted in: ([\w.]+)",
        "panic",
        "stack corrupted in {0}",
    ),
    _format(r"Kernel panic - not syncing: Attempted to kill init!", "panic", "init killed"),
    _format(r"Kernel panic - not syncing: Attempted to kill the idle task", "panic", "idle task killed"),
    # die() and its callers: "Oops: NAME: ERROR [#COUNT]", page faults with the name "Oops" again.
    _format(
        r"Oops: (?:segment-related )?general protection fault", "oops", "general protection fault in {where}"
    ),
    _format(r"Oops: Oops: [0-9a-f]{4} \[#\d+\]", "oops", "oops in {where}"),
    _format(r"Oops: ([\w #-]+): [0-9a-f]{4} \[#\d+\]", "oops", "{0} in {where}"),
    _format(r"Kernel panic - not syncing: (.+)", "panic", "panic: {0}"),
]
_STARTED = re.compile(b"|".join(row.pattern.pattern.encode() for row in _FORMATS))
# The kernel has stopped for good; everything of interest has been printed.
_END = re.compile(rb"---\[ end Kernel panic")
# Code segments: 0010 is the kernel's, 0033 the user's (arch/x86/include/asm/segment.h).
_RIP = re.compile(r"RIP: (?:0010:(?:([\w.]+)\+0x|(0x[0-9a-f]+))|0033:)")
_STAMP = re.compile(r"^(?:<\d>)?\[ *\d+\.\d+\](?:\[[^\]]*\])? ?", re.MULTILINE)
_FRAME = re.compile(r"^ +(?!\? )([\w.]+)\+0x[0-9a-f]+/0x[0-9a-f]+", re.MULTILINE)
# Functions in which every task that waits is found (kernel/sched, kernel/locking).
_WAITING = re.compile(
    r"__schedule|schedule|io_schedule|__?\w*(mutex|rwsem|sem|completion|wait_on|wait_for|bit_wait)\w*|down_\w+"
)
_NUMBERS = [
    (re.compile(r"\b0x[0-9a-f]+\b|\b[0-9a-f]{8,16}\b"), "ADDR"),
    (re.compile(r"\b\d+\b"), "N"),
]


def clean(console: bytes) -> str:
    """Console bytes as text without time stamps; nothing in it can break a terminal."""
    text = console.decode("latin-1").replace("\r\n", "\n").replace("\r", "\n")
    text = "".join(c if c == "\n" or c == "\t" or " " <= c <= "~" else "?" for c in text)
    return _STAMP.sub("", text)


def started(console: bytes) -> bool:
    """Has the kernel begun to report a crash?"""
    return bool(_STARTED.search(console))


def ended(console: bytes) -> bool:
    """Has the kernel finished its report and stopped?"""
    return bool(_END.search(console))


def recognise(console: bytes) -> Crash | None:
    """The first crash on the console, None if there is none."""
    text = clean(console)
    found = [(row, match) for row in _FORMATS if (match := row.pattern.search(text))]
    if not found:
        return None
    # A BUG() announces itself on the line before the invalid opcode it is made of; an NMI or
    # oops is named by its first line and followed by its panic. Of one place, the first row counts.
    row, match = min(found, key=lambda item: item[1].start())
    rip = _RIP.search(text, match.start())
    registers = "unknown place" if not rip else rip[1] or ("no function" if rip[2] else "user space")
    where = match.groupdict().get("where") or registers
    groups = [_normalise(group) for group in match.groups()]
    return Crash(row.kind, row.title.format(*groups, where=where))


def blocked_in(console: bytes) -> str:
    """Where the first blocked task of a SysRq-w report waits: its first function not of waiting itself."""
    text = clean(console)
    start = text.find("state:D")
    frames = _FRAME.findall(text[start:]) if start >= 0 else []
    return next((frame for frame in frames if not _WAITING.match(frame)), "unknown place")


def _normalise(text: str | None) -> str:
    text = text or ""
    for pattern, name in _NUMBERS:
        text = pattern.sub(name, text)
    return " ".join(text.split())[:100]
