# SPDX-License-Identifier: Apache-2.0
"""Warm-up and injection: which of the many ways they can end are the trial's, and which our failure."""

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from harness_builders import Clock, ScriptedMachine, record, recovery, spec, text_fault
from riobed.errors import BootError, InfraError
from riobed.faults import commands
from riobed.guest.guest import Guest
from riobed.plan.rounds import plan
from riobed.trial import trial
from riobed.trial.record import TrialRecord
from riobed.trial.recover import read_recovery
from riobed.trial.rows import trial_row
from riobed.trial.trial import inject, run_trial, warm_up
from riobed.trial.verdict import read_check
from riobed.vm.agent import AgentLost, ExecResult

PLANNED = next(plan(spec()))
READY = b"riobed: stage 0\nriobed: stage 0 ready\n"
PANIC = b"[ 9.0] Kernel panic - not syncing: Fatal\n[ 9.0] ---[ end Kernel panic - not syncing: Fatal ]---\n"
REPORT = recovery()


@pytest.fixture
def machine(tmp_path: Path, clock: Clock) -> ScriptedMachine:
    return ScriptedMachine(tmp_path, clock)


def guest_of(machine: Any, reports_steps: bool = True) -> Guest:
    """The part of a Guest that a trial uses."""

    def command(key: str, **values: int) -> list[str]:
        return [key, *(f"{name}={value}" for name, value in values.items())]

    return cast(
        Guest,
        SimpleNamespace(
            machine=machine,
            reports_steps=reports_steps,
            repeatable=False,
            command=command,
            ready=lambda fresh, check: None,
        ),
    )


def a_record(faults: int = 2) -> TrialRecord:
    return TrialRecord(PLANNED, [text_fault(index) for index in range(faults)])


def step(number: int) -> bytes:
    return record("D", number, seed=PLANNED.workload_seed)


def raising(error: Exception) -> Callable[[], None]:
    def do() -> None:
        raise error

    return do


def test_evidence_of_one_fault_is_proof(machine: ScriptedMachine) -> None:
    machine.on_spawn = lambda: machine.say(machine.evidence, b"I 0 5\n")
    inject(guest_of(machine), a_record())
    assert machine.clock.now < 1001


def test_a_fault_may_kill_the_guest_before_the_agent_answers(machine: ScriptedMachine) -> None:
    def spawn() -> None:
        machine.say(machine.evidence, b"I 0 5\nI 1 6\nA 0 7\n")
        machine.say(machine.console, PANIC)
        raise AgentLost("guest agent: no answer in time")

    machine.on_spawn = spawn
    inject(guest_of(machine), a_record())


def test_a_guest_that_crashed_before_the_faults_were_in_place(machine: ScriptedMachine) -> None:
    machine.clock.after(1, lambda: machine.say(machine.console, PANIC))
    with pytest.raises(InfraError, match="crashed before any fault was in place"):
        inject(guest_of(machine), a_record())


def test_an_injector_that_refuses(machine: ScriptedMachine) -> None:
    with pytest.raises(InfraError, match="injector did not accept the faults"):
        inject(guest_of(machine), a_record())
    assert 9 < machine.clock.now - 1000 < 12


def test_nothing_is_injected_without_faults(machine: ScriptedMachine) -> None:
    inject(guest_of(machine), a_record(0))
    assert machine.commands == []


def warmed_up(machine: ScriptedMachine, reports_steps: bool = True) -> TrialRecord:
    fresh = a_record()
    trial.start_workload(guest_of(machine), fresh)
    warm_up(guest_of(machine, reports_steps), fresh, 77)
    return fresh


def test_warm_up_takes_its_time(machine: ScriptedMachine) -> None:
    machine.clock.after(0.2, lambda: machine.say(machine.progress, step(3)))
    assert warmed_up(machine).progress.done == 3
    assert machine.clock.now - 1000 == pytest.approx(PLANNED.warmup_s, abs=0.05)


def test_warm_up_waits_for_the_first_step(machine: ScriptedMachine) -> None:
    machine.clock.after(20, lambda: machine.say(machine.progress, step(1)))
    warmed_up(machine)
    assert machine.clock.now - 1000 == pytest.approx(20, abs=0.1)


def test_warm_up_does_not_wait_for_ever(machine: ScriptedMachine) -> None:
    with pytest.raises(InfraError, match="did not get going: no step in time"):
        warmed_up(machine)


def test_a_workload_without_steps_is_not_waited_for(machine: ScriptedMachine) -> None:
    warmed_up(machine, reports_steps=False)
    assert machine.clock.now - 1000 == pytest.approx(PLANNED.warmup_s, abs=0.05)


def test_a_workload_that_fails_or_ends_before_the_faults(machine: ScriptedMachine) -> None:
    machine.say(machine.progress, record("E", 1, "ENOSPC", seed=PLANNED.workload_seed))
    with pytest.raises(InfraError, match="did not get going: ENOSPC"):
        warmed_up(machine)


def test_a_workload_that_ended_before_the_faults(machine: ScriptedMachine) -> None:
    machine.say(machine.progress, step(1))
    machine.ended = ExecResult(2, b"", b"memtest: no such option\n")
    with pytest.raises(InfraError, match="ended with status 2 before any fault: memtest: no such option"):
        warmed_up(machine)


class Recovering(ScriptedMachine):
    """A machine that can be reset, and answers stage 0's questions."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        super().__init__(folder, clock)
        self.resets = 0
        # What is on the console a second after a reset.
        self.stage0 = READY
        self.answers: dict[str, ExecResult] = {
            "/bin/cat": ExecResult(0, REPORT.model_dump_json().encode(), b""),
            "check": ExecResult(0, b'{"differences": []}', b""),
        }

    def reset(self) -> None:
        super().reset()
        self.resets += 1
        self.say(self.progress, step(11))
        self.clock.after(1, self.come_back)

    def come_back(self) -> None:
        self.say(self.console, self.stage0)

    def run(self, argv: list[str], stdin: bytes = b"", timeout: float = 60) -> ExecResult:
        self.commands.append(argv)
        self.on_run()
        return self.answers.get(argv[-1]) or self.answers[argv[0]]


@pytest.fixture
def crashing(tmp_path: Path, clock: Clock) -> Recovering:
    """A guest at step 10 that dies of its faults half a second after injection."""
    machine = Recovering(tmp_path, clock)
    machine.clock.after(0.1, lambda: machine.say(machine.progress, step(10)))

    def spawned() -> None:
        if len(machine.commands) == 2:
            machine.say(machine.evidence, b"I 0 1000000000\nI 1 1000000000\nA 1 1400000000\n")
            clock.after(0.5, lambda: machine.say(machine.console, PANIC))

    machine.on_spawn = spawned
    return machine


def test_a_trial_from_start_to_verdict(crashing: Recovering) -> None:
    done = a_record()
    run_trial(guest_of(crashing), spec(), done)
    assert done.verdict is not None and done.observation is not None
    assert (done.verdict.outcome, done.verdict.crash_kind, done.verdict.crash_title) == (
        "crash",
        "panic",
        "panic: Fatal",
    )
    assert done.verdict.corruption == "none"
    assert done.observation.seconds == pytest.approx(0.5, abs=0.1)
    assert crashing.resets == 1
    assert list(done.phases) == ["restore", "warmup", "inject", "watch", "reset", "report", "check"]
    assert done.evidence.activated == {1: 1400000000}
    assert done.recovery == REPORT
    assert done.console == PANIC
    # Step 11 was done between the crash's report and the reset.
    seed = PLANNED.workload_seed
    assert crashing.commands[-1] == ["check", f"seed={seed}", "done=11", "intent=0"]


def test_a_difference_is_corruption(crashing: Recovering) -> None:
    crashing.answers["check"] = ExecResult(3, b'{"difference_count": 2}', b"")
    crashing.answers["/run/e2fsck.log"] = ExecResult(0, b"entry cleared", b"")
    done = a_record()
    run_trial(guest_of(crashing), spec(), done)
    assert done.verdict is not None
    assert done.verdict.corruption == "unclassified"
    assert done.check and (done.check.equal, done.check.difference_count) == (False, 2)
    # The log tells it all: the crash, what recovery said, what e2fsck changed.
    assert done.console.startswith(PANIC)
    assert b"=== recovery ===" in done.console and done.console.endswith(b"=== e2fsck ===\nentry cleared")


def test_a_file_system_that_does_not_mount_is_not_checked(crashing: Recovering) -> None:
    report = recovery(mount_error=22)
    crashing.answers["/bin/cat"] = ExecResult(0, report.model_dump_json().encode(), b"")
    done = a_record()
    run_trial(guest_of(crashing), spec(), done)
    assert done.verdict is not None
    assert (done.verdict.corruption, done.check) == ("unclassified", None)
    assert "check" not in done.phases


def test_a_processor_that_resets_itself_in_the_report_is_not_reset_again(
    crashing: Recovering, clock: Clock
) -> None:
    def spawned() -> None:
        if len(crashing.commands) == 2:
            crashing.say(crashing.evidence, b"I 0 1000000000\n")
            crashing.say(crashing.console, b"[ 9.0] Kernel panic - not syncing: Fatal\n")
            clock.after(1, lambda: crashing.say(crashing.console, READY))

    crashing.on_spawn = spawned
    done = a_record()
    run_trial(guest_of(crashing), spec(), done)
    assert done.verdict is not None
    assert (done.verdict.crash_title, crashing.resets) == ("panic: Fatal", 0)


def test_a_processor_that_reset_itself_is_not_reset_again(crashing: Recovering) -> None:
    def spawned() -> None:
        if len(crashing.commands) == 2:
            crashing.say(crashing.evidence, b"I 0 1000000000\n")
            crashing.say(crashing.console, READY)

    crashing.on_spawn = spawned
    done = a_record()
    run_trial(guest_of(crashing), spec(), done)
    assert done.verdict is not None
    assert (done.verdict.crash_kind, crashing.resets) == ("reset", 0)


def test_without_faults_the_reset_is_ours(crashing: Recovering) -> None:
    done = a_record(0)
    run_trial(guest_of(crashing), spec(), done)
    assert done.verdict is not None
    assert (done.verdict.crash_kind, done.verdict.crash_title) == ("reset", "reset by the harness")
    assert crashing.resets == 1


def cut_short_at(seconds: float) -> TrialRecord:
    return TrialRecord(replace(PLANNED, recovery_reset_s=seconds), [])


def recovering_for(machine: Recovering, seconds: float) -> None:
    """The first recovery begins a second after the reset and takes that long."""

    def come_back() -> None:
        if machine.resets > 1:
            machine.say(machine.console, READY)
            return
        lines = [
            b"riorecover: %b\r\n" % name for name in (b"registry", b"metadata", b"e2fsck", b"data", b"done")
        ]
        for number, line in enumerate([*lines, READY]):
            machine.clock.after(seconds * number / (len(lines) - 1), lambda text=line: first_says(text))

    def first_says(text: bytes) -> None:
        if machine.resets == 1:
            machine.say(machine.console, text)

    machine.come_back = come_back  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("planned", "phase"),
    [(0.0, "registry"), (0.15, "metadata"), (0.25, "e2fsck"), (0.35, "data"), (0.5, "done")],
)
def test_a_recovery_is_cut_short(crashing: Recovering, planned: float, phase: str) -> None:
    recovering_for(crashing, 0.4)
    done = cut_short_at(planned)
    run_trial(guest_of(crashing), spec(), done)
    assert crashing.resets == 2
    assert done.verdict is not None and done.verdict.corruption == "none"
    assert done.recovery is not None
    cut = done.recovery.interrupted
    assert cut and (cut.planned_s, cut.phase) == (planned, phase)
    assert cut.at_s == pytest.approx(planned, abs=0.01)
    # What is said of the next recovery is not mixed with that of the first.
    assert b"=== recovery, cut short ===\nriorecover: registry" in done.console
    assert b"riorecover" not in crashing.console.text()


def test_a_recovery_that_never_begins_is_our_failure(crashing: Recovering) -> None:
    crashing.stage0 = b"SeaBIOS\n"
    done = cut_short_at(0.1)
    with pytest.raises(InfraError, match="after the crash: vm: no recovery began"):
        run_trial(guest_of(crashing), spec(), done)
    assert (crashing.resets, done.verdict) == (3, None)


def test_without_a_planned_moment_recovery_is_left_alone(crashing: Recovering) -> None:
    recovering_for(crashing, 0.4)
    done = a_record(0)
    run_trial(guest_of(crashing), spec(), done)
    assert crashing.resets == 1 and done.recovery is not None
    assert done.recovery.interrupted is None


def test_no_crash_no_reset(crashing: Recovering, clock: Clock) -> None:
    crashing.on_spawn = lambda: crashing.say(crashing.evidence, b"I 0 1\n")
    crashing.ended = None
    for second in range(1, 60):
        clock.after(second, lambda n=second: crashing.say(crashing.progress, step(n)))
    done = a_record()
    run_trial(guest_of(crashing), spec(limit_s=5.0), done)
    assert done.verdict is not None
    assert (done.verdict.outcome, crashing.resets, done.recovery, done.check) == ("discard", 0, None, None)


def test_a_discarded_guest_is_told_nothing_more(crashing: Recovering, clock: Clock) -> None:
    """It goes back to its snapshot: a stop could only wait for a kernel with faults in it."""
    crashing.on_spawn = lambda: crashing.say(crashing.evidence, b"I 0 1\n")
    for second in range(1, 60):
        clock.after(second, lambda n=second: crashing.say(crashing.progress, step(n)))
    done = a_record()
    run_trial(guest_of(crashing), spec(limit_s=5.0), done)
    assert done.verdict is not None
    assert done.verdict.outcome == "discard"
    assert "stop" not in [argv[0] for argv in crashing.commands]


BEGUN = b"riobed: stage 0\nriorecover: registry\nriorecover: e2fsck\n"


def failing_recovery(machine: Recovering, times: int, said: bytes = BEGUN) -> list[int]:
    """That many recoveries of the machine do not end; the resets before each."""
    seen: list[int] = []

    def come_back() -> None:
        seen.append(machine.resets)
        failed = said + b"riobed: stage 0 failed: riorecover, status 1\n"
        machine.say(machine.console, failed if len(seen) <= times else READY)

    machine.come_back = come_back  # type: ignore[method-assign]
    return seen


def test_a_recovery_that_fails_is_begun_anew(crashing: Recovering) -> None:
    seen = failing_recovery(crashing, 2)
    done = a_record()
    run_trial(guest_of(crashing), spec(), done)
    assert seen == [1, 2, 3]
    assert done.verdict is not None
    assert (done.verdict.outcome, done.verdict.corruption, done.unrecovered) == ("crash", "none", "")
    # What went wrong can be read.
    assert done.console.count(b"=== recovery, failed ===\n" + BEGUN) == 2


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (BEGUN, "vm: riobed: stage 0 failed: riorecover, status 1"),
        (
            BEGUN + b"[ 9.0] kernel BUG at fs/ext4/inode.c:12!\nRIP: 0010:ext4_iget+0x1/0x2\n",
            "BUG at fs/ext4/inode.c",
        ),
    ],
)
def test_a_recovery_that_always_fails_is_a_result(crashing: Recovering, said: bytes, why: str) -> None:
    failing_recovery(crashing, 3, said)
    done = a_record()
    run_trial(guest_of(crashing), spec(), done)
    assert done.verdict is not None
    assert (done.verdict.outcome, done.verdict.corruption) == ("crash", "unclassified")
    assert done.unrecovered.startswith(f"recovery failed: {why}")
    row = trial_row(done, 1, 1, "2026-01-02T03:04:05.000+00:00", "")
    assert (row.outcome, row.recovery, row.corruption_where) == ("crash", None, "disk")
    assert row.detail == done.unrecovered


def test_a_guest_that_dies_in_the_check_is_recovered_again(crashing: Recovering) -> None:
    good = crashing.answers["check"]
    lost = iter([True, False])

    def run() -> None:
        if crashing.commands[-1][0] == "check" and next(lost):
            raise AgentLost("guest agent: no answer in time")

    crashing.on_run = run
    done = a_record()
    run_trial(guest_of(crashing), spec(), done)
    assert done.verdict is not None and done.verdict.corruption == "none"
    assert (crashing.resets, done.check) == (2, read_check(good))


def test_qemu_that_ends_in_recovery_is_our_failure(crashing: Recovering) -> None:
    def come_back() -> None:
        crashing.say(crashing.console, BEGUN)
        crashing.die()

    crashing.come_back = come_back  # type: ignore[method-assign]
    with pytest.raises(InfraError, match="not running"):
        run_trial(guest_of(crashing), spec(), a_record())


TRAP = b"[ 9.0] BUG: rio: protection trap in rio_open+0x12/0x40\n"


# In the warm-up, and just after its last look.
@pytest.mark.parametrize("at", [0.5, PLANNED.warmup_s + 0.001])
def test_a_guest_without_faults_that_crashes_by_itself_is_no_reset(
    crashing: Recovering, clock: Clock, at: float
) -> None:
    clock.after(at, lambda: crashing.say(crashing.console, TRAP))
    done = a_record(0)
    done.planned = replace(PLANNED, fault_class="none")
    run_trial(guest_of(crashing), spec(), done)
    assert done.verdict is not None
    assert (done.verdict.crash_kind, done.verdict.crash_title) == (
        "trap",
        "protection trap in rio_open",
    )


def test_a_crash_before_the_faults_is_named(crashing: Recovering, clock: Clock) -> None:
    clock.after(0.5, lambda: crashing.say(crashing.console, TRAP))
    with pytest.raises(InfraError, match="before any fault was in place: protection trap in rio_open"):
        run_trial(guest_of(crashing), spec(), a_record())


def test_a_fault_that_bites_between_two_looks_was_in_place(machine: ScriptedMachine) -> None:
    read = machine.evidence.text

    def text() -> bytes:
        before = read()
        if machine.commands and not before:
            machine.say(machine.evidence, b"I 0 5\n")
            machine.say(machine.console, PANIC)
        return before

    machine.evidence.text = text  # type: ignore[method-assign]
    inject(guest_of(machine), a_record())


def test_our_failures_leave_the_console_for_the_log(crashing: Recovering) -> None:
    crashing.stage0 = b"SeaBIOS\n"
    done = a_record()
    with pytest.raises(InfraError, match=r"after the crash: vm: no .* the console ends: SeaBIOS") as caught:
        run_trial(guest_of(crashing), spec(), done)
    assert not isinstance(caught.value, BootError)
    assert done.console.startswith(PANIC) and done.console.count(b"=== recovery, failed ===") == 3
    assert done.verdict is None
    assert "reset" in done.phases


def test_a_failure_before_any_log_was_read(machine: ScriptedMachine) -> None:
    machine.say(machine.console, b"something\n")
    machine.on_spawn = raising(AgentLost("guest agent: no answer in time"))
    done = a_record()
    with pytest.raises(InfraError):
        run_trial(guest_of(machine), spec(), done)
    assert done.console == b"something\n"


@pytest.mark.parametrize(
    "output",
    [
        b"",
        b"null",
        b"[]",
        b'"x"',
        b"{",
        b"{}",
        b'{"registry": 1}',
        b"\xff",
        b"[" * 99999,
        REPORT.model_dump_json(exclude={"entries"}).encode(),
        REPORT.model_dump_json().replace('"pairs":0', '"pairs":-1').encode(),
    ],
)
def test_a_recovery_report_that_is_none(tmp_path: Path, clock: Clock, output: bytes) -> None:
    machine = Recovering(tmp_path, clock)
    machine.answers["/bin/cat"] = ExecResult(0, output, b"")
    with pytest.raises(InfraError, match="stage 0 left no readable recovery report"):
        read_recovery(guest_of(machine))


def repeatable(machine: Recovering, then: Callable[[], object] = lambda: None) -> Any:
    """A guest that is told all at once."""
    guest: Any = guest_of(machine)
    guest.repeatable = True

    def start(argv: list[str], stdin: bytes, fresh: bool, check: bool) -> int:
        machine.commands.append([*argv, stdin.decode()])
        then()
        return 77

    guest.start = start
    return guest


def test_a_repeatable_guest_is_told_all_at_once(crashing: Recovering) -> None:
    def inject_later() -> None:
        crashing.clock.after(3, lambda: crashing.say(crashing.evidence, b"I 0 5\nI 1 5\n"))
        crashing.clock.after(3.5, lambda: crashing.say(crashing.console, PANIC))

    done = a_record()
    run_trial(repeatable(crashing, inject_later), spec(), done)
    assert done.verdict is not None and done.verdict.crash_title == "panic: Fatal"
    assert done.observation is not None and done.observation.seconds == pytest.approx(0.5, abs=0.1)
    assert list(done.phases) == ["restore", "warmup", "watch", "reset", "report", "check"]
    # One command before the crash, with the warm-up, the workload and the faults.
    told, after = crashing.commands[0], crashing.commands[1:]
    assert told[3:] == [
        "trial",
        str(round(PLANNED.warmup_s, 3)),
        "start",
        f"seed={PLANNED.workload_seed}",
        commands(done.faults),
    ]
    assert [command[0] for command in after] == ["/bin/cat", "check"]


def test_what_a_repeatable_guest_is_told_works_in_a_shell(tmp_path: Path) -> None:
    script = trial._REPEATABLE.replace("/run/faults", str(tmp_path / "faults"))
    script = script.replace(trial.INJECTOR, str(tmp_path / "injector"))

    def told(*workload: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/bin/sh", "-c", script, "trial", "0.2", *workload], input="text 0\ngo\n", text=True, timeout=20
        )

    # It ended before the faults: none goes in.
    assert told("/bin/sh", "-c", "exit 4").returncode != 0
    assert not (tmp_path / "injector").exists()
    assert told("/bin/sh", "-c", "sleep 0.5; exit 7").returncode == 7
    assert (tmp_path / "injector").read_text() == "text 0\ngo\n"
    # Refused: the workload is ended.
    (tmp_path / "injector").unlink()
    (tmp_path / "injector").mkdir()
    assert told("/bin/sleep", "60").returncode == 1


def test_faults_that_a_repeatable_guest_does_not_put_in_place(crashing: Recovering) -> None:
    with pytest.raises(InfraError, match="no fault was put in place: b'no step in time'"):
        run_trial(repeatable(crashing), spec(), a_record())
    crashing.ended = ExecResult(1, b"", b"cat: write error: Invalid argument")
    with pytest.raises(InfraError, match=r"no fault was put in place: .*Invalid argument"):
        run_trial(repeatable(crashing), spec(), a_record())
    crashing.say(crashing.console, PANIC)
    with pytest.raises(InfraError, match="crashed before any fault was in place"):
        run_trial(repeatable(crashing), spec(), a_record())


def test_a_repeatable_guest_has_as_long_as_its_workload_makes_steps(crashing: Recovering) -> None:
    for second in range(1, 200, 10):
        crashing.clock.after(second, lambda at=second: crashing.say(crashing.progress, step(at)))
    crashing.clock.after(200, lambda: crashing.say(crashing.evidence, b"I 0 5\nI 1 5\n"))
    crashing.clock.after(201, lambda: crashing.say(crashing.console, PANIC))
    done = a_record()
    run_trial(repeatable(crashing), spec(), done)
    assert done.phases["warmup"] == pytest.approx(200, abs=1)


def test_faults_before_the_first_step_are_our_failure(tmp_path: Path, clock: Clock) -> None:
    machine = Recovering(tmp_path, clock)
    machine.say(machine.evidence, b"I 0 5\n")
    with pytest.raises(InfraError, match="had made no step"):
        run_trial(repeatable(machine), spec(), a_record())
