# SPDX-License-Identifier: Apache-2.0
"""The watcher tells crash, hang, reset, silence and patience apart. Its clock here is the test's."""

from pathlib import Path
from typing import Any

import pytest
from harness_builders import SEED, Clock, ScriptedMachine, record, spec
from riobed.crash import formats, frames
from riobed.crash.formats import Crash
from riobed.errors import InfraError
from riobed.plan.spec import CampaignSpec
from riobed.trial.observe.progress import Progress
from riobed.trial.observe.watch import Observation, Watcher
from riobed.vm.agent import ExecResult

SPEC = spec(limit_s=60.0, hang_s=8.0)
EARLY = spec(limit_s=60.0, hang_s=8.0, quiet_s=5.0)
BY_STEPS = spec(limit_s=60.0, hang_s=8.0, survivor_steps=20)
OOPS = b"[ 9.0] BUG: kernel NULL pointer dereference, address: 0\nRIP: 0010:iput+0x1/0x2\n"
END = b"[ 9.0] Kernel panic - not syncing: Fatal\n---[ end Kernel panic - not syncing: Fatal ]---\n"
NMI = b"[ 9.0] Kernel panic - not syncing: NMI: Not continuing\n end_repeat_nmi+0xf/0x18\n"
NMI += b"RIP: 0010:iput+0x1/0x2\n---[ end Kernel panic - not syncing: NMI: Not continuing ]---\n"
STAGE0 = b"riobed: stage 0\n"
NULL_POINTER = Crash("oops", "NULL pointer dereference in iput")
SILENCE = Crash("hang", "hang, no output")


@pytest.fixture
def machine(tmp_path: Path, clock: Clock) -> ScriptedMachine:
    return ScriptedMachine(tmp_path, clock)


def steps(machine: ScriptedMachine, until: float, every: float = 1.0) -> None:
    """The workload reports a step now and then for that long."""
    for number in range(1, int(until / every) + 1):
        machine.later(number * every, machine.progress, record("D", number))


def loses_agent(machine: ScriptedMachine, seconds: float) -> None:
    machine.clock.after(seconds, lambda: setattr(machine, "agent", False))


def observe(machine: ScriptedMachine, spec: CampaignSpec = SPEC, **options: Any) -> Observation:
    return Watcher(machine, spec, options.pop("progress", Progress(SEED)), 77, **options).watch()


@pytest.mark.parametrize(
    ("first", "last", "sync_s", "seconds"),
    [
        (4, 5, 0, 5),
        # A report that never ends is waited for a little, and for as long as the kernel may write.
        (4, 100, 0, 7),
        (4, 100, 30, 37),
        (4, 20, 30, 20),
        (0, 0, 0, 0),
    ],
)
def test_a_report_is_read_to_its_end(
    machine: ScriptedMachine, first: int, last: int, sync_s: int, seconds: float
) -> None:
    steps(machine, 60)
    machine.later(first, machine.console, OOPS)
    machine.later(last, machine.console, END)
    machine.clock.sleep(0)
    seen = observe(machine, panic_sync_s=sync_s)
    assert (seen.outcome, seen.crash, seen.restarted) == ("panic", NULL_POINTER, False)
    assert seen.seconds == pytest.approx(seconds, abs=0.2)
    assert machine.nmis == 0


def test_a_step_is_heard_when_it_is_made_although_a_report_is_long(machine: ScriptedMachine) -> None:
    progress = Progress(SEED)
    steps(machine, 4)
    machine.later(4, machine.console, OOPS)
    machine.later(30, machine.console, END)
    observe(machine, progress=progress, panic_sync_s=30)
    assert progress.seconds_lost(1) == pytest.approx(1, abs=0.2)


@pytest.mark.parametrize(
    ("heard", "waiting", "seconds", "detail"),
    [
        # The first step more than 5 s after the last activation.
        ({2: 1, 6: 1, 10: 1}, [], 16, "went well"),
        # Faults that are sure to come are waited for.
        ({2: 0, 20: 1}, [0, 1], 26, "went well"),
        ({2: 0}, [0, 1], 60, "timed out"),
    ],
)
def test_a_workload_that_goes_on_without_a_fault_ends_the_trial_early(
    machine: ScriptedMachine, heard: dict[int, int], waiting: list[int], seconds: float, detail: str
) -> None:
    steps(machine, 100)
    for second, fault in heard.items():
        machine.later(second, machine.evidence, b"A %d 5000\n" % fault)
    seen = observe(machine, EARLY, waiting=waiting)
    assert (seen.outcome, seen.crash, seen.workload_status) == ("survived", None, "running")
    assert (seen.detail, machine.asked) == (detail, 0)
    assert seen.seconds == pytest.approx(seconds, abs=1.1)


def test_a_workload_in_trouble_does_not_end_the_trial_early(machine: ScriptedMachine) -> None:
    machine.say(machine.progress, record("E", 1, "EIO", "write of 4 bytes"))
    steps(machine, 100)
    seen = observe(machine, EARLY)
    assert (seen.crash, seen.detail) == (None, "timed out")
    assert seen.seconds == pytest.approx(60, abs=1.1)


@pytest.mark.parametrize(
    ("heard", "every", "seconds", "ended"),
    [
        # A slow mode takes longer for the same steps. Those before the first one was heard do not count.
        ({}, 1.0, 20, ("steps made", 20)),
        ({}, 0.25, 5, ("steps made", 20)),
        # They are those after the last activation, and the fault that is sure to come is waited for.
        ({2: 0, 10: 1}, 1.0, 30, ("steps made", 20)),
        ({30: 1}, 1.0, 50, ("steps made", 20)),
        # A guest that makes too few steps is ended by time.
        ({}, 4.0, 60, ("timed out", 15)),
    ],
)
@pytest.mark.parametrize("trouble", [False, True])
def test_a_survivor_is_ended_after_as_many_steps_in_each_mode(
    machine: ScriptedMachine,
    heard: dict[int, int],
    every: float,
    seconds: float,
    ended: tuple[str, int],
    trouble: bool,
) -> None:
    before = Progress(SEED)
    before.feed(record("D", 100))
    for number in range(1, int(70 / every) + 1):
        machine.later(number * every, machine.progress, record("D", 100 + number))
    if trouble:
        machine.later(0.5, machine.progress, record("E", 101, "EIO", "write of 4 bytes"))
    for second, fault in heard.items():
        machine.later(second + 0.5, machine.evidence, b"A %d 5000\n" % fault)
    seen = observe(machine, BY_STEPS, progress=before, waiting=[1] if 1 in heard.values() else [])
    assert (seen.outcome, seen.crash, machine.asked) == ("survived", None, 0)
    assert (seen.detail, seen.steps_after_fault) == ended
    assert seen.seconds == pytest.approx(seconds, abs=4.1 if every > 1 else 1.1)


def test_silence_is_no_early_end(machine: ScriptedMachine) -> None:
    """A hang gives no step by which the workload could be seen to go on."""
    steps(machine, 4)
    machine.agent = False
    assert observe(machine, EARLY).crash == SILENCE


def test_the_last_steps_are_taken_in(machine: ScriptedMachine) -> None:
    machine.say(machine.console, OOPS)
    machine.later(1, machine.progress, record("D", 41))
    machine.later(1, machine.console, END)
    progress = Progress(SEED)
    observe(machine, progress=progress)
    assert progress.done == 41


def test_a_hang_with_the_agent_lost_says_where_if_it_can(machine: ScriptedMachine) -> None:
    steps(machine, 3)
    loses_agent(machine, 3)
    machine.on_nmi = lambda: machine.say(machine.console, NMI)
    seen = observe(machine)
    crash = Crash("hang", "hang in iput")
    assert (seen.outcome, seen.crash, seen.detail) == ("hang", crash, "agent lost")
    # 3 s of steps, 8 s of silence, 3 s for the agent
    assert seen.seconds == pytest.approx(14, abs=0.3)
    assert machine.nmis == 1


@pytest.mark.parametrize(
    ("before", "says", "detail", "more"),
    [
        (b"", b"", "no output", ""),
        (b"", b"\r\n", "no output", ""),
        (b"", b"noise\n", "agent lost", ""),
        (b"", b"WARNING: 7 of 9\n", "agent lost", ": WARNING: N of N"),
        (b"", OOPS + END, "agent lost", ": BUG: kernel NULL pointer dereference, address: N"),
        (b"BUG: scheduling while atomic: memtest/89/0x00000002\n", b"", "no output",
         ": BUG: scheduling while atomic: TASK"),
    ],
)  # fmt: skip
def test_a_hang_that_cannot_say_where(
    machine: ScriptedMachine, before: bytes, says: bytes, detail: str, more: str
) -> None:
    machine.say(machine.console, before)
    machine.agent = False
    machine.on_nmi = lambda: machine.say(machine.console, says)
    seen = observe(machine)
    assert (seen.crash, seen.detail) == (Crash("hang", f"hang, {detail}{more}"), detail)
    assert seen.seconds == pytest.approx(11, abs=0.3)


def test_a_hang_whose_answer_crashes_is_where_the_interrupt_came(machine: ScriptedMachine) -> None:
    """The entry of a non-maskable interrupt has a BUG() of its own (kernel/entry/common.c)."""
    answer = b"""kernel BUG at kernel/entry/common.c:375!
RIP: 0010:irqentry_nmi_enter+0x23/0x30
 exc_nmi+0x7b/0x100
 end_repeat_nmi+0xf/0x18
RIP: 0010:queued_spin_lock_slowpath+0x80/0x2b0
 dput+0x12a/0x1a0
"""
    machine.agent = False
    machine.on_nmi = lambda: machine.say(machine.console, answer + END)
    assert observe(machine).crash == Crash("hang", "hang in dput")


def test_a_hang_with_the_agent_answering_says_where_the_workload_waits(machine: ScriptedMachine) -> None:
    blocked = b"task:memtest state:D\n schedule+0x1/0x2\n ext4_sync_file+0x1/0x2\n"
    machine.on_run = lambda: machine.say(machine.console, blocked)
    seen = observe(machine)
    assert (seen.outcome, seen.crash) == ("stuck", Crash("hang", "workload stuck in ext4_sync_file"))
    assert seen.detail == "workload stuck, agent answers"
    assert machine.nmis == 0
    assert seen.seconds == pytest.approx(8, abs=0.3)


def task(name: str, *stack: str) -> bytes:
    """A task as SysRq-t shows it."""
    lines = (line if line.startswith("RIP") else f" {line}+0x5/0x820" for line in stack)
    return "\n".join([f"task:{name} state:R  running task stack:0 pid:89", *lines, ""]).encode()


CALL = ("entry_SYSCALL_64_after_hwframe", "RIP: 0033:0x450a17")
IRQ = ("__schedule", "preempt_schedule_irq", "asm_sysvec_apic_timer_interrupt")
PREEMPT = ("__schedule", "preempt_schedule", "preempt_schedule_thunk")


def interrupted(where: str) -> bytes:
    """The one that goes round."""
    place = (f"RIP: 0010:{where}+0x5/0x820", "? ext4_file_mmap", "filemap_get_entry")
    return task("memtest", *IRQ, *place, *CALL)


INTERRUPTED = interrupted("xas_load")
PREEMPTED = task("memtest", *PREEMPT, "xas_load", *CALL)
# The others: of the kernel, about to be woken, the guest's agent, and the one that asked.
OTHERS = task("kworker", "__schedule", "preempt_schedule_irq")
OTHERS += task("qemu-ga", "__schedule", "schedule", "do_sys_poll", "RIP: 0033:0x7f0309ff93a7")
OTHERS += task("qemu-ga", *PREEMPT, "__send_to_port", *CALL)
ASKED = task("sh", "sched_show_task", "write_sysrq_trigger", "RIP: 0033:0x7fbf813fc3a7")


@pytest.mark.parametrize(
    ("task", "where"),
    [
        (INTERRUPTED, "xas_load"),
        (interrupted("queued_spin_lock_slowpath"), "filemap_get_entry"),
        (PREEMPTED, "xas_load"),
        (b"", frames.UNKNOWN),
    ],
    ids=["interrupted", "in a lock", "preempted", "nobody"],
)
def test_a_workload_that_goes_round_in_the_kernel(machine: ScriptedMachine, task: bytes, where: str) -> None:
    look = b"sysrq: Show State\n" + OTHERS + task + ASKED
    answers = iter([b"sysrq: Show Blocked State\n", *[look] * 4])
    machine.on_run = lambda: machine.say(machine.console, next(answers))
    assert observe(machine).crash == Crash("hang", f"workload stuck in {where}")
    asked = [argv[-1] for argv in machine.commands if argv[0] == "/proc/sysrq-trigger"]
    assert (asked, machine.nmis) == ([*"wtttt"], 0)


# The same loop as INTERRUPTED, somewhere else in it: the unwinder gave up, and in what it calls.
GUESSES = ("? preempt_schedule_irq", "? filemap_get_entry", "? entry_SYSCALL_64_after_hwframe")
GUESSED = task("memtest", *IRQ, "RIP: 0010:folio_unlock+0x5/0x20", *GUESSES)
CALLED = interrupted("mas_walk")


@pytest.mark.parametrize(
    "tasks", [[INTERRUPTED, GUESSED], [GUESSED, INTERRUPTED], [INTERRUPTED, b"", CALLED], [GUESSED, CALLED]]
)
def test_a_loop_is_in_the_function_that_is_always_there(tasks: list[bytes]) -> None:
    looks = [b"sysrq: Show State\n" + OTHERS + task + ASKED for task in tasks]
    assert formats.looping_in(b"".join(looks)) == "filemap_get_entry"


def test_a_loop_of_guesses_alone_has_no_way_in_for_a_title() -> None:
    looks = [GUESSED, GUESSED.replace(b"folio_unlock", b"xas_load").replace(b"filemap_get_entry", b"iput")]
    assert formats.looping_in(b"sysrq: Show State\n".join(looks)) == frames.UNKNOWN


def test_a_loop_that_is_not_found_is_titled_by_what_it_said(machine: ScriptedMachine) -> None:
    machine.say(machine.console, b"WARNING: CPU: 0 PID: 84 at fs/buffer.c:1249 __brelse+0x1d/0x20\n")
    seen = observe(machine).crash
    assert seen is not None and seen.title.startswith("workload stuck in unknown place: WARNING: CPU: N PID")


STUCK = "workload stuck, agent answers; when asked where, "


@pytest.mark.parametrize(
    ("says", "told", "restarted"),
    [
        (b"", "lost", False),
        (OOPS + END, "crashed: NULL pointer dereference in iput", False),
        (STAGE0, "crashed: processor reset", True),
    ],
)
def test_a_stuck_workload_is_no_crash_even_if_the_kernel_dies_of_the_questions(
    machine: ScriptedMachine, says: bytes, told: str, restarted: bool
) -> None:
    """SysRq prints much, and in one campaign a kernel with damaged printk crashed in just that."""

    def die() -> None:
        machine.say(machine.console, says)
        machine.agent = False

    machine.on_run = die
    seen = observe(machine)
    assert (seen.outcome, seen.detail, seen.restarted) == ("stuck", STUCK + told, restarted)
    assert seen.crash is not None and seen.crash.title.startswith("workload stuck in unknown place")
    assert machine.nmis == 0


@pytest.mark.parametrize(
    ("says", "crash", "restarted", "outcome"),
    [
        (OOPS + END, NULL_POINTER, False, "panic"),
        (STAGE0, Crash("reset", "processor reset"), True, "panic"),
        (OOPS + b"CPU: 0 UID: 0 PID: 70 Comm: qemu-ga Not tainted\n" + END, NULL_POINTER, False, "stuck"),
        # A program of the workload's own.
        (OOPS + b"CPU: 0 UID: 0 PID: 99 Comm: qemu-ga Not tainted\n" + END, NULL_POINTER, False, "panic"),
    ],
)
def test_a_crash_while_the_agent_is_asked(
    machine: ScriptedMachine, says: bytes, crash: Crash, restarted: bool, outcome: str
) -> None:
    """Soft lockups are reported after 20 s and more, just when a hang is looked into."""

    def happen() -> None:
        machine.on_ask = lambda: None
        machine.say(machine.console, says)
        machine.agent = False

    machine.on_ask = happen
    seen = observe(machine, agent=(70, 71))
    assert (seen.crash, seen.restarted, machine.nmis) == (crash, restarted, 0)
    assert (seen.outcome, seen.detail) == (outcome, "crashed when the agent was asked")


def test_a_reset_on_the_interrupt_that_asks_is_seen(machine: ScriptedMachine) -> None:
    machine.agent = False
    machine.on_nmi = lambda: machine.later(1, machine.console, STAGE0)
    seen = observe(machine)
    assert seen.restarted and seen.crash is not None and seen.crash.kind == "hang"


@pytest.mark.parametrize("said", [STAGE0 + b"riobed: stage 0 ready\n", OOPS + END])
def test_an_agent_that_answers_late_may_be_of_stage_0(machine: ScriptedMachine, said: bytes) -> None:
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
    assert seen.seconds < 60 + 2 * SPEC.hang_s


@pytest.mark.parametrize(("agent", "every"), [(True, 7.5), (False, 1.0)])
def test_a_workload_that_goes_on_is_no_hang(machine: ScriptedMachine, agent: bool, every: float) -> None:
    """However slow it is, and with the agent lost."""
    machine.agent = agent
    steps(machine, 100, every)
    seen = observe(machine)
    assert (seen.outcome, seen.workload_status, seen.detail) == ("survived", "running", "timed out")
    # The first step after the limit shows that the guest lives; only a long silence makes somebody ask.
    assert seen.seconds == pytest.approx(60, abs=every + 0.2)
    assert machine.asked == 0


ASKING = spec(limit_s=60.0, hang_s=8.0, ask_s=2.0)


def test_a_guest_that_is_asked_early_hangs_if_it_does_not_answer(machine: ScriptedMachine) -> None:
    steps(machine, 5)
    loses_agent(machine, 5)
    seen = observe(machine, ASKING)
    assert (seen.outcome, seen.crash) == ("hang", SILENCE)
    # 5 s of steps, 2 s of silence, 3 s for the answer
    assert seen.seconds == pytest.approx(10, abs=0.3)


def test_a_guest_that_is_asked_early_and_answers_is_stuck_no_earlier(machine: ScriptedMachine) -> None:
    steps(machine, 5)
    seen = observe(machine, ASKING)
    assert (seen.outcome, seen.seconds) == ("stuck", pytest.approx(5 + 8, abs=0.3))
    # After 2, 4 and 6 s of silence, and at the end.
    assert machine.asked == 4


def test_a_slow_workload_that_is_asked_early_goes_on(machine: ScriptedMachine) -> None:
    steps(machine, 100, every=7.5)
    seen = observe(machine, ASKING)
    assert (seen.outcome, seen.detail) == ("survived", "timed out")


@pytest.mark.parametrize("share", [0.0, 0.1, 0.9])
def test_the_agent_has_its_time_once(
    machine: ScriptedMachine, monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    """However much of its time the host takes from the guest."""
    monkeypatch.setattr(machine, "steal_time", lambda: share * (machine.clock.now - 1000))
    machine.agent = False
    seen = observe(machine)
    assert seen.crash == SILENCE
    assert seen.seconds == pytest.approx(8 + 3, abs=0.2)


def test_a_workload_that_ends_leaves_the_kernel_a_little_more_time(machine: ScriptedMachine) -> None:
    steps(machine, 5)
    machine.ended = ExecResult(4, b"", b"")
    seen = observe(machine)
    assert (seen.crash, seen.workload_status, seen.detail) == (None, "exit 4", "workload ended")
    # 5 s of steps, 8 s of silence, then 8 s more
    assert seen.seconds == pytest.approx(21, abs=0.4)


def test_a_crash_after_the_workload_has_ended(machine: ScriptedMachine) -> None:
    machine.ended = ExecResult(4, b"", b"")
    machine.later(12, machine.console, OOPS + END)
    seen = observe(machine)
    assert (seen.crash, seen.workload_status) == (NULL_POINTER, "exit 4")


@pytest.mark.parametrize("ended", [None, ExecResult(0, b"", b"")])
def test_a_hang_just_before_the_limit_is_a_hang(machine: ScriptedMachine, ended: ExecResult | None) -> None:
    machine.ended = ended
    steps(machine, 40 if ended else 57)
    # Asked once when the steps ended; silent from then on.
    loses_agent(machine, 55)
    assert observe(machine).crash == SILENCE


def test_a_workload_without_steps_lives_as_long_as_the_agent(machine: ScriptedMachine) -> None:
    assert observe(machine, reports_steps=False).crash is None
    loses_agent(machine, 30)
    seen = observe(machine, reports_steps=False)
    assert seen.crash == SILENCE
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
    machine.later(4, machine.console, before + STAGE0 + NMI)
    seen = observe(machine)
    assert (seen.crash, seen.restarted) == (crash, True)
    assert seen.seconds == pytest.approx(4, abs=0.2)


@pytest.mark.parametrize("when", [0.0, 4.0, 9.5])
def test_the_death_of_qemu_is_our_failure(machine: ScriptedMachine, when: float) -> None:
    machine.agent = False
    machine.clock.after(when, machine.die)
    with pytest.raises(InfraError, match="not running"):
        observe(machine)


def test_a_workload_that_says_it_has_ended_is_not_waited_for(machine: ScriptedMachine) -> None:
    steps(machine, 2)
    machine.later(2, machine.progress, record("F", 2, "frozen"))
    seen = observe(machine)
    assert (seen.outcome, seen.workload_status, seen.detail) == ("survived", "ended", "workload ended")
    assert seen.seconds == pytest.approx(2 + SPEC.hang_s, abs=0.2)


def test_what_the_host_made_the_guest_wait_is_no_silence(
    machine: ScriptedMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nine tenths of the time are the host's: a guest that gets its tenth is as alive as it can be."""
    monkeypatch.setattr(machine, "steal_time", lambda: 0.9 * (machine.clock.now - 1000))
    steps(machine, 1000, every=60)
    machine.agent = False
    seen = observe(machine)
    assert (seen.outcome, seen.detail) == ("survived", "timed out")
    assert seen.seconds == pytest.approx(SPEC.limit_s, abs=6.1)
