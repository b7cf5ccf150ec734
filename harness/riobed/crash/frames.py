# SPDX-License-Identifier: Apache-2.0
"""The crash location: where in the kernel a crash, or a blocked task, is.

The registers name a function, but it is not always the guilty frame. A lock or a copy does what its caller
says, exception entry code fails because of the code it interrupted, and a jump to nowhere has a caller.
syzkaller skips the same functions (pkg/report/linux.go, skipPatterns). Formats: arch/x86/kernel/dumpstack.c;
the code segments 0010 (kernel) and 0033 (user) are in arch/x86/include/asm/segment.h.
"""

import re
from collections.abc import Iterator

UNKNOWN = "unknown place"
_RIP = re.compile(r"RIP: (?:0010:(?:([\w.]+)\+0x|0x[0-9a-f]+)|0033:)")
# A question mark: the word only looked like a return address.
_FRAME = re.compile(r"^ +(\? )?([\w.]+)\+0x[0-9a-f]+/0x[0-9a-f]+", re.MULTILINE)
# Suffixes of GCC's copies and parts of one source function.
_COPY = re.compile(r"(?:\.(?:isra|part|constprop|cold)(?:\.\d+)?)+$")
# Symbols that mark a place between functions (include/asm-generic/vmlinux.lds.h).
_MARK = re.compile(r"_[se](?:init)?text|__\w*(?:text|thunk)\w*_(?:start|end)")
_FETCH = "#PF: supervisor instruction fetch"
# Exception entries, which fail because of the interrupted code; and the roots of every call chain.
_ENTRY = re.compile(
    r"(?:asm_)?(?:exc|sysvec|common_interrupt)\w*|error_(?:entry|return)|paranoid_\w+|\w+_nmi|irqentry_nmi_\w+"
    # A WARN() is an exception too; a hang may be an endless series of them.
    r"|(?:find|report|handle)_bug|__warn"
)
_ROOT = re.compile(r"entry_SYSCALL_\w+|do_syscall_64|ret_from_fork\w*|" + _ENTRY.pattern)
# Functions whose caller is guilty: locks, copies and comparisons, and the checks that report them.
_SERVANT = re.compile(
    r"_raw_(?:spin|read|write)_\w+|queued_(?:spin|read|write)_lock\w*|_*(?:up|down)_(?:read|write)\w*"
    r"|_*mutex_\w+|mutex_spin_on_owner|rwsem_\w+|lockref_\w+|_*rcu_read_(?:un)?lock"
    r"|_*mem(?:cpy|move|set|cmp|chr)\w*|str(?:n?len|n?cmp|n?cpy|scpy|n?chr)|rep_(?:movs|stos)_alternative"
    r"|_*copy_(?:to|from)_(?:user|iter)\w*|copy_user_\w+|copy_page|clear_page_\w+"
    r"|usercopy_abort|_*check_(?:object_size|heap_object)|__list_\w+_or_report"
    r"|dump_stack\w*|rio_(?:trap\w*|report|check_pages)"
    # What checks and reports: KASAN, KCSAN, UBSAN, lockdep, FORTIFY_SOURCE, refcount_t, DEBUG_VM.
    r"|_*(?:kasan|asan|kcsan|tsan|ubsan|kmsan|kfence)_\w+|print_report|report_access|check_panic_on_warn"
    r"|do_raw_(?:spin|read|write)_\w+|_*lock_(?:acquire|release|contended|acquired)|lockdep_\w+|print_\w+_bug"
    r"|print_(?:deadlock|circular|usage)_\w+|check_(?:noncircular|deadlock|prev_add)|validate_chain|mark_lock\w*"
    r"|_*might_(?:sleep|fault|resched)|(?:spin|rw)_(?:bug|dump)|check_preemption_disabled|\w+_preempt_check"
    r"|debug_smp_processor_id|_*fortify_\w+|refcount_\w+|folio_(?:un)?lock|folio_end_\w+|unlock_page"
    # Assertions of file systems: XFS, btrfs.
    r"|assfail|btrfs_assertfail\w*"
)
# Not guilty of a loop: the roots of every stack, and functions whose caller is guilty.
_IN_NO_LOOP = re.compile(_ROOT.pattern + "|" + _SERVANT.pattern)
# Functions that every waiting task is in (kernel/sched, kernel/locking).
_WAITING = re.compile(
    r"_*(?:io_|preempt_)?schedule|_*(?:rt_)?(?:mutex|rwsem|down|bit_wait|out_of_line_wait|folio_wait|wait_(?:on|for|event))"
)


def location(text: str, start: int) -> str:
    """Return the location of the report that starts at `start`: a function without offset, or a description.

    `text` is a console without time stamps.
    """
    end = text.find("---[ end", start)
    # A location cut by another line is repeated after the end of the trace.
    found = list(_RIP.finditer(text, start, end if end >= 0 else len(text)))
    found = found or list(_RIP.finditer(text, start))[:1]
    if not found:
        return UNKNOWN
    if found[0][0].endswith("0033:"):
        return "user space"
    kernel = [rip for rip in found if not rip[0].endswith("0033:")]
    rip = next((rip for rip in kernel if not _ENTRY.fullmatch(rip[1] or "")), kernel[0])
    trace = text[rip.end() : end if end >= 0 else len(text)]
    jumped = rip is found[0] and _FETCH in text[start : rip.start()]
    if jumped or not rip[1] or _MARK.fullmatch(rip[1]):
        return "no function" + _near(trace)
    return guilty_frame(rip[1], trace)


def guilty_frame(function: str, trace: str) -> str:
    """Return the function, or its first caller in the trace that is not a helper."""
    if not _SERVANT.fullmatch(_source_name(function)):
        return _source_name(function)
    callers = (_source_name(frame[2]) for frame in _FRAME.finditer(trace) if not frame[1])
    caller = next((name for name in callers if not _SERVANT.fullmatch(name)), function)
    return _source_name(function if _ROOT.fullmatch(caller) else caller)


def traced(text: str) -> str:
    """Return the first function of a call trace that is not a helper; `text` begins with the report."""
    return next(_callers(text), UNKNOWN)


def slept(text: str) -> str:
    """Return the same of a report on a task that may not sleep: how it came to sleep tells nothing."""
    return next((name for name in _callers(text) if not _WAITING.match(name)), UNKNOWN)


def _callers(text: str) -> Iterator[str]:
    names = (_source_name(frame[2]) for frame in _FRAME.finditer(text) if not frame[1])
    return (name for name in names if not _SERVANT.fullmatch(name) and not _ROOT.fullmatch(name))


def interrupted(text: str) -> str | None:
    """Return where the processor was when an NMI came, None if the console does not say."""
    entry = re.search(r"^ +(?:end_repeat_nmi|asm_exc_nmi)\+0x", text, re.MULTILINE)
    where = location(text, entry.start()) if entry else UNKNOWN
    return None if where == UNKNOWN else where


def blocked(text: str) -> str:
    """Return the first function of the first blocked task in a SysRq-w report that is not a wait helper."""
    start = text.find("state:D")
    frames = _FRAME.finditer(text, start) if start >= 0 else iter(())
    names = (_source_name(frame[2]) for frame in frames if not frame[1])
    return next((name for name in names if not _WAITING.match(name)), UNKNOWN)


def looping(text: str) -> str:
    """Return where a program loops in the kernel: the innermost function common to all SysRq-t reports.

    The function that contains the loop is on every stack, wherever in the loop the program is.
    """
    stacks = [_preempted(report) for report in text.split("sysrq: Show State")]
    first, *others = [stack for stack in stacks if stack] or [[]]
    return next((name for name in first if all(name in stack for stack in others)), UNKNOWN)


def _preempted(report: str) -> list[str]:
    """Return the stack, innermost first, of the first task that was preempted in a system call."""
    # Not the guest agent, which is executing the request.
    tasks = re.findall(r"^task:(?!qemu-ga).*state:R.*\n(?:(?!task:).*\n)*", report, re.MULTILINE)
    task = next((task for task in tasks if "entry_SYSCALL" in task and "preempt_schedule" in task), "")
    interrupt = re.search(r"^ +asm_\w+\+0x.*\n" + _RIP.pattern, task, re.MULTILINE)
    frames = list(_FRAME.finditer(task, interrupt.end() if interrupt else 0))
    # The kernel's unwinder fails at some instructions; then there are only guesses.
    sure = [frame[2] for frame in frames if not frame[1]] or [frame[2] for frame in frames]
    names = map(_source_name, [interrupt[1], *sure] if interrupt and interrupt[1] else sure)
    return [name for name in names if not _WAITING.match(name) and not _IN_NO_LOOP.fullmatch(name)]


def _near(trace: str) -> str:
    """Return the probable origin of a jump to no function.

    This is the first reliable caller, or else the first return address on the stack.
    """
    frames = [(frame[1], _source_name(frame[2])) for frame in _FRAME.finditer(trace)]
    sure = (name for guessed, name in frames if not guessed)
    name = next(sure, frames[0][1] if frames else "")
    return f" near {name}" if name and not _ROOT.fullmatch(name) else ""


def _source_name(symbol: str) -> str:
    return _COPY.sub("", symbol)
