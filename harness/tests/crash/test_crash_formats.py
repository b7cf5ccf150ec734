# SPDX-License-Identifier: Apache-2.0
"""Crash recognition: on real console logs, and on corner cases of the formats one by one."""

import gzip
from pathlib import Path

import pytest
from riobed.crash import formats
from riobed.crash.formats import Complaints, Crash

CONSOLE = Path(__file__).parent / "data" / "console"
LOGS = sorted(CONSOLE.glob("*.log.gz"))
REGISTERS = b"[    9.1] RIP: 0010:%b+0x17/0x120\n[    9.2] Code: 48 8b <83>\n"
PANIC = b"[    9.9] Kernel panic - not syncing: Fatal exception\n"
REPORT = b"BUG: unable to handle page fault for address: 8\nKernel panic - not syncing: Fatal exception\n"
END = b"[   10.0] ---[ end Kernel panic - not syncing: Fatal exception ]---\n"


def name_of(path: Path) -> str:
    return path.name.removesuffix(".log.gz")


def test_each_expectation_has_its_log() -> None:
    assert {name_of(path) for path in LOGS} == {path.stem for path in CONSOLE.glob("*.expected")} != set()


@pytest.mark.parametrize("path", LOGS, ids=name_of)
def test_real_logs(path: Path) -> None:
    console = gzip.decompress(path.read_bytes())
    kind, *title = path.with_name(f"{name_of(path)}.expected").read_text().splitlines()
    crash = formats.recognise(console)
    if kind == "none":
        assert (crash, title) == (None, [])
        assert not formats.started(console)
    else:
        assert crash == Crash(kind, *title)
        assert formats.started(console)
        assert formats.ended(console)


VICTIMS = {
    "null-pointer-in-journal-thread": (58, "jbd2/vdb-8"),
    "null-pointer-in-interrupt": (0, "swapper/0"),
    "stall-then-page-fault": (74, "memtest"),
    "double-fault": (44, "cat"),
    "stall-is-no-crash": None,
}


@pytest.mark.parametrize("name", VICTIMS)
def test_the_task_that_ran(name: str) -> None:
    assert formats.victim(gzip.decompress((CONSOLE / f"{name}.log.gz").read_bytes())) == VICTIMS[name]


@pytest.mark.parametrize("path", LOGS, ids=name_of)
def test_a_report_in_the_making_is_noticed_before_it_ends(path: Path) -> None:
    """However much of it is there, whole lines tell a start, and nothing else does."""
    console = gzip.decompress(path.read_bytes())
    crash = formats.recognise(console)
    lines = console.splitlines(keepends=True)
    started = [formats.started(b"".join(lines[:count])) for count in range(len(lines) + 1)]
    assert started == sorted(started)
    assert started[-1] == (crash is not None)
    if crash:
        first = formats.recognise(b"".join(lines[: started.index(True)]))
        assert first is not None
        assert first.kind == crash.kind


def oops_lines(first: bytes, function: bytes = b"iput") -> bytes:
    return b"[    9.0] " + first + b"\n" + REGISTERS % function + PANIC + END


OOPS = b"Oops: %b: 0000 [#1] PREEMPT SMP"
FATAL = b"Kernel panic - not syncing: "
PROTECTION = b"general protection fault"
COPY = b"usercopy: Kernel memory "
FORMATS = [
    (b"rio: protection trap: store by memtest/77", "trap", "protection trap in iput"),
    (b"BUG: kernel NULL pointer dereference, address: 00000006", "oops", "NULL pointer dereference in iput"),
    (b"BUG: unable to handle page fault for address: ffff888012345678", "oops", "page fault in iput"),
    (b"kernel BUG at fs/ext4/inode.c:1234!", "oops", "BUG at fs/ext4/inode.c in iput"),
    (b"BUG: IRQ stack guard page was hit at 000000001 (stack is 0..1)", "panic", "stack overflow in iput"),
    (b"BUG: #DF stack guard page was hit at 000000001 (stack is 0..1)", "panic", "stack overflow in iput"),
    (b"traps: PANIC: double fault, error_code: 0x0", "panic", "double fault in iput"),
    (COPY + b"overwrite attempt detected to SLUB object 'km-64' (offset 1, size 8)!", "oops",
     "usercopy overwrite of SLUB object in iput"),
    (COPY + b"exposure attempt detected from process stack (offset 0, size 9)!", "oops",
     "usercopy exposure of process stack in iput"),
    (b"watchdog: BUG: soft lockup - CPU#0 stuck for 26s! [memtest:77]", "hang", "soft lockup in iput"),
    (FATAL + b"NMI: Not continuing", "hang", "hang in iput"),
    (FATAL + b"stack-protector: Kernel stack is corrupted in: do_sys+0x12/0x34", "panic",
     "stack corrupted in do_sys"),
    (FATAL + b"Attempted to kill init! exitcode=0x0000000b", "panic", "init killed"),
    (FATAL + b"Attempted to kill the idle task!", "panic", "idle task killed"),
    (FATAL + b"EXT4-fs (vdb): forced", "panic", "panic: EXT4-fs (vdb): forced"),
    (OOPS % PROTECTION, "oops", "general protection fault in iput"),
    (OOPS % (PROTECTION + b", maybe for address 0xffffffff81000000"), "oops",
     "general protection fault in iput"),
    (OOPS % (PROTECTION + b", probably for non-canonical address 0xdead00000100"), "oops",
     "general protection fault in iput"),
    (OOPS % b"invalid opcode", "oops", "invalid opcode in iput"),
    (OOPS % b"stack segment", "oops", "stack segment in iput"),
    (OOPS % b"unexpected #NM exception", "oops", "unexpected #NM exception in iput"),
    (b"Oops: Bad pagetable: 0009 [#1] PREEMPT SMP", "oops", "Bad pagetable in iput"),
    (b"Oops: Oops: 0002 [#1] PREEMPT SMP", "oops", "oops in iput"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "kind", "title"), FORMATS)
def test_each_format(line: bytes, kind: str, title: str) -> None:
    console = b"[    1.0] EXT4-fs (vdb): mounted\n" + oops_lines(line)
    assert formats.recognise(console) == Crash(kind, title)
    assert formats.started(b"[    9.0] " + line + b"\n")
    assert not formats.ended(console.removesuffix(END))
    assert formats.ended(console)


GOES_ON = b"""
riobed: production ready
EXT4-fs error (device vdb): ext4_find_dest_de:2074: inode #115: comm memtest: bad entry
traps: memtest[77] general protection fault ip:401234 sp:7ffc0000 error:0 in memtest[401000+b9000]
traps: memtest[77] trap invalid opcode ip:401234 sp:7ffc0000 error:0 in memtest[401000+b9000]
memtest[77]: segfault at 8 ip 0000000000401234 sp 00007ffc0000 error 4 in memtest[401000+b9000]
BUG: Bad page state in process memtest  pfn:1b8d0
BUG: Bad rss-counter state mm:(____ptrval____) type:MM_FILEPAGES val:-1
BUG: scheduling while atomic: memtest/77/0x00000002
WARNING: CPU: 0 PID: 77 at fs/inode.c:417 drop_nlink+0x28/0x40
INFO: task memtest:77 blocked for more than 120 seconds.
rcu: INFO: rcu_preempt self-detected stall on CPU
Kernel command line: oops=panic panic=0
DEBUG: Oops, I did it again
Uhhuh. NMI received for unknown reason 21 on CPU 0."""


@pytest.mark.parametrize("line", GOES_ON.split(b"\n"))
def test_what_is_no_crash(line: bytes) -> None:
    console = b"[    1.0] " + line + b"\n" + REGISTERS % b"drop_nlink"
    assert formats.recognise(console) is None
    assert not formats.started(console)
    assert not formats.ended(console)


@pytest.mark.parametrize(
    ("place", "where"),
    [
        (b"ext4_find_dest_de+0x81/0x1b0", "ext4_find_dest_de"),
        (b"riobed_hit.part.0+0x5/0x20 [riobed_inject]", "riobed_hit"),
        # A copy does what its caller says.
        (b"memcpy_orig+0x5/0x20", "ext4_append"),
        # No symbol: what the registers' line says.
        (b"0xffffffffc0001234", "iput"),
    ],
)
def test_a_protection_trap_is_named_by_its_first_line(place: bytes, where: str) -> None:
    console = b"[    9.0] EXT4-fs (vdb): mounted\n[    9.1] BUG: rio: protection trap in %b\n" % place
    console += b"[    9.1] Store of 8 bytes to ffff888012345678 by memtest/77:\n" + REGISTERS % b"iput"
    # The report of a check, which is no fault, begins with itself.
    console += b"[    9.3]  dump_stack_lvl+0x1/0x2\n[    9.3]  rio_trapped.cold+0x1/0x2\n"
    console += b"[    9.3]  rio_check_pages+0x1/0x2\n"
    console += b"[    9.3]  ? memset_orig+0x1/0x2\n[    9.3]  ext4_append+0x1/0x2\n"
    console += b"[    9.9] Kernel panic - not syncing: rio: protection trap\n"
    assert not formats.ended(console)
    end = b"[   10.0] ---[ end Kernel panic - not syncing: rio: protection trap ]---\n"
    assert formats.recognise(console + end) == Crash("trap", f"protection trap in {where}")
    assert formats.started(console) and formats.ended(console + end)


def test_a_program_that_writes_a_report_to_the_serial_port_is_no_crash() -> None:
    said = REPORT.replace(b"\n", b"\r\n") + b"[    9.5] EXT4-fs (vdb): mounted\r\n"
    assert formats.recognise(said) is None
    assert not formats.started(said)
    crash = said + oops_lines(OOPS % b"invalid opcode")
    assert formats.recognise(crash) == Crash("oops", "invalid opcode in iput")
    # What a program wrote last may have no end of line.
    assert formats.started(b"ext4 mounted" + crash.partition(b"mounted\r\n")[2])


@pytest.mark.parametrize(
    ("rip", "where"),
    [
        (b"RIP: 0010:iput+0x12/0x340", "iput"),
        (b"RIP: 0010:inject_write+0x12/0x340 [riobed_inject]", "inject_write"),
        (b"RIP: 0010:queue_work.part.0.constprop.0+0x1/0x2", "queue_work"),
        (b"RIP: 0010:__static_call_text_end+0x6609/0xf1238", "no function"),
        (b"RIP: 0010:0x0\n ? iput+0x1/0x2", "no function near iput"),
        (b"RIP: 0010:0x0\n entry_SYSCALL_64_after_hwframe+0x1/0x2", "no function"),
        (b"#PF: supervisor instruction fetch in kernel mode\nRIP: 0010:init_stack+0x1/0x2", "no function"),
        (b"RIP: 0010:_raw_spin_lock+0x1/0x2\n ? up_write+0x1/0x2\n dput+0x1/0x2", "dput"),
        (b"RIP: 0010:_raw_spin_lock+0x1/0x2\n ? iput+0x1/0x2", "_raw_spin_lock"),
        (b"RIP: 0010:_raw_spin_lock+0x1/0x2\n do_syscall_64+0x1/0x2", "_raw_spin_lock"),
        (b"RIP: 0010:exc_page_fault+0x1/0x2\nRIP: 0010:iput+0x1/0x2\nRIP: 0033:0x7f", "iput"),
        (b"RIP: 0010:exc_page_fault+0x1/0x2\nRIP: 0033:0x7f", "exc_page_fault"),
        (b"RIP: 0010:ext4_[  9.1] x\n---[ end trace 0 ]---\nRIP: 0010:iput+0x1/0x2", "iput"),
        # What follows the end of the trace is of another report.
        (b"RIP: 0010:_raw_spin_lock+0x1/0x2\n---[ end trace 0 ]---\n iput+0x1/0x2", "_raw_spin_lock"),
        (b"---[ end trace 0 ]---\nRIP: 0010:exc_nmi+0x1/0x2\nRIP: 0010:iput+0x1/0x2", "exc_nmi"),
        (b"RIP: 0010:exc_nmi+0x1/0x2\nRIP: 0010:iput+0x1/0x2\nRIP: 0010:dput+0x1/0x2", "iput"),
        (b"#PF: supervisor instruction fetch\nRIP: 0010:iput+0x1/0x2\nRIP: 0010:dput+0x1/0x2", "no function"),
        (b"RIP: 0010:0xffffffffc0001234", "no function"),
        (b"RIP: 0010:0x0", "no function"),
        (b"RIP: 0033:0x7f38939b072e", "user space"),
        (b"RIP: 0010:", "unknown place"),
        (b"", "unknown place"),
    ],
)
def test_where_it_happened(rip: bytes, where: str) -> None:
    console = b"[    9.0] BUG: unable to handle page fault for address: ffff\n[    9.1] " + rip
    console += b"\n" + PANIC
    assert formats.recognise(console) == Crash("oops", f"page fault in {where}")


def test_equal_crashes_have_equal_titles() -> None:
    numbers = [(b"115", b"0xffff888001234567"), (b"9", b"0xffff8880089abcde"), (b"1", b"0x8")]
    said = [b"[    9.0] " + FATAL + b"bad inode %b at %b (pid %b)\r\n" % (n, at, n) for n, at in numbers]
    titles = {formats.recognise(each) for each in said}
    assert titles == {Crash("panic", "panic: bad inode N at ADDR (pid N)")}


def test_a_title_is_short_and_plain() -> None:
    crash = formats.recognise(b"[    9.0] " + FATAL + b"\x1b[31mred\x07 {x} {where} \xff\xfe" + b" word" * 99)
    assert crash is not None
    assert crash.title.startswith("panic: ?[31mred? {x} {where} ?? word word")
    assert len(crash.title) <= 110
    assert crash.title.isprintable()


@pytest.mark.parametrize(
    "stamp", [b"[    9.0] ", b"<0>[    9.012345] ", b"[    9.0][   T77] ", b"[12345.678901][    C0] "]
)
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_stamps_and_line_ends_make_no_difference(stamp: bytes, end: bytes) -> None:
    lines = [b"kernel BUG at fs/inode.c:12!", b"RIP: 0010:iput+0x1/0x2", b"Kernel panic - not syncing: Fatal"]
    console = end.join(stamp + line for line in lines) + end
    assert formats.recognise(console) == Crash("oops", "BUG at fs/inode.c in iput")
    text = formats.clean(console)
    assert text == "\n".join(line.decode() for line in lines) + "\n"


NULL = b"[    9.0] BUG: kernel NULL pointer dereference, address: 0\n"
PAGE_FAULT = oops_lines(b"BUG: unable to handle page fault for address: 8")
ATOMIC = b"BUG: scheduling while atomic: memtest/77/0x00000002\n" + REGISTERS % b"schedule"
STALL = b"rcu: INFO: rcu_preempt self-detected stall on CPU\n" + REGISTERS % b"pv_native_safe_halt"


@pytest.mark.parametrize(
    ("console", "title"),
    [
        # A warning before a crash does not name it, nor its place.
        (ATOMIC + b"BUG: Bad page state in process memtest  pfn:1b8d0\n" + PAGE_FAULT, "page fault in iput"),
        (STALL + PAGE_FAULT, "page fault in iput"),
        # The first of two crashes counts.
        (NULL + REGISTERS % b"first" + PAGE_FAULT, "NULL pointer dereference in first"),
        # A BUG() is named by its line and not by its opcode.
        (
            b"[    9.0] kernel BUG at mm/slub.c:571!\n" + oops_lines(OOPS % b"invalid opcode"),
            "BUG at mm/slub.c in iput",
        ),
        # In the middle of another line.
        (
            b"[    8.9] EXT4-fs (vdb): mou" + NULL + b"garbage RIP: 0010:iput+0x12/0x340 garbage\n",
            "NULL pointer dereference in iput",
        ),
        # A place cut by another line is taken from its repetition.
        (
            b"[    9.0] Oops: int3: 0000 [#1]\nRIP: 0010:ext4_ren[  9.1] other\nRIP: 0010:iput+0x12/0x340\n",
            "int3 in iput",
        ),
        # The console begins within a report.
        (
            b"RIP: 0010:_raw_spin_lock+0x1/0x2\n---[ end trace 0 ]---\n iput+0x1/0x2\n" + PANIC,
            "oops in _raw_spin_lock",
        ),
        (
            b"---[ end trace 0 ]---\nRIP: 0010:exc_nmi+0x1/0x2\nRIP: 0010:iput+0x1/0x2\n" + PANIC,
            "oops in exc_nmi",
        ),
    ],
)
def test_what_a_crash_is_named_by(console: bytes, title: str) -> None:
    assert formats.recognise(console) == Crash("oops", title)


def test_bytes_of_any_kind_are_taken() -> None:
    console = bytes(range(256)) * 40 + b"\0" * 5000
    assert formats.recognise(console) is None
    assert not formats.started(console)
    cleaned = formats.clean(console)
    assert set(cleaned) <= {chr(code) for code in range(32, 127)} | {"\n", "\t"}
    crash = formats.recognise(console + oops_lines(b"kernel BUG at fs/inode.c:12!"))
    assert crash == Crash("oops", "BUG at fs/inode.c in iput")


BLOCKED = b"""\
[   39.016103] sysrq: Show Blocked State
[   39.021242] task:memtest         state:D stack:0     pid:77    tgid:77    ppid:1      flags:0x00004002
[   39.022781]  __schedule+0x2bc/0x640
[   39.023585]  ? rcu_gp_init+0x590/0x590
[   39.023664]  schedule+0x27/0xb0
[   39.023727]  schedule_preempt_disabled+0x9b/0x160
[   39.023802]  __mutex_lock.constprop.0+0x110/0x110
[   39.023887]  ext4_orphan_add+0x107/0x480
[   39.023959]  iput+0x93/0x100
"""


def test_where_a_task_is_blocked() -> None:
    assert formats.blocked_in(BLOCKED) == "ext4_orphan_add"
    assert formats.blocked_in(BLOCKED.replace(b"state:D", b"state:S")) == "unknown place"
    assert formats.blocked_in(b"") == "unknown place"
    # The beginning of the report is lost.
    assert formats.blocked_in(BLOCKED[BLOCKED.index(b"state:D") :]) == "ext4_orphan_add"


def test_of_an_endless_line_the_beginning_is_read() -> None:
    assert formats.telling_line(b"BUG" + b" " * 296 + b"abc") == "BUG a"


TRACE = b"[    2.1] CPU: 0 UID: 0 PID: 7 Comm: cat Not tainted 6.12.1 #1\n[    2.2] Call Trace:\n"
FRAMES = b"".join(
    b"[    2.4]  %b+0x1/0x2\n" % name
    for name in (b"dump_stack_lvl", b"__ubsan_handle_out_of_bounds", b"ext4_get_block", b"do_syscall_64")
)


@pytest.mark.parametrize(
    ("report", "panic", "kind", "title"),
    [
        (b"BUG: KASAN: slab-use-after-free in memcpy+0x1/0x2", b"KASAN: panic_on_warn set ...", "panic",
         "KASAN slab-use-after-free in ext4_get_block"),
        (b"BUG: KFENCE: out-of-bounds read in ext4_read+0x1/0x2", b"KFENCE: panic_on_warn set ...", "panic",
         "KFENCE out-of-bounds read in ext4_read"),
        (b"BUG: KCSAN: data-race in ext4_a / ext4_b", b"kcsan: panic_on_warn set ...", "panic",
         "KCSAN data-race in ext4_a"),
        (b"UBSAN: shift-out-of-bounds in fs/ext4/super.c:1:2", b"UBSAN: panic_on_warn set ...", "panic",
         "UBSAN shift-out-of-bounds in ext4_get_block"),
        (b"WARNING: CPU: 0 PID: 7 at lib/refcount.c:28 refcount_warn_saturate+0x1/0x2",
         b"kernel: panic_on_warn set ...", "panic", "warning in ext4_get_block"),
        (b"WARNING: fs/inode.c:417 at drop_nlink+0x28/0x40, CPU#0: cat/7", b"kernel: panic_on_warn set ...",
         "panic", "warning in drop_nlink"),
        (b"rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:", b"RCU Stall", "hang",
         "RCU stall in ext4_stuck"),
        (b"watchdog: CPU0: Watchdog detected hard LOCKUP on cpu 0", b"Hard LOCKUP", "hang",
         "hard lockup in ext4_stuck"),
    ],
)  # fmt: skip
def test_a_panic_that_follows_from_a_report_is_titled_by_it(
    report: bytes, panic: bytes, kind: str, title: str
) -> None:
    begin = b"[    2.0] %b\n" % report
    end = b"[    3.0] Kernel panic - not syncing: %b\n" % panic
    registers = b"[    2.5] RIP: 0010:ext4_stuck+0x1/0x2\n"
    found = formats.recognise(begin + TRACE + FRAMES + registers + end + END)
    assert found and (found.kind, found.title) == (kind, title)
    # What went before, or what a program wrote, is not its cause.
    other = b"[    9.0] Kernel panic - not syncing: something else\n"
    found = formats.recognise(begin + TRACE + FRAMES + other)
    assert found and found.title == "panic: something else"
    found = formats.recognise(report + b"\n" + end)
    assert found and found.title.startswith("panic: ")


def test_a_hung_task_is_named_by_where_it_waits() -> None:
    task = b"[    2.1] task:kjournald state:D stack:0 pid:9\n[    2.2] Call Trace:\n"
    waits = b"[    2.3]  schedule+0x1/0x2\n[    2.4]  jbd2_journal_commit_transaction+0x1/0x2\n"
    begin = b"[    2.0] INFO: task jbd2/vdb-8:9 blocked for more than 120 seconds.\n"
    end = b"[    3.0] Kernel panic - not syncing: hung_task: blocked tasks\n"
    found = formats.recognise(begin + task + waits + end)
    assert found and (found.kind, found.title) == ("hang", "hung task in jbd2_journal_commit_transaction")


@pytest.mark.parametrize(
    "helper",
    [
        "__asan_load8",
        "kasan_check_range",
        "do_raw_spin_lock",
        "__lock_acquire",
        "__fortify_panic",
        "folio_unlock",
        "assfail",
    ],
)
def test_a_check_is_not_guilty_of_what_it_finds(helper: str) -> None:
    report = b"[    2.0] BUG: kernel NULL pointer dereference, address: 0\n"
    console = report + b"[    2.1] RIP: 0010:%b+0x1/0x2\n" % helper.encode() + FRAMES + PANIC
    found = formats.recognise(console)
    assert found and found.title == "NULL pointer dereference in ext4_get_block"


def test_a_source_file_may_lie_anywhere_and_a_task_may_have_any_name() -> None:
    console = (
        b"[    1.0] kernel BUG at /home/me/my linux/fs/ext4/inode.c:99!\n"
        + "[    1.1] CPU: 0 UID: 0 PID: 7 Comm: pr\u00fcfen Not tainted 6.12.1 #1\n".encode()
        + REGISTERS % b"ext4_writepage"
        + PANIC
        + END
    )
    assert formats.recognise(console) == Crash("oops", "BUG at fs/ext4/inode.c in ext4_writepage")
    found = formats.recognise(console)
    assert found and not found.damage
    assert formats.victim(console) == (7, "pr\u00fcfen")


@pytest.mark.parametrize(
    ("report", "title"),
    [
        (b"BUG: KASAN: slab-use-after-free in memcpy+0x1/0x2", "KASAN slab-use-after-free in ext4_get_block"),
        (b"BUG: KCSAN: data-race in ext4_a / ext4_b", "KCSAN data-race in ext4_a"),
        (b"UBSAN: shift-out-of-bounds in fs/x.c:1:2", "UBSAN shift-out-of-bounds in ext4_get_block"),
        (b"refcount_t: underflow; use-after-free.\n[    2.0] WARNING: CPU: 0 PID: 7 at lib/refcount.c:28 "
         b"refcount_warn_saturate+0x1/0x2", "warning in ext4_get_block"),
        (b"WARNING: possible circular locking dependency detected",
         "lockdep possible circular locking dependency in ext4_get_block"),
        (b"WARNING: SOFTIRQ-safe -> SOFTIRQ-unsafe lock order detected",
         "lockdep SOFTIRQ-safe -> SOFTIRQ-unsafe lock order in ext4_get_block"),
        (b"[ BUG: Invalid wait context ]", "lockdep Invalid wait context in ext4_get_block"),
        (b"BUG: Bad page state in process cat  pfn:1b8d0", "Bad page state"),
        (b"BUG: Bad rss-counter state mm:12345678 val:-1", "BUG: Bad rss-counter state mm:ADDR val:-N"),
        (b"BUG: scheduling while atomic: cat/77/0x00000002", "scheduling while atomic in ext4_get_block"),
        (b"BUG: sleeping function called from invalid context at mm/x.c:9",
         "sleeping function called from invalid context in ext4_get_block"),
        (b"BUG: using smp_processor_id() in preemptible [00000000] code: cat/77",
         "smp_processor_id in preemptible code in ext4_get_block"),
        (b"BUG: spinlock bad magic on CPU#0, cat/77", "spinlock bad magic in ext4_get_block"),
        (b"BUG kmalloc-64 (Not tainted): Poison overwritten", "SLUB Poison overwritten in kmalloc-N"),
        (b"rcu: INFO: rcu_preempt self-detected stall on CPU", "RCU stall in ext4_stuck"),
        (b"WARNING: something new", "WARNING: something new"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_what_a_kernel_reports_and_outlives(report: bytes, title: str, end: bytes) -> None:
    waits = b"[    2.3]  __schedule_bug+0x1/0x2\n[    2.3]  __schedule+0x1/0x2\n[    2.3]  schedule+0x1/0x2\n"
    whole = TRACE + waits * (b"scheduling" in report) + FRAMES + b"[    2.5] RIP: 0010:ext4_stuck+0x1/0x2\n"
    console = (b"[    2.0] %b\n" % report + whole).replace(b"\n", end)
    assert formats.recognise(console) is None
    assert formats.complaints(console) == Complaints(1, title)
    assert formats.complaints(console * 2 + PAGE_FAULT) == Complaints(2, title)
    # What a program wrote is no report of the kernel.
    assert formats.complaints(report.rpartition(b"] W")[2] + b"\n") == Complaints(0, None)


def test_the_report_that_a_kernel_died_of_is_no_complaint() -> None:
    kasan = b"[    2.0] BUG: KASAN: slab-use-after-free in ext4_a+0x1/0x2\n"
    panic = b"[    3.0] Kernel panic - not syncing: KASAN: panic_on_warn set ...\n"
    lockdep = b"[    1.0] WARNING: bad unlock balance detected!\n" + FRAMES
    first = "lockdep bad unlock balance in ext4_get_block"
    assert formats.complaints(kasan + panic) == Complaints(0, None)
    assert formats.complaints(lockdep + kasan + panic + END) == Complaints(1, first)
    # What a dying kernel says is of its crash.
    assert formats.complaints(lockdep + PAGE_FAULT + kasan) == Complaints(1, first)
    nmi = b"[    9.0] Kernel panic - not syncing: NMI: Not continuing\n"
    assert formats.complaints(lockdep + kasan + nmi) == Complaints(2, first)
    assert formats.complaints(b"[    1.0] DEBUG: WARNING it is not\n" + nmi) == Complaints(0, None)


@pytest.mark.parametrize("words", [b"INFO: task ", b"WARNING: ", b"kernel BUG at ", b"[ 1.0] BUG: KASAN: "])
def test_an_endless_line_of_beginnings_is_read_in_good_time(words: bytes) -> None:
    """In a time that grows with its square this would take minutes."""
    console = words * 50_000
    assert formats.complaints(console).count < 5_000
    assert formats.recognise(console) is None


@pytest.mark.parametrize(("console", "how"), [
    (b"", "not reached"),
    (b"[    9.0] sync at panic: not in this context\n", "not in this context"),
    (b"[    9.0] sync at panic: begun, for at most 30 s\n", "did not end"),
    (b"[    9.0] sync at panic: begun, for at most 30 s\n[   39.0] sync at panic: timed out\n", "timed out"),
    # A program wrote the last line.
    (b"[    9.0] sync at panic: crashed\nsync at panic: done\n", "crashed"),
])  # fmt: skip
def test_how_a_sync_at_a_panic_ended(console: bytes, how: str) -> None:
    assert formats.sync_at_panic(console) == f"sync at panic: {how}"
