# SPDX-License-Identifier: Apache-2.0
"""Crash formats of the Linux console, as a table. The earliest match counts; at one position, the first row.

Each row has a pattern, the crash kind and the title made from it. Titles are normalised, so that equal
crashes count as one: they have no addresses, process names or numbers. They keep the function, without
offset, that riobed.crash.frames finds. The title of a crash that no row matches has its most telling line, so
that the table of titles shows which formats are missing here. A report counts only in a line with a time
stamp, which the kernel puts before each of its lines (CONFIG_PRINTK_TIME): a user program may write anything
to the same serial port. A program that also writes time stamps is not told apart. A report that the kernel
outlives is a complaint. No form reads more than a part of a line, so a console of any bytes takes a time in
proportion to its length. Sources: arch/x86/mm/fault.c, arch/x86/kernel/traps.c, dumpstack.c and nmi.c,
kernel/panic.c, exit.c and watchdog.c, mm/usercopy.c.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from riobed_results.store import CrashKind

from riobed.crash import frames


@dataclass(frozen=True)
class Crash:
    """A recognised crash.

    `damage` describes what is wrong with the report; it does not count when crashes are compared.
    """

    kind: CrashKind
    title: str
    damage: str = field(default="", compare=False)


class Task(NamedTuple):
    """A task of the guest as a crash report names it; only its process id is its own."""

    pid: int
    name: str


@dataclass(frozen=True)
class Complaints:
    """The reports that a kernel outlived: their number, and the title of the first, None without one."""

    count: int
    first: str | None


@dataclass(frozen=True)
class _Format:
    pattern: re.Pattern[str]
    kind: CrashKind
    title: str


@dataclass(frozen=True)
class _Report(_Format):
    """A format, and what finds {where} in the text from the report on."""

    place: Callable[[str], str]


def _of_registers(text: str) -> str:
    return frames.location(text, 0)


def _report(
    pattern: str, kind: CrashKind, title: str, place: Callable[[str], str] = _of_registers
) -> _Report:
    return _Report(re.compile(pattern, re.MULTILINE), kind, title, place)


def _any_of(rows: Sequence[_Format]) -> re.Pattern[bytes]:
    """Return a pattern of bytes for any of some formats."""
    joined = "|".join(row.pattern.pattern for row in rows).replace("?P<where>", "")
    return re.compile(joined.encode(), re.MULTILINE)


def _format(pattern: str, kind: CrashKind, title: str) -> _Format:
    return _Format(re.compile(pattern, re.MULTILINE), kind, title)


# The first line of a kernel that stops (an oops is a panic here, and so is a soft lockup). {0} is the
# pattern's first group. {where} is the function: the pattern's, else that of the registers printed next.
_FORMATS = [
    _format(
        r"BUG: rio: protection trap in (?P<where>[A-Za-z_][\w.]*)\+0x", "trap", "protection trap in {where}"
    ),
    _format(r"rio: protection trap", "trap", "protection trap in {where}"),
    _format(r"BUG: kernel NULL pointer dereference, address", "oops", "NULL pointer dereference in {where}"),
    _format(r"BUG: unable to handle page fault for address", "oops", "page fault in {where}"),
    _format(r"kernel BUG at ([^\n]{1,300}?):\d+!", "oops", "BUG at {0} in {where}"),
    _format(r"BUG: [\w#]+ stack guard page was hit", "panic", "stack overflow in {where}"),
    _format(r"PANIC: double fault", "panic", "double fault in {where}"),
    _format(
        r"usercopy: Kernel memory (exposure|overwrite) attempt detected (?:from|to) ([\w ]+?) [('\d]",
        "oops",
        "usercopy {0} of {1} in {where}",
    ),
    _format(r"watchdog: BUG: (soft lockup)", "hang", "{0} in {where}"),
    _format(r"Kernel panic - not syncing: NMI: Not continuing", "hang", "hang in {where}"),
    _format(
        r"Kernel panic - not syncing: stack-protector: Kernel stack is corrupted in: (?P<where>[\w.]+)",
        "panic",
        "stack corrupted in {where}",
    ),
    _format(r"Kernel panic - not syncing: Attempted to kill init!", "panic", "init killed"),
    _format(r"Kernel panic - not syncing: Attempted to kill the idle task", "panic", "idle task killed"),
    # die() and its callers: "Oops: NAME: ERROR [#COUNT]", page faults with the name "Oops" again.
    _format(
        r"Oops: (?:segment-related )?general protection fault", "oops", "general protection fault in {where}"
    ),
    _format(r"Oops: Oops: [0-9a-f]{4} \[#\d+\]", "oops", "oops in {where}"),
    _format(r"Oops: ([\w #-]+): [0-9a-f]{4} \[#\d+\]", "oops", "{0} in {where}"),
    # The last line of die(). If none of its first lines matched, they were lost or come from another kernel.
    _format(r"Kernel panic - not syncing: Fatal exception", "oops", "{unknown}"),
    _format(r"Kernel panic - not syncing: (.+)", "panic", "panic: {0}"),
]
# Reports after which a kernel goes on, unless it is told to panic. What follows them is no crash of its own.
# {where} of a report that names no function is that of its registers, its call trace or its blocked task.
# Reports of refcount_t, of lists and of ODEBUG are warnings, with a line of their own before them.
_REPORTS = [
    _report(r"BUG: (KASAN|KFENCE|KMSAN): ([^\n]{1,300}?) in (?P<where>[\w.]+)", "panic",
            "{0} {1} in {where}"),
    _report(r"BUG: KCSAN: ([\w-]+) in (?P<where>[\w.]+)", "panic", "KCSAN {0} in {where}"),
    _report(r"UBSAN: ([\w-]+) in ", "panic", "UBSAN {0} in {where}", frames.traced),
    _report(r"WARNING: (possible [\w -]{1,80}?|[\w-]{1,40} -> [\w-]{1,40} lock order|suspicious RCU usage"
            r"|bad unlock balance|inconsistent lock state|held lock freed"
            r"|lock held when returning to user space)(?: detected)?!?$",
            "panic", "lockdep {0} in {where}", frames.traced),
    _report(r"\[ BUG: (Invalid wait context) \]", "panic", "lockdep {0} in {where}", frames.traced),
    # Until Linux 6.17, and since.
    _report(r"WARNING: CPU: \d+ PID: \d+ at [^\n]{1,300}?:\d+ (?P<where>[\w.]+)\+0x", "panic",
            "warning in {where}"),
    _report(r"WARNING: [^\n]{1,300}?:\d+ at (?P<where>[\w.]+)\+0x", "panic", "warning in {where}"),
    _report(r"BUG: (scheduling while atomic|sleeping function called from invalid context)", "panic",
            "{0} in {where}", frames.slept),
    _report(r"BUG: using ([\w ]{1,40})\(\)? in preemptible", "panic", "{0} in preemptible code in {where}",
            frames.traced),
    _report(r"BUG: ((?:spin|rw)lock [\w ]{1,40}?) on CPU", "panic", "{0} in {where}", frames.traced),
    _report(r"BUG: (Bad page (?:state|map|cache)) in process", "panic", "{0}"),
    _report(r"BUG ([\w-]{1,60}) \([^\n)]{1,80}\): ([^\n]{1,80})", "panic", "SLUB {1} in {0}"),
    _report(r"INFO: task [^\n]{1,60} blocked (?:in I/O wait )?for more than \d+ s", "hang",
            "hung task in {where}", frames.blocked),
    _report(r"rcu: INFO: \w+ (?:self-)?detected (?:expedited )?stall", "hang", "RCU stall in {where}"),
    _report(r"Watchdog detected hard LOCKUP", "hang", "hard lockup in {where}"),
    _report(r"BUG: workqueue lockup", "hang", "workqueue lockup"),
]  # fmt: skip
# Any other report that says it is one. It is a complaint, but names no panic.
_OTHERS = [_report(r"\b((?:BUG|WARNING): [^\n]{1,300})", "panic", "{0}")]
# kernel/panic.c (check_panic_on_warn), hung_task.c, rcu/tree_stall.h, watchdog_perf.c, workqueue.c.
_FOLLOWING_PANIC = re.compile(
    r"Kernel panic - not syncing: (?:[^\n]*panic_on_warn set|hung_task: blocked tasks|RCU Stall|Hard LOCKUP"
    r"|workqueue lockup)"
)
# A line that is never the first of a report; and the counter of die().
_FOLLOWS = re.compile(r"Kernel panic - not syncing: Fatal exception|Oops: Oops: ")
_COUNT = re.compile(r"\[#(\d+)\]")
_STARTED = _any_of(_FORMATS)
_REPORTED = _any_of(_REPORTS)
_COMPLAINED = _any_of([*_REPORTS, *_OTHERS])
# Somewhere before the report in its line: firmware or a program may have begun the line.
_STAMPED = re.compile(rb"\[ *(\d+\.\d+)\][^\n\r]*\Z")
# The kernel has stopped for good; everything of interest has been printed.
_END = re.compile(rb"---\[ end Kernel panic")
# kernel/panic_sync.c of the series.
_SYNC = re.compile(rb"sync at panic: (begun|done|timed out|crashed|not in this context)")
# dump_stack_print_info() in lib/dump_stack.c; UID since Linux 6.12.
# A task may have any bytes in its name (prctl PR_SET_NAME).
_TASK = re.compile(
    rb"CPU: \d+ (?:UID: \d+ )?PID: (\d{1,10}) Comm: ([^\n]{1,15}?) (?:Tainted|Not tainted|Kdump)", re.DOTALL
)
# The path of a source file, from the top folder of the kernel's tree on.
_TOP = re.compile(
    r"^/.*?/(?=(?:arch|block|crypto|drivers|fs|include|init|io_uring|ipc|kernel|lib|mm|net|security|sound|virt)/)"
)
_STAMP = re.compile(r"^(?:<\d>)?\[ *\d+\.\d+\](?:\[[^\]]*\])? ?", re.MULTILINE)
# The most telling line of an unknown crash, best first: die() counts its reports; BUG may be a warning.
_TELLING = [
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        r"^.*\[#\d+\].*$",
        r"^.*\b(?:BUG|PANIC|Oops|panic)\b.*$",
        r"^.*\b(?:WARNING|INFO|[Uu]nable|[Ff]ault|[Ee]xception|[Cc]orrupt\w*)\b.*$",
    )
]
# clean() removes time stamps at the start of lines; this one is in the middle of a line.
_MIXED = re.compile(r"\[ *\d+\.\d{6}\]")
# Characters of a line that are read, and of a report: garbage can be one endless line.
_LONGEST = 300
_LONGEST_REPORT = 1 << 16
_NUMBERS = [
    (re.compile(r"\b[\w./:-]+/\d+/0x[0-9a-f]+"), "TASK"),
    (re.compile(r"\b0x[0-9a-f]+\b|\b[0-9a-f]{8,16}\b"), "ADDR"),
    (re.compile(r"\b\d+\b"), "N"),
]


def clean(console: bytes) -> str:
    """Return console bytes as text without time stamps or terminal control characters."""
    text = _lines(console).decode("latin-1")
    text = "".join(c if c == "\n" or c == "\t" or " " <= c <= "~" else "?" for c in text)
    return _STAMP.sub("", text)


def _lines(console: bytes) -> bytes:
    """Return a console whose lines end in one character."""
    return console.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def started(console: bytes) -> bool:
    """Return whether the kernel has begun to report a crash."""
    return any(_by_kernel(match) for match in _STARTED.finditer(console))


def moment(console: bytes) -> float | None:
    """Return the time stamp, in seconds, of the line that begins the first crash report; None without one."""
    begun = _begun(console)
    stamp = _stamp_before(begun) if begun else None
    return float(stamp[1]) if stamp else None


def victim(console: bytes) -> Task | None:
    """Return the task that the first crash report says ran; None without one."""
    begun = _begun(console)
    task = _TASK.search(console, begun.start()) if begun else None
    return Task(int(task[1]), task[2].decode(errors="backslashreplace")) if task else None


def _begun(console: bytes) -> re.Match[bytes] | None:
    return next(filter(_by_kernel, _STARTED.finditer(console)), None)


def ended(console: bytes) -> bool:
    """Return whether the kernel has finished its report and stopped."""
    return bool(_END.search(console))


def sync_at_panic(console: bytes) -> str:
    """Return in words for a row what became of the sync of a kernel that should write at its panic."""
    told = [match[1].decode() for match in _SYNC.finditer(console) if _by_kernel(match)]
    how = told[-1] if told else "not reached"
    return f"sync at panic: {'did not end' if how == 'begun' else how}"


def _complained(console: bytes) -> list[int]:
    """Return where the reports begin that the kernel outlived: before its crash, not the one it died of."""
    begun = _begun(console)
    end = begun.start() if begun else len(console)
    starts = [match.start() for match in _COMPLAINED.finditer(console, 0, end) if _by_kernel(match)]
    if begun and _FOLLOWING_PANIC.match(clean(console[end : end + _LONGEST])):
        died_of = next((at for at in reversed(starts) if _REPORTED.match(console, at)), None)
        starts = [at for at in starts if at != died_of]
    return starts


def complaints(console: bytes) -> Complaints:
    """Return the reports that the kernel outlived."""
    console = _lines(console)
    starts = _complained(console)
    if not starts:
        return Complaints(0, None)
    first, end = starts[0], starts[1] if len(starts) > 1 else len(console)
    return Complaints(len(starts), _title_of(clean(console[first : min(end, first + _LONGEST_REPORT)])))


def complaint_lines(console: bytes, also: re.Pattern[bytes], most: int) -> list[str]:
    """Return the first lines, `most` at most, that begin such a report or in which `also` is found."""
    console = _lines(console)
    starts = sorted({*_complained(console), *(match.start() for match in also.finditer(console))})
    lines = dict.fromkeys(max(console.rfind(b"\n", 0, at) + 1, at - _LONGEST) for at in starts[:most])
    return [clean(console[at : at + _LONGEST]).partition("\n")[0].strip() for at in lines]


def _title_of(report: str) -> str:
    """Return the title of a report, given its text from its first words on."""
    rows = ((row, match) for row in (*_REPORTS, *_OTHERS) if (match := row.pattern.match(report)))
    return next((_titled(row, match, report) for row, match in rows), _normalise(report.partition("\n")[0]))


def recognise(console: bytes) -> Crash | None:
    """Return the first crash on the console, or None."""
    for begun in (_STARTED, _REPORTED):
        console = begun.sub(lambda match: match[0] if _by_kernel(match) else b"", console)
    text = clean(console)
    found = [(row, match) for row in _FORMATS if (match := row.pattern.search(text))]
    if not found:
        return None
    # A BUG() announces itself on the line before the invalid opcode it is made of; an NMI or
    # oops is named by its first line and followed by its panic. Of one place, the first row counts.
    row, match = min(found, key=lambda item: item[1].start())
    if cause := _cause(text, match):
        return _caused(console, text, *cause)
    named = match.groupdict().get("where")
    where = frames.guilty_frame(named, text[match.end() :]) if named else frames.location(text, match.start())
    groups = [_normalise(_TOP.sub("", group or "")) for group in match.groups()]
    unknown = _unknown(text, match.start()) if "{unknown}" in row.title else ""
    title = row.title.format(*groups, where=where, unknown=unknown)
    return Crash(row.kind, title, _damage(console, text, match, title))


def _cause(text: str, panic: re.Match[str]) -> tuple[_Report, re.Match[str]] | None:
    """Return the last report before a panic that follows from one; None for another panic."""
    if not _FOLLOWING_PANIC.match(panic[0]):
        return None
    found = [(row, match) for row in _REPORTS for match in row.pattern.finditer(text, 0, panic.start())]
    return max(found, key=lambda item: item[1].start(), default=None)


def _caused(console: bytes, text: str, row: _Report, match: re.Match[str]) -> Crash:
    """Return the crash of a panic that follows from a report."""
    title = _titled(row, match, text[match.start() :])
    return Crash(row.kind, title, _damage(console, text, match, title))


def _titled(row: _Report, match: re.Match[str], report: str) -> str:
    """Return the title of a report, given its text from the match on."""
    named = match.groupdict().get("where")
    where = frames.guilty_frame(named, report) if named else row.place(report)
    return row.title.format(*(_normalise(group) for group in match.groups()), where=where)


def _by_kernel(match: re.Match[bytes]) -> bool:
    """Is this in a line that the kernel wrote?"""
    return _stamp_before(match) is not None


def _stamp_before(match: re.Match[bytes]) -> re.Match[bytes] | None:
    return _STAMPED.search(match.string[max(match.start() - _LONGEST, 0) : match.start()])


def telling_line(console: bytes) -> str:
    """Return the most telling line of a crash that no row matches, normalised, or ""."""
    text = clean(console)
    lines = (match for pattern in _TELLING if (match := pattern.search(text)))
    return _normalise(next(lines, [""])[0])


def with_telling_line(title: str, console: bytes) -> str:
    """Return the title of a crash seen from outside, with the most telling console line."""
    line = telling_line(console)
    return f"{title}: {line}" if line else title


def hung_in(console: bytes) -> str | None:
    """Return where the processor was when an NMI came, None if the console does not say."""
    return frames.interrupted(clean(console))


def blocked_in(console: bytes) -> str:
    """Return where the first blocked task of a SysRq-w report waits."""
    return frames.blocked(clean(console))


def looping_in(console: bytes) -> str:
    """Return the function in which the program of these SysRq-t reports loops."""
    return frames.looping(clean(console))


def _unknown(text: str, panic: int) -> str:
    line = telling_line(text[:panic].encode())
    return f"unknown: {line}" if line else f"oops in {frames.location(text, 0)}"


def _damage(console: bytes, text: str, match: re.Match[str], title: str) -> str:
    """Return what is missing or broken in the report that begins at `match`."""
    first = max(console.find(match[0].encode()), 0)
    count = _COUNT.search(text, match.start())
    broken = {
        "no beginning": _FOLLOWS.match(match[0]) or (count and count[1] != "1"),
        "no place": frames.UNKNOWN in title,
        "garbage": re.search(rb"[^\t\n\r -~]", _TASK.sub(b"", console[first:])),
        "mixed lines": _MIXED.search(text, match.start()),
        "no end": not ended(console),
    }
    return ", ".join(name for name, found in broken.items() if found)


def _normalise(text: str | None) -> str:
    text = (text or "")[:_LONGEST]
    for pattern, name in _NUMBERS:
        text = pattern.sub(name, text)
    return " ".join(text.split())[:100]
