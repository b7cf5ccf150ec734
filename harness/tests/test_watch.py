# SPDX-License-Identifier: Apache-2.0
"""The watcher tells crash, hang, reset, silence and patience apart. Its clock here is the test's."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from harness_builders import SEED, Clock, ScriptedMachine, record, spec
from riobed.crash import formats, frames
from riobed.crash.formats import Crash
from riobed.errors import InfraError
from riobed.trial.progress import Progress
from riobed.trial.watch import Observation, Watcher
from riobed.vm.agent import ExecResult
from riobed.vm.machine import LogFile

SPEC = spec(limit_s=60.0, hang_s=8.0)
OOPS = b"[ 9.0] BUG: kernel NULL pointer dereference, address: 0\nRIP: 0010:iput+0x1/0x2\n"
END = b"[ 9.0] Kernel panic - not syncing: Fatal\n---[ end Kernel panic - not syncing: Fatal ]---\n"
NULL_POINTER = Crash("oops", "NULL pointer dereference in iput")
NMI = (
    b"[ 9.0] Kernel panic - not syncing: NMI: Not continuing\n end_repeat_nmi+0xf/0x18\n"
    b"RIP: 0010:iput+0x1/0x2\n"
    b"---[ end Kernel panic - not syncing: NMI: Not continuing ]---\n"
)


@pytest.fixture
def machine(tmp_path: Path, clock: Clock) -> ScriptedMachine:
    return ScriptedMachine(tmp_path, clock)


def steps(machine: ScriptedMachine, until: float, every: float = 1.0) -> None:
    """The workload reports a step now and then for that long."""
    for number in range(1, int(until / every) + 1):
        machine.clock.after(number * every, lambda n=number: machine.say(machine.progress, record("D", n)))


def observe(machine: ScriptedMachine, **options: Any) -> Observation:
    return Watcher(machine, SPEC, Progress(SEED), 77, **options).watch()


def test_a_crash_report_is_read_to_its_end(machine: ScriptedMachine) -> None:
    steps(machine, 60)
    machine.clock.after(4, lambda: machine.say(machine.console, OOPS))
    machine.clock.after(5, lambda: machine.say(machine.console, END))
    seen = observe(machine)
    assert (seen.crash, seen.workload_status, seen.restarted) == (NULL_POINTER, "running", False)
    assert seen.seconds == pytest.approx(5, abs=0.2)
    assert machine.nmis == 0


def test_a_report_that_never_ends_is_waited_for_a_little(machine: ScriptedMachine) -> None:
    steps(machine, 60)
    machine.clock.after(4, lambda: machine.say(machine.console, OOPS))
    seen = observe(machine)
    assert seen.crash == NULL_POINTER
    assert 6.5 < seen.seconds < 7.5


def test_a_crash_at_once(machine: ScriptedMachine) -> None:
    machine.say(machine.console, OOPS + END)
    seen = observe(machine)
    assert seen.crash == NULL_POINTER
    assert seen.seconds < 0.1


def test_no_crash_within_the_limit(machine: ScriptedMachine) -> None:
    steps(machine, 100)
    seen = observe(machine)
    assert (seen.crash, seen.workload_status, seen.detail) == (None, "running", "timed out")
    assert seen.seconds == pytest.approx(60, abs=0.2)


EARLY = spec(limit_s=60.0, hang_s=8.0, early_discard_s=5.0)


def early(machine: ScriptedMachine, waiting: Collection[int] = ()) -> Observation:
    return Watcher(machine, EARLY, Progress(SEED), 77, waiting=waiting).watch()


def test_a_workload_that_goes_on_without_a_fault_being_heard_of_is_discarded_early(
    machine: ScriptedMachine,
) -> None:
    steps(machine, 100)
    for moment in (2, 6, 10):
        machine.clock.after(moment, lambda: machine.say(machine.evidence, b"A 1 5000\n"))
    seen = early(machine)
    assert (seen.crash, seen.workload_status, seen.detail) == (None, "running", "went well")
    # The first step more than 5 s after the last activation.
    assert seen.seconds == pytest.approx(16, abs=1.1)


@pytest.mark.parametrize(("second", "seconds", "detail"), [(20, 26, "went well"), (None, 60, "timed out")])
def test_a_fault_that_is_sure_to_come_is_waited_for(
    machine: ScriptedMachine, second: int | None, seconds: float, detail: str
) -> None:
    steps(machine, 100)
    machine.clock.after(2, lambda: machine.say(machine.evidence, b"A 0 5000\n"))
    if second:
        machine.clock.after(second, lambda: machine.say(machine.evidence, b"A 1 6000\n"))
    seen = early(machine, [0, 1])
    assert (seen.crash, seen.detail) == (None, detail)
    assert seen.seconds == pytest.approx(seconds, abs=1.1)


def test_what_crashes_in_time_is_no_early_discard(machine: ScriptedMachine) -> None:
    steps(machine, 100)
    machine.clock.after(4, lambda: machine.say(machine.console, OOPS + END))
    assert early(machine).crash == NULL_POINTER


def test_a_workload_in_trouble_is_not_discarded_early(machine: ScriptedMachine) -> None:
    machine.say(machine.progress, record("E", 1, "EIO", "write of 4 bytes"))
    steps(machine, 100)
    seen = early(machine)
    assert (seen.crash, seen.detail) == (None, "timed out")
    assert seen.seconds == pytest.approx(60, abs=0.2)


def test_silence_is_no_early_discard(machine: ScriptedMachine) -> None:
    """A hang gives no step by which the workload could be seen to go on."""
    steps(machine, 4)
    machine.agent = False
    assert early(machine).crash == Crash("hang", "hang, no output")


def test_the_last_steps_are_taken_in(machine: ScriptedMachine) -> None:
    machine.say(machine.console, OOPS)
    machine.clock.after(1, lambda: machine.say(machine.progress, record("D", 41)))
    machine.clock.after(1, lambda: machine.say(machine.console, END))
    progress = Progress(SEED)
    Watcher(machine, SPEC, progress, 77).watch()
    assert progress.done == 41


def test_a_hang_with_the_agent_lost_says_where_if_it_can(machine: ScriptedMachine) -> None:
    steps(machine, 3)
    machine.clock.after(3, lambda: setattr(machine, "agent", False))
    machine.on_nmi = lambda: machine.say(machine.console, NMI)
    seen = observe(machine)
    assert (seen.crash, seen.detail) == (Crash("hang", "hang in iput"), "agent lost")
    # 3 s of steps, 8 s of silence, 3 s for the agent
    assert seen.seconds == pytest.approx(14, abs=0.3)
    assert machine.nmis == 1


@pytest.mark.parametrize(
    ("says", "detail", "title"),
    [
        (b"", "no output", "hang, no output"),
        (b"\r\n", "no output", "hang, no output"),
        (b"noise\n", "agent lost", "hang, agent lost"),
        (b"WARNING: 7 of 9\n", "agent lost", "hang, agent lost: WARNING: N of N"),
        (OOPS + END, "agent lost", "hang, agent lost: BUG: kernel NULL pointer dereference, address: N"),
    ],
)
def test_a_hang_that_cannot_say_where(machine: ScriptedMachine, says: bytes, detail: str, title: str) -> None:
    machine.agent = False
    machine.on_nmi = lambda: machine.say(machine.console, says)
    seen = observe(machine)
    assert (seen.crash, seen.detail) == (Crash("hang", title), detail)
    assert seen.seconds == pytest.approx(11, abs=0.3)


def test_a_silent_hang_is_titled_by_what_the_console_said_before(machine: ScriptedMachine) -> None:
    machine.say(machine.console, b"BUG: scheduling while atomic: memtest/89/0x00000002\n")
    machine.agent = False
    seen = observe(machine)
    assert (seen.crash, seen.detail) == (
        Crash("hang", "hang, no output: BUG: scheduling while atomic: TASK"),
        "no output",
    )


def test_a_hang_whose_answer_crashes_is_where_the_interrupt_came(machine: ScriptedMachine) -> None:
    """The entry of a non-maskable interrupt has a BUG() of its own (kernel/entry/common.c)."""
    answer = b"kernel BUG at kernel/entry/common.c:375!\nRIP: 0010:irqentry_nmi_enter+0x23/0x30\n"
    answer += (
        b" exc_nmi+0x7b/0x100\n end_repeat_nmi+0xf/0x18\nRIP: 0010:queued_spin_lock_slowpath+0x80/0x2b0\n"
    )
    answer += b" dput+0x12a/0x1a0\n" + END
    machine.agent = False
    machine.on_nmi = lambda: machine.say(machine.console, answer)
    assert observe(machine).crash == Crash("hang", "hang in dput")


def test_a_report_that_lost_its_end_says_so(machine: ScriptedMachine) -> None:
    machine.say(machine.console, OOPS)
    seen = observe(machine).crash
    assert seen == NULL_POINTER
    assert seen is not None and seen.damage == "no end"


def test_a_hang_with_the_agent_answering_says_where_the_workload_waits(machine: ScriptedMachine) -> None:
    blocked = b"task:memtest state:D\n schedule+0x1/0x2\n ext4_sync_file+0x1/0x2\n"
    machine.on_run = lambda: machine.say(machine.console, blocked)
    seen = observe(machine)
    assert seen.crash == Crash("hang", "workload stuck in ext4_sync_file")
    assert seen.detail == "workload stuck, agent answers"
    assert machine.nmis == 0
    assert seen.seconds == pytest.approx(8, abs=0.3)


# Each task as SysRq-t shows it: one that is about to be woken, the one that goes round, the one that asked.
WOKEN = b"""task:qemu-ga state:R stack:0 pid:71
 __schedule+0x2bc/0x640
 schedule+0x27/0xb0
 do_sys_poll+0x3c2/0x610
RIP: 0033:0x7f0309ff93a7
"""
INTERRUPTED = b"""task:memtest state:R  running task stack:0 pid:89
 __schedule+0x2bc/0x640
 preempt_schedule_irq+0x2f/0x50
 asm_sysvec_apic_timer_interrupt+0x16/0x20
RIP: 0010:xas_load+0x5/0x820
 ? ext4_file_mmap+0x60/0x60
 filemap_get_entry+0x27/0x470
 entry_SYSCALL_64_after_hwframe+0x4b/0x53
RIP: 0033:0x450a17
"""
IN_A_LOCK = INTERRUPTED.replace(b"RIP: 0010:xas_load", b"RIP: 0010:queued_spin_lock_slowpath")
PREEMPTED = b"""task:memtest state:R  running task stack:0 pid:89
 __schedule+0x2bc/0x640
 preempt_schedule+0x2f/0x50
 preempt_schedule_thunk+0x1a/0x20
 xas_load+0x5/0x820
 entry_SYSCALL_64_after_hwframe+0x4b/0x53
RIP: 0033:0x450a17
"""
AGENT = PREEMPTED.replace(b"memtest", b"qemu-ga").replace(b"xas_load", b"__send_to_port")
ASKED = b"""task:sh state:R  running task stack:0 pid:96
 sched_show_task+0x116/0x140
 write_sysrq_trigger+0x51/0x80
RIP: 0033:0x7fbf813fc3a7
"""
KERNEL = b"task:kworker state:R stack:0 pid:9\n __schedule+0x2bc/0x640\n preempt_schedule_irq+0x2f/0x50\n"


@pytest.mark.parametrize(
    ("task", "where"),
    [
        (INTERRUPTED, "xas_load"),
        (IN_A_LOCK, "filemap_get_entry"),
        (PREEMPTED, "xas_load"),
        (b"", frames.UNKNOWN),
    ],
    ids=["interrupted", "in a lock", "preempted", "nobody"],
)
def test_a_workload_that_goes_round_in_the_kernel(machine: ScriptedMachine, task: bytes, where: str) -> None:
    look = b"sysrq: Show State\n" + KERNEL + WOKEN + AGENT + task + ASKED
    answers = iter([b"sysrq: Show Blocked State\n", *[look] * 4])
    machine.on_run = lambda: machine.say(machine.console, next(answers))
    assert observe(machine).crash == Crash("hang", f"workload stuck in {where}")
    assert [argv[-1] for argv in machine.commands[-5:]] == [
        f"echo {key} >/proc/sysrq-trigger" for key in "wtttt"
    ]
    assert machine.nmis == 0


# The same loop as INTERRUPTED, somewhere else in it: the unwinder gave up, and in what it calls.
GUESSED = b"""task:memtest state:R  running task stack:0 pid:89
 __schedule+0x2bc/0x640
 preempt_schedule_irq+0x2f/0x50
 asm_sysvec_apic_timer_interrupt+0x16/0x20
RIP: 0010:folio_unlock+0x5/0x20
 ? preempt_schedule_irq+0x2f/0x50
 ? filemap_get_entry+0x27/0x470
 ? entry_SYSCALL_64_after_hwframe+0x4b/0x53
"""
CALLED = INTERRUPTED.replace(b"RIP: 0010:xas_load", b"RIP: 0010:mas_walk")


@pytest.mark.parametrize(
    "tasks", [[INTERRUPTED, GUESSED], [GUESSED, INTERRUPTED], [INTERRUPTED, b"", CALLED], [GUESSED, CALLED]]
)
def test_a_loop_is_in_the_function_that_is_always_there(tasks: list[bytes]) -> None:
    looks = [b"sysrq: Show State\n" + KERNEL + task + ASKED for task in tasks]
    assert formats.looping_in(b"".join(looks)) == "filemap_get_entry"


def test_a_loop_of_guesses_alone_has_no_way_in_for_a_title() -> None:
    looks = [GUESSED, GUESSED.replace(b"folio_unlock", b"xas_load").replace(b"filemap_get_entry", b"iput")]
    assert formats.looping_in(b"sysrq: Show State\n".join(looks)) == frames.UNKNOWN


def test_a_loop_that_is_not_found_is_titled_by_what_it_said(machine: ScriptedMachine) -> None:
    machine.say(machine.console, b"WARNING: CPU: 0 PID: 84 at fs/buffer.c:1249 __brelse+0x1d/0x20\n")
    assert observe(machine).crash == Crash(
        "hang",
        "workload stuck in unknown place: WARNING: CPU: N PID: N at fs/buffer.c:N __brelse+ADDR/ADDR",
    )


def test_an_agent_that_is_lost_while_it_is_asked(machine: ScriptedMachine) -> None:
    machine.on_run = lambda: setattr(machine, "agent", False)
    seen = observe(machine)
    assert (seen.crash, seen.detail, machine.nmis) == (Crash("hang", "hang, no output"), "no output", 1)


@pytest.mark.parametrize("agent_survives", [True, False])
def test_a_crash_while_the_agent_is_asked_is_no_hang(machine: ScriptedMachine, agent_survives: bool) -> None:
    """Soft lockups are reported after 20 s and more, just when a hang is looked into."""

    def crash() -> None:
        machine.on_ask = lambda: None
        machine.say(machine.console, OOPS + END)
        machine.agent = False

    machine.on_ask = crash
    if agent_survives:
        machine.on_ask = lambda: None
        machine.on_run = crash
    seen = observe(machine)
    assert (seen.crash, machine.nmis) == (NULL_POINTER, 0)


def test_a_reset_while_the_agent_is_asked_is_no_hang(machine: ScriptedMachine) -> None:
    def reset() -> None:
        machine.agent = False
        machine.say(machine.console, b"riobed: stage 0\n")

    machine.on_ask = reset
    seen = observe(machine)
    assert (seen.crash, seen.restarted, machine.nmis) == (Crash("reset", "processor reset"), True, 0)


def test_a_reset_on_the_interrupt_that_asks_is_seen(machine: ScriptedMachine) -> None:
    machine.agent = False
    machine.on_nmi = lambda: machine.clock.after(
        1, lambda: machine.say(machine.console, b"riobed: stage 0\n")
    )
    seen = observe(machine)
    assert seen.restarted and seen.crash is not None and seen.crash.kind == "hang"


@pytest.mark.parametrize("said", [b"riobed: stage 0\nriobed: stage 0 ready\n", OOPS + END])
def test_an_agent_that_answers_after_the_time_may_be_that_of_stage_0(
    machine: ScriptedMachine, said: bytes
) -> None:
    steps(machine, 59)
    machine.on_ask = lambda: machine.say(machine.console, said)
    assert observe(machine).crash is not None


@pytest.mark.parametrize("agent", [True, False])
def test_a_step_while_the_agent_is_asked_is_a_sign_of_life(machine: ScriptedMachine, agent: bool) -> None:
    steps(machine, 5)
    numbers = iter(range(6, 1000))
    machine.agent = agent
    machine.on_ask = lambda: machine.say(machine.progress, record("D", next(numbers)))
    seen = observe(machine)
    assert (seen.crash, seen.detail, machine.nmis) == (None, "timed out", 0)


def test_a_slow_workload_is_no_hang(machine: ScriptedMachine) -> None:
    steps(machine, 100, every=7.5)
    assert observe(machine).crash is None


def test_noise_on_the_progress_port_is_no_sign_of_life(machine: ScriptedMachine) -> None:
    for second in range(1, 60):
        machine.clock.after(second, lambda: machine.say(machine.progress, b"noise\n"))
    machine.agent = False
    seen = observe(machine)
    assert seen.crash is not None
    assert seen.crash.kind == "hang"


def test_a_workload_that_ends_leaves_the_kernel_a_little_more_time(machine: ScriptedMachine) -> None:
    steps(machine, 5)
    machine.ended = ExecResult(4, b"", b"")
    seen = observe(machine)
    assert (seen.crash, seen.workload_status) == (None, "exit 4")
    # 5 s of steps, 8 s of silence, then 8 s more
    assert seen.seconds == pytest.approx(21, abs=0.4)


def test_a_crash_after_the_workload_has_ended(machine: ScriptedMachine) -> None:
    machine.ended = ExecResult(4, b"", b"")
    machine.clock.after(12, lambda: machine.say(machine.console, OOPS + END))
    seen = observe(machine)
    assert (seen.crash, seen.workload_status) == (NULL_POINTER, "exit 4")


@pytest.mark.parametrize("ended", [None, ExecResult(0, b"", b"")])
def test_a_hang_that_begins_just_before_the_limit_is_no_discard(
    machine: ScriptedMachine, ended: ExecResult | None
) -> None:
    machine.ended = ended
    steps(machine, 40 if ended else 57)
    # Asked once when the steps ended; silent from then on.
    machine.clock.after(55, lambda: setattr(machine, "agent", False))
    seen = observe(machine)
    assert (seen.crash, seen.detail) == (Crash("hang", "hang, no output"), "no output")


def test_a_lost_agent_is_no_hang_while_the_workload_goes_on(machine: ScriptedMachine) -> None:
    machine.agent = False
    steps(machine, 100)
    assert observe(machine).crash is None


def test_an_error_the_workload_reported_is_its_status(machine: ScriptedMachine) -> None:
    machine.say(machine.progress, record("E", 9, "EIO", "write of 4 bytes"))
    machine.ended = ExecResult(4, b"", b"")
    assert observe(machine).workload_status == "EIO write of 4 bytes"


def test_a_workload_without_steps_lives_as_long_as_the_agent(machine: ScriptedMachine) -> None:
    assert observe(machine, reports_steps=False).crash is None
    machine.clock.after(30, lambda: setattr(machine, "agent", False))
    seen = observe(machine, reports_steps=False)
    assert (seen.crash, seen.detail) == (Crash("hang", "hang, no output"), "no output")
    assert 30 < seen.seconds < 30 + 8 + 4


@pytest.mark.parametrize(
    ("before", "crash"),
    [
        (b"", Crash("reset", "processor reset")),
        (b"BUG: of 7 kinds\n", Crash("reset", "processor reset: BUG: of N kinds")),
        (OOPS, NULL_POINTER),
    ],
)
def test_a_reset_is_seen_by_stage_0(machine: ScriptedMachine, before: bytes, crash: Crash) -> None:
    steps(machine, 60)
    machine.clock.after(4, lambda: machine.say(machine.console, before + b"riobed: stage 0\n" + NMI))
    seen = observe(machine)
    assert (seen.crash, seen.restarted) == (crash, True)
    assert seen.seconds == pytest.approx(4, abs=0.2)


@pytest.mark.parametrize("when", [0.0, 4.0, 9.5])
def test_the_death_of_qemu_is_our_failure(machine: ScriptedMachine, when: float) -> None:
    machine.agent = False
    machine.clock.after(when, lambda: machine.die())
    with pytest.raises(InfraError, match="not running"):
        observe(machine)


def test_a_log_file_gives_what_is_new(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "log")
    assert (log.new(), log.text()) == (b"", b"")
    with log.path.open("ab") as qemu:
        for piece in (b"one\n", b"tw"):
            qemu.write(piece)
            qemu.flush()
            assert log.new() == piece
            assert log.new() == b""
        assert log.text() == b"one\ntw"
        log.clear()
        assert (log.new(), log.text()) == (b"", b"")
        # QEMU keeps the file open and goes on at its new end.
        qemu.write(b"three")
        qemu.flush()
        assert (log.new(), log.text()) == (b"three", b"three")
