# SPDX-License-Identifier: Apache-2.0
"""Crash formats of the Linux console: a table, first match wins.

Each row is a pattern, the crash kind it means and the title made from it. Titles are
normalised, so that equal crashes count as one: no addresses, process names or numbers; the
function in which it happened stays, without offset. Sources: arch/x86/mm/fault.c,
arch/x86/kernel/traps.c and dumpstack.c, kernel/panic.c, kernel/watchdog.c,
kernel/hung_task.c, lib/list_debug.c, mm/usercopy.c, mm/slub.c.
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


# What the kernel says first. {0} is the pattern's first group, {where} the function.
_FORMATS = [
    _format(r"rio: protection trap", "trap", "protection trap in {where}"),
    _format(r"BUG: kernel NULL pointer dereference, address", "oops", "NULL pointer dereference in {where}"),
    _format(r"BUG: unable to handle page fault for address", "oops", "page fault in {where}"),
    _format(
        r"general protection fault(?:, maybe)?(?:, probably)? for",
        "oops",
        "general protection fault in {where}",
    ),
    _format(r"kernel BUG at ([\w./-]+):\d+!", "oops", "BUG at {0}"),
    _format(r"BUG: scheduling while atomic", "oops", "scheduling while atomic"),
    _format(
        r"BUG: sleeping function called from invalid context at ([\w./-]+):",
        "oops",
        "sleeping function at {0}",
    ),
    _format(r"invalid opcode: \w+ \[#\d+\]", "oops", "invalid opcode in {where}"),
    _format(r"divide error: \w+ \[#\d+\]", "oops", "divide error in {where}"),
    _format(r"(stack segment|segment not present|invalid TSS): \w+ \[#\d+\]", "oops", "{0} in {where}"),
    _format(r"int3: \w+ \[#\d+\]", "oops", "int3 in {where}"),
    _format(r"alignment check: \w+ \[#\d+\]", "oops", "alignment check in {where}"),
    _format(r"(?:PANIC: )?double fault", "panic", "double fault in {where}"),
    _format(r"BUG: stack guard page was hit", "panic", "stack overflow in {where}"),
    _format(r"stack-protector: Kernel stack is corrupted in: ([\w.]+)", "panic", "stack corrupted in {0}"),
    _format(r"traps: PANIC: (\w[\w ]*\w)", "panic", "{0} in {where}"),
    _format(
        r"usercopy: Kernel memory (exposure|overwrite) attempt detected (?:from|to) ([\w ]+?) [('\d]",
        "oops",
        "usercopy {0} of {1}",
    ),
    _format(r"watchdog: BUG: (soft lockup)", "hang", "{0} in {where}"),
    _format(r"Kernel panic - not syncing: NMI: Not continuing", "hang", "hang in {where}"),
    _format(r"INFO: task \S+ blocked for more than", "hang", "task blocked"),
    _format(r"Attempted to kill init! exitcode=(0x[0-9a-f]+)", "panic", "init killed, exit code {0}"),
    _format(r"Attempted to kill the idle task", "panic", "idle task killed"),
    _format(r"Oops: [0-9a-f]+ \[#\d+\]", "oops", "oops in {where}"),
    _format(r"Kernel panic - not syncing: (.+)", "panic", "panic: {0}"),
]
# The kernel has stopped for good; everything of interest has been printed.
_END = re.compile(rb"---\[ end Kernel panic")
_STARTED = re.compile(rb"Kernel panic - not syncing|BUG: |Oops: |invalid opcode: |general protection fault")
_RIP = re.compile(r"RIP: 0010:(?:(?:\[<[0-9a-fx]+>\] )?([\w.]+)\+0x|(0x[0-9a-f]+))")
_STAMP = re.compile(r"^(?:<\d>)?\[ *\d+\.\d+\](?:\[[^\]]*\])? ?", re.MULTILINE)
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
    found = [(match.start(), row, match) for row in _FORMATS if (match := row.pattern.search(text))]
    if not found:
        return None
    start, row, match = min(found, key=lambda item: item[0])
    # A BUG() announces itself on the line before the invalid opcode it is made of; an NMI or
    # oops is named by its first line and followed by its panic.
    rip = _RIP.search(text, start)
    where = (rip[1] or "no function") if rip else "unknown place"
    groups = [_normalise(group) for group in match.groups()]
    return Crash(row.kind, row.title.format(*groups, where=where))


def _normalise(text: str | None) -> str:
    text = text or ""
    for pattern, name in _NUMBERS:
        text = pattern.sub(name, text)
    return " ".join(text.split())[:100]
