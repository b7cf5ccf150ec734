# SPDX-License-Identifier: Apache-2.0
"""Warm-up and injection: which of the many ways they can end are the trial's, and which our failure."""

import json
import struct
import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from harness_builders import Clock, ScriptedMachine, record, recovery, spec, text_fault
from riobed.crash.formats import Complaints
from riobed.errors import BootError, InfraError
from riobed.faults import commands
from riobed.guest import CacheMode, CacheUse, Check, cache_mode
from riobed.guest.guest import Guest
from riobed.guest.memory.chunks import CHUNK
from riobed.guest.memory.layout import MIB
from riobed.guest.memory.registry import mapped
from riobed.guest.snapshots import Known
from riobed.plan.rounds import PlannedTrial, plan
from riobed.trial import TrialRecord, read_recovery, trial, trial_row
from riobed.trial.control.stopping import stop_in_step
from riobed.trial.recovery import contents
from riobed.trial.recovery.check import differing
from riobed.trial.recovery.recover import findings
from riobed.trial.trial import inject, run_trial, warm_up
from riobed.trial.verdict import read_check
from riobed.vm import CanaryHits, LostLines, Nvdimm, make_nvdimm
from riobed.vm.agent import AgentLost, ExecResult
from riobed_results.store import PANICS, CheckReport

PLANNED = next(plan(spec()))
READY = b"riobed: stage 0\nriobed: stage 0 ready\n"
FATAL = b"[ 9.0] Kernel panic - not syncing: Fatal\n"
PANIC = FATAL + b"[ 9.0] ---[ end Kernel panic - not syncing: Fatal ]---\n"
REPORT = recovery()


@pytest.fixture
def machine(tmp_path: Path, clock: Clock) -> ScriptedMachine:
    return ScriptedMachine(tmp_path, clock)


# The command for the host: all files are this word.
RIGHT = """
status=0
while read -r size path; do read -r word; [ "$word" = right ] || { echo "$path"; status=3; }; done
exit $status
"""


class NamedCommands:
    """A workload whose commands are their names and values."""

    reports_steps = True
    streams = 0
    beside = ()
    judged_by = "steps"

    def command(self, key: str, **values: int) -> list[str]:
        return [key, *(f"{name}={value}" for name, value in values.items())]

    def check(self, beside: None, **values: int) -> Check:
        return Check("/files", self.command("check", **values), ["deferring"], ["sh", "-c", RIGHT])


class ReadyGuest(Guest):
    """A guest at the beginning of a trial."""

    known = Known(boot_id="beef", outside="", cache=CacheUse(0.31, 0.02), agent=(70, 71))
    parking = None
    repeatable = False
    snapshot = "feed"
    maps_nvdimm = True
    programs = Path("/")
    setup: Any = SimpleNamespace(propagation=False)

    def __init__(self, machine: Any) -> None:
        self.machine = machine
        self.workload: Any = NamedCommands()
        self.mode = cache_mode("rio")

    def ready(self, fresh: bool = False, check: bool = False) -> bool:
        return False

    def start(self, argv: list[str], stdin: bytes, fresh: bool = False, check: bool = False) -> int:
        self.machine.commands.append([*argv, stdin.decode()])
        self.machine.on_spawn()
        return 77


def a_record(faults: int = 2, **planned: Any) -> TrialRecord:
    return TrialRecord(replace(PLANNED, **planned), [text_fault(index) for index in range(faults)])


def step(number: int) -> bytes:
    return record("D", number, seed=PLANNED.workload_seed)


def test_a_fault_may_kill_the_guest_at_once(machine: ScriptedMachine) -> None:
    def nmi() -> None:
        machine.say(machine.evidence, b"I 0 5\nI 1 6\nA 0 7\n")
        machine.say(machine.console, PANIC)

    machine.on_nmi = nmi
    inject(ReadyGuest(machine), a_record())
    # The injection needs no process of the guest.
    assert (machine.nmis, machine.commands) == (1, [])


def test_a_guest_that_crashed_before_the_faults_were_in_place(machine: ScriptedMachine) -> None:
    machine.later(1, machine.console, PANIC)
    with pytest.raises(InfraError, match="crashed before any fault was in place"):
        inject(ReadyGuest(machine), a_record())


def test_an_injector_that_does_not_inject(machine: ScriptedMachine) -> None:
    with pytest.raises(InfraError, match="did not answer the interrupt"):
        inject(ReadyGuest(machine), a_record())
    assert 9 < machine.clock.now - 1000 < 12


REFUSED = b"[ 8.0] riobed_inject: faults 0 and 1: same id or overlapping bytes\n"


@pytest.mark.parametrize("loaded", [b"", b"R 1 5 5\n"])
@pytest.mark.parametrize("error", ["", "guest agent: failed to close handle: Invalid argument"])
def test_an_injector_that_refuses(machine: ScriptedMachine, loaded: bytes, error: str) -> None:
    def refuse() -> None:
        machine.say(machine.evidence, loaded)
        machine.say(machine.console, REFUSED)
        if error:
            raise InfraError(error)

    machine.on_run = refuse
    why = f"did not load the faults; {error}.*riobed_inject: faults 0 and 1: same id or overlapping bytes"
    with pytest.raises(InfraError, match=why):
        trial.load_faults(ReadyGuest(machine), a_record())
    assert machine.commands == [[trial.INJECTOR, commands(a_record().faults, "nmi")]]


def warmed_up(machine: ScriptedMachine, reports_steps: bool = True) -> TrialRecord:
    fresh, guest = a_record(), ReadyGuest(machine)
    guest.workload.reports_steps = reports_steps
    warm_up(guest, fresh, trial.spawn_workload(guest, fresh))
    return fresh


@pytest.mark.parametrize(
    ("step_at", "reports_steps", "seconds"),
    [(0.2, True, PLANNED.warmup_s), (20, True, 20), (99, False, PLANNED.warmup_s)],
)
def test_warm_up(machine: ScriptedMachine, step_at: float, reports_steps: bool, seconds: float) -> None:
    machine.later(step_at, machine.progress, step(3))
    assert warmed_up(machine, reports_steps).progress.done == (3 if reports_steps else 0)
    assert machine.clock.now - 1000 == pytest.approx(seconds, abs=0.1)


def test_nobody_asks_about_a_workload_that_makes_steps(machine: ScriptedMachine) -> None:
    for number in range(1, 20):
        machine.later(number * PLANNED.warmup_s / 19, machine.progress, step(number))
    machine.agent = False
    assert warmed_up(machine).progress.done >= 18


@pytest.mark.parametrize(
    ("said", "ended", "why"),
    [
        (b"", None, "did not get going: no step in time"),
        (record("E", 1, "ENOSPC", seed=PLANNED.workload_seed), None, "did not get going: ENOSPC"),
        (
            step(1),
            ExecResult(2, b"", b"no such option\n"),
            "before any fault: status 2: no such option",
        ),
    ],
)
def test_a_workload_that_fails(
    machine: ScriptedMachine, said: bytes, ended: ExecResult | None, why: str
) -> None:
    machine.say(machine.progress, said)
    machine.ended = ended
    with pytest.raises(InfraError, match=why):
        warmed_up(machine)


class Recovering(ScriptedMachine):
    """A machine at step 10 that dies of its faults, can be reset, and answers stage 0's questions."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        super().__init__(folder, clock)
        self.resets = 0
        self.losses: list[int] = []
        self.lines: LostLines | None = None
        # What is on the console a second after a reset.
        self.stage0 = READY
        self.answers: dict[str, ExecResult] = {
            "check": ExecResult(0, b'{"differences": []}', b""),
        }
        self.files = {"/run/recovery.json": REPORT.model_dump_json().encode(), "/run/e2fsck.log": b""}
        self.on_inject: Callable[[], object] = self.die_soon
        self.come_back: Callable[[], object] = lambda: self.say(self.console, self.stage0)
        self.later(0.1, self.progress, step(10))
        self.loaded = False

    def die_soon(self) -> None:
        """Half a second before it dies."""
        self.say(self.evidence, b"I 0 1000000000\nI 1 1000000000\nA 1 1400000000\n")
        self.later(0.5, self.console, PANIC)

    def write_file(self, path: str, data: bytes, timeout: float = 10) -> None:
        super().write_file(path, data, timeout)
        if path == trial.INJECTOR:
            assert data.endswith(b"go nmi\n")
            self.say(self.evidence, b"R %d 900000000 800000000\n" % (data.count(b"\n") - 1))
            self.loaded = True

    def nmi(self) -> None:
        """The first one lets loaded faults take effect."""
        if self.loaded:
            self.loaded = False
            self.on_inject()
        else:
            super().nmi()

    def reset(self) -> None:
        super().reset()
        self.resets += 1
        self.say(self.progress, step(11))
        self.clock.after(1, self.come_back)

    def power_loss(self, seed: int) -> LostLines | None:
        self.losses.append(seed)
        super().power_loss(seed)
        return self.lines

    def run(self, argv: list[str], stdin: bytes = b"", timeout: float = 60) -> ExecResult:
        self.commands.append(argv)
        self.on_run()
        return self.answers.get(argv[0], ExecResult(0, b"", b""))


@pytest.fixture
def crashing(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Recovering:
    monkeypatch.setattr("riobed.trial.recovery.interrupt.BOOT_S", 6.0)
    return Recovering(tmp_path, clock)


def ran(
    machine: Recovering, done: TrialRecord | None = None, mode: CacheMode | None = None, **fields: Any
) -> Any:
    """The record of a trial that came to a verdict."""
    done = done or a_record()
    guest = ReadyGuest(machine)
    guest.mode = mode or cache_mode("rio")
    guest.workload.judged_by = guest.mode.judged_by
    run_trial(guest, spec(**fields), done)
    assert done.verdict is not None and done.observation is not None
    return done


@pytest.mark.parametrize(("pid", "name", "agent", "ours"), [
    (70, "qemu-ga", (70, 71), True), (71, "qemu-ga", (70, 71), True), (1, "riobed-init", (70, 71), True),
    (93, "sh", (70, 71), False), (93, "qemu-ga", (70, 71), False), (93, "qemu-ga", (), None),
])  # fmt: skip
def test_whether_the_harness_was_the_victim(
    crashing: Recovering, monkeypatch: pytest.MonkeyPatch, pid: int, name: str, agent: Any, ours: bool | None
) -> None:
    said = FATAL + f"[ 9.0] CPU: 0 UID: 0 PID: {pid} Comm: {name} Not tainted 6.12\n".encode() + PANIC

    def crash() -> None:
        crashing.say(crashing.evidence, b"I 0 5\nI 1 6\n")
        crashing.say(crashing.console, said)

    crashing.on_inject = crash
    monkeypatch.setattr(ReadyGuest, "known", ReadyGuest.known.model_copy(update={"agent": agent}))
    row = trial_row(ran(crashing), 1, 1, "", "")
    assert (row.victim, row.harness_victim) == (name, ours)


def test_a_trial_from_start_to_verdict(crashing: Recovering) -> None:
    done = ran(crashing)
    verdict = done.verdict
    assert (verdict.outcome, verdict.crash_kind, verdict.crash_title) == ("panic", "panic", "panic: Fatal")
    assert verdict.corruption == "none"
    assert done.observation.seconds == pytest.approx(0.5, abs=0.1)
    assert crashing.resets == 1
    assert list(done.phases) == ["restore", "warmup", "inject", "watch", "reset", "report", "check"]
    assert done.evidence.activated == {1: 1400000000}
    assert done.recovery == REPORT
    assert done.console == PANIC
    assert done.complaints == Complaints(0, None)
    # The log has the step of the warm-up before the injection, and the one between the crash and the reset.
    step10, step11 = done.log.removeprefix(PANIC).splitlines()[2:]
    assert step10.startswith(b"progress -") and step10.endswith(b" D 10")
    assert step11.startswith(b"progress +") and step11.endswith(b" D 11")
    assert (done.crash_guest_s, done.steps_at_injection) == (9.1, 10)
    assert (done.snapshot, done.boot) == ("feed", "beef")
    # Step 11 was done between the crash's report and the reset.
    seed = f"seed={PLANNED.workload_seed}"
    assert crashing.commands[-1] == ["check", seed, "done=11", "intent=0", "failed=", "oldest=11"]


def on_disk(machine: Recovering, word: bytes) -> None:
    """Put a file that holds the word on the disk under test, and let the guest say where it lies."""
    raw = machine.config.test_disk.with_name("raw")
    raw.write_bytes(bytes(70000) + word + b"\n" + bytes(70000))
    subprocess.run(["qemu-img", "convert", "-O", "qcow2", raw, machine.config.test_disk], check=True)
    mapped = b"%x 0:%x:1000:1 - a file\n" % (len(word) + 1, 70000)
    machine.answers[contents.BLOCK_MAP] = ExecResult(0, mapped, b"")


GOOD = ExecResult(0, b'{"files": 1, "difference_count": 0, "differences": []}', b"")
BAD = ExecResult(
    3, b'{"files": 1, "difference_count": 1, "differences": [{"path": "a file", "kind": "size"}]}', b""
)
OTHER = ExecResult(0, b'{"files": 2, "difference_count": 0, "differences": []}', b"")


@pytest.mark.parametrize(("word", "place", "whole", "asked"), [
    (b"right", "host", BAD, False), (b"right", "both", GOOD, True), (b"wrong", "host", BAD, True),
])  # fmt: skip
def test_the_host_compares_bytes_and_the_guest_says_what_differs(
    crashing: Recovering, word: bytes, place: Any, whole: ExecResult, asked: bool
) -> None:
    on_disk(crashing, word)
    crashing.answers |= {"deferring": GOOD, "check": whole}
    done = ran(crashing, a_record(check=place))
    assert done.check == read_check(whole if asked else GOOD)
    assert list(done.phases)[-2 - asked :] == ["check", "compare", "recheck"][: 2 + asked]


@pytest.mark.parametrize(("word", "seen", "whole", "why"), [
    (b"right", GOOD, OTHER, "disagree: files"), (b"wrong", GOOD, GOOD, "disagree: .* in a file"),
    (b"wrong", GOOD, ExecResult(3, BAD.stdout.replace(b"a file", b"b"), b""), "disagree: .* finds a file"),
    (b"right", BAD, GOOD, "disagree: .* in names or attributes"),
])  # fmt: skip
def test_if_the_two_disagree_nothing_is_judged(
    crashing: Recovering, word: bytes, seen: ExecResult, whole: ExecResult, why: str
) -> None:
    on_disk(crashing, word)
    crashing.answers |= {"deferring": seen, "check": whole}
    with pytest.raises(InfraError, match=why):
        ran(crashing, a_record(check="both"))


def test_where_the_host_cannot_look_the_guest_compares(crashing: Recovering) -> None:
    crashing.answers |= {"deferring": GOOD, "check": OTHER}
    on_disk(crashing, b"wrong")
    crashing.answers[contents.BLOCK_MAP] = ExecResult(
        1, b"", b"block-map: a file: Structure needs cleaning\n"
    )
    assert ran(crashing, a_record(check="host")).check == read_check(OTHER)


def test_the_host_looks_only_at_what_is_on_a_disk_as_it_is_read(crashing: Recovering) -> None:
    crashing.answers |= {"deferring": BAD, "check": OTHER}
    mode = cache_mode("write-through-btrfs")
    assert ran(crashing, a_record(check="host"), mode).check == read_check(OTHER)


@pytest.mark.parametrize("line", [
    b"5 0:0:5:1", b"5 0:0:5:1 - a", b"x 0:0:5:1 - a\n", b"5 0:0:0:1 - a\n", b"5 0:fff:2:1 - a\n",
    b"5 0:0:5:201 - a\n",
    b"5 0:0:2:0 1:2:3:1 - a\n", b"5 3:0:2:0 0:2:2:1 - a\n", b"1001 0:0:5:1 - a\n", b"800 - a\n801 - b\n",
    b"5 0:0:ffffffffffffffff:1 - a\n", b"\n",
])  # fmt: skip
def test_a_map_that_cannot_be_right_is_none(line: bytes) -> None:
    with pytest.raises(contents.NotMappedError):
        contents.parse_map(line, 0x1000)


def test_a_map_has_what_was_written_within_the_file() -> None:
    (one,) = contents.parse_map(b"2800 0:400:800:0 1000:0:1000:800 2000:c00:1000:1 - a b\n", 0x10000)
    assert one == contents.MappedFile(b"a b", 0x2800, ((0, 0x400, 0x800), (0x2000, 0xC00, 0x800)))


def test_a_comparison_that_fails_is_our_failure(tmp_path: Path) -> None:
    with pytest.raises(InfraError, match="ended early, status 1: no"):
        contents.feed(
            ["sh", "-c", "echo no >&2; exit 1"], tmp_path, lambda to: contents.write_all(to, bytes(9 << 20))
        )


def test_a_difference_is_corruption(crashing: Recovering) -> None:
    crashing.answers["check"] = ExecResult(3, b'{"difference_count": 2}', b"")
    crashing.files["/run/e2fsck.log"] = b"entry cleared"
    done = ran(crashing)
    assert done.verdict.corruption == "unclassified"
    assert (done.check.equal, done.check.difference_count) == (False, 2)
    # The log tells it all: the crash, what recovery said, what e2fsck changed.
    assert done.console.startswith(PANIC)
    assert b"=== recovery ===" in done.console and done.console.endswith(b"=== e2fsck ===\nentry cleared")


def test_a_file_system_that_does_not_mount_is_not_checked(crashing: Recovering) -> None:
    crashing.files["/run/recovery.json"] = recovery(mount_error=22).model_dump_json().encode()
    done = ran(crashing)
    assert (done.verdict.corruption, done.check) == ("unclassified", None)
    assert "check" not in done.phases


def test_a_mount_that_needed_repair_is_told_although_no_file_differs(crashing: Recovering) -> None:
    first = {"error": 117, "without_log": True, "repair_status": 0}
    report = recovery(registry="cold", file_system="xfs", first_mount=first, e2fsck_status=-1)
    crashing.files["/run/recovery.json"] = report.model_dump_json().encode()
    crashing.files["/run/e2fsck.log"] = b"log zeroed"
    done = ran(crashing)
    assert (done.verdict.corruption, done.recovery.complete) == ("none", None)
    assert done.console.endswith(b"=== e2fsck ===\nlog zeroed")
    row = trial_row(done, 1, 1, "2026-01-02T03:04:05.000+00:00", "")
    assert (row.first_mount_failed, row.log_unreplayable, row.log_dropped) == (True, True, True)
    assert row.detail == report.trouble and "could not be mounted (errno 117)" in row.detail


@pytest.mark.parametrize(
    ("said", "why"), [(b"", "it ended with status 16"), (b" failed: recovery lacks a program", "a program")]
)
def test_a_check_that_is_not_there_or_could_not_check_is_no_result(
    crashing: Recovering, said: bytes, why: str
) -> None:
    unable = recovery(file_system="ext4", e2fsck_status=16)
    crashing.files["/run/recovery.json"] = unable.model_dump_json().encode()
    crashing.stage0 = BEGUN + b"riobed: stage 0" + (said or b" ready") + b"\n"
    with pytest.raises(InfraError, match=why) as caught:
        ran(crashing)
    assert crashing.resets == 1 and not isinstance(caught.value, BootError)


@pytest.mark.parametrize(("said", "title"), [(FATAL, "panic: Fatal"), (b"", "processor reset")])
def test_a_guest_that_resets_itself_is_not_reset_again(crashing: Recovering, said: bytes, title: str) -> None:
    def on_inject() -> None:
        crashing.say(crashing.evidence, b"I 0 1000000000\n")
        crashing.say(crashing.console, said)
        crashing.later(1, crashing.console, READY)

    crashing.on_inject = on_inject
    assert (ran(crashing).verdict.crash_title, crashing.resets) == (title, 0)


@pytest.mark.parametrize(("maps", "corruption", "hits"), [
    (True, "direct", CanaryHits(1, 5 * MIB)), (False, "unclassified", None)
])  # fmt: skip
def test_what_a_dying_kernel_stores_into_the_canary_is_told(
    crashing: Recovering,
    monkeypatch: pytest.MonkeyPatch,
    maps: bool,
    corruption: str,
    hits: CanaryHits | None,
) -> None:
    """Of a kernel that does not have the NVDIMM nothing is said."""
    monkeypatch.setattr(ReadyGuest, "maps_nvdimm", maps)
    nvdimm = Nvdimm(crashing.config.folder / "nvdimm", 8 * MIB, 4096 * MIB, 4 * MIB)
    crashing.config = replace(crashing.config, nvdimm=nvdimm)
    make_nvdimm(crashing.config)

    def die() -> None:
        with mapped(nvdimm.path) as memory:
            memory[5 * MIB] ^= 1
        crashing.say(crashing.evidence, b"I 0 1000000000\n")
        crashing.later(1, crashing.console, PANIC)

    crashing.on_inject = die
    crashing.answers["check"] = ExecResult(3, b"{}", b"")
    done = ran(crashing, mode=cache_mode("write-through"))
    assert (done.verdict.corruption, done.canary) == (corruption, hits)


@pytest.mark.parametrize("restart", ["reset", "power"])
@pytest.mark.parametrize(("mode", "oldest", "promise", "states", "corruption"), [
    ("rio", 11, "steps", None, "none"),
    ("delayed", 0, "synced", "mixed, older", "none"),
    ("delayed", 0, "synced", "older, unsynced", "unclassified"),
])  # fmt: skip
def test_a_mode_is_judged_by_its_promise_and_the_row_has_the_loss(
    crashing: Recovering,
    restart: str,
    mode: str,
    oldest: int,
    promise: str,
    states: str | None,
    corruption: str,
) -> None:
    found: dict[str, Any] = {"files_lost": 2, "bytes_lost": 9, "steps_lost": 3}
    if states:
        found["states"] = dict.fromkeys(states.split(", "), 1) | {"torn": 0}
    status = 0 if corruption == "none" else 3
    crashing.answers["check"] = ExecResult(status, json.dumps(found).encode(), b"")
    done = ran(crashing, a_record(restart=restart), cache_mode(mode))
    (asked,) = [command for command in crashing.commands if command[0] == "check"]
    assert f"oldest={oldest}" in asked
    row = trial_row(done, 1, 1, "2026-01-02T03:04:05.000+00:00", "")
    assert (row.promise, row.states, row.corruption) == (promise, states, corruption)
    assert (row.files_lost, row.bytes_lost, row.steps_lost) == (2, 9, 3)
    assert ("broken: unsynced" in row.detail) == (corruption != "none")


def test_a_propagation_log_is_read_before_a_loss_of_power(
    crashing: Recovering, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ReadyGuest, "setup", SimpleNamespace(propagation=True))
    with crashing.ram_path().open("r+b") as ram:
        ram.truncate(2 * CHUNK)
        ram.seek(CHUNK)
        ram.write(struct.pack("<8sQ", b"RBDTRACE", CHUNK) + b"a line")
    (chunk,) = ran(crashing, a_record(restart="power")).chunks
    assert chunk.rstrip(b"\0") == b"a line"


def test_the_row_has_what_a_loss_of_power_took_of_the_nvdimm(crashing: Recovering) -> None:
    crashing.lines = LostLines(12, 5, 2)
    done = ran(crashing, a_record(restart="power-lines"))
    row = trial_row(done, 1, 1, "2026-01-02T03:04:05.000+00:00", "")
    assert (row.restart, row.lines_open, row.lines_lost, row.unknown_flushes) == ("power-lines", 12, 5, 2)
    assert crashing.losses == [done.planned.noise_seed]


def test_what_a_loss_of_power_took_stays_lost_after_a_further_reset(crashing: Recovering) -> None:
    def come_back() -> None:
        failed = b"riobed: stage 0\nriorecover: registry\nriobed: stage 0 failed: x\n"
        crashing.say(crashing.console, READY if crashing.resets > 1 else failed)

    crashing.come_back = come_back
    done = ran(crashing, a_record(restart="power"))
    assert (done.restart, len(crashing.losses), crashing.resets) == ("power", 1, 2)


def test_a_guest_that_resets_itself_loses_its_power_then(crashing: Recovering) -> None:
    def on_inject() -> None:
        crashing.say(crashing.evidence, b"I 0 1000000000\n")
        crashing.later(1, crashing.console, READY)

    crashing.on_inject = on_inject
    assert ran(crashing, a_record(restart="power")).restart == "power"
    assert len(crashing.losses) == 1


def test_without_faults_the_reset_is_ours(crashing: Recovering) -> None:
    verdict = ran(crashing, a_record(0)).verdict
    assert (verdict.outcome, verdict.crash_title) == ("survived", "reset by the harness")
    assert crashing.resets == 1
    # Nothing was injected.
    assert [argv[0] for argv in crashing.commands] == ["start", "/run/recovery.json", "check"]


@pytest.mark.parametrize("by", ["nmi", "sysrq"])
def test_a_sound_kernel_panics_on_request(
    crashing: Recovering, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    monkeypatch.setattr(PlannedTrial, "panic_by", by)
    crashing.on_nmi = lambda: crashing.later(2, crashing.console, PANIC)
    crashing.on_spawn = lambda: (
        "sysrq" in str(crashing.commands[-1]) and crashing.later(2, crashing.console, PANIC)
    )
    done = ran(crashing, a_record(0, fault_class="panic"))
    assert (done.verdict.outcome, done.verdict.crash_title) == ("survived", PANICS[by])
    assert (crashing.nmis, done.verdict.corruption) == (by == "nmi", "none")
    assert ("sysrq-trigger" in str(crashing.commands)) == (by == "sysrq")
    # It was reset only when it had stopped.
    assert (crashing.resets, done.console) == (1, PANIC)


def test_a_kernel_that_does_not_panic_on_request_is_our_failure(crashing: Recovering) -> None:
    with pytest.raises(InfraError, match="no panic within 60 s"):
        run_trial(ReadyGuest(crashing), spec(), a_record(0, fault_class="panic"))


@pytest.mark.parametrize("up", [True, False])
def test_whether_the_production_kernel_comes_up_is_a_result(crashing: Recovering, up: bool) -> None:
    def boot() -> None:
        if crashing.commands[-1][0] == "/run/boot":
            crashing.later(3, crashing.console, b"riobed: production ready\n" if up else b"Starting new\n")
            # Stage 0 has gone; its agent does not answer any more.
            raise AgentLost("guest agent: no answer in time")

    crashing.on_run = boot
    done = ran(crashing, a_record(0), boot_production=True)
    row = trial_row(done, 1, 1, "2026-01-02T03:04:05.000+00:00", "")
    assert (row.outcome, row.corruption, row.recovery and row.recovery.production) == ("survived", "none", up)
    assert ("the production kernel did not come up: vm: no 'riobed: production ready'" in row.detail) != up
    assert (b"=== production, not up ===" in done.console) != up


def recovering_for(machine: Recovering, seconds: float) -> None:
    """The first recovery begins a second after the reset and takes that long."""
    phases = (b"registry", b"metadata", b"e2fsck", b"data", b"done")
    lines = [*(b"riorecover: %b\r\n" % name for name in phases), READY]

    def say(line: bytes, resets: int) -> None:
        if machine.resets == resets:
            machine.say(machine.console, line)

    def come_back() -> None:
        for number, line in enumerate(lines if machine.resets == 1 else [READY]):
            machine.clock.after(seconds * number / 4, partial(say, line, machine.resets))

    machine.come_back = come_back


@pytest.mark.parametrize(
    ("planned", "phase"),
    [(0.0, "registry"), (0.15, "metadata"), (0.25, "e2fsck"), (0.35, "data"), (0.5, "done")],
)
def test_a_recovery_is_cut_short(crashing: Recovering, planned: float, phase: str) -> None:
    recovering_for(crashing, 0.4)
    done = ran(crashing, a_record(0, recovery_reset_s=planned))
    assert crashing.resets == 2
    assert done.verdict.corruption == "none"
    cut = done.recovery.interrupted
    assert (cut.planned_s, cut.phase) == (planned, phase)
    assert cut.at_s == pytest.approx(planned, abs=0.01)
    # What is said of the next recovery is not mixed with that of the first.
    assert b"=== recovery, cut short ===\nriorecover: registry" in done.console
    assert b"riorecover" not in crashing.console.text()


NMI = b"[ 9.5] Kernel panic - not syncing: NMI: Not continuing\n"
NMI += b"[ 9.5] ---[ end Kernel panic - not syncing: NMI: Not continuing ]---\n"
BUG = b"[ 9.0] kernel BUG at fs/ext4/inode.c:12!\nRIP: 0010:ext4_iget+0x1/0x2\n"


def surviving(machine: Recovering) -> None:
    """Its faults do nothing."""
    machine.on_inject = lambda: machine.say(machine.evidence, b"I 0 1\n")
    for second in range(1, 60):
        machine.later(second, machine.progress, step(9 + second))


def test_a_guest_that_survives_is_brought_down_and_judged(crashing: Recovering) -> None:
    surviving(crashing)
    crashing.on_nmi = lambda: crashing.later(0.2, crashing.console, NMI)
    crashing.answers["check"] = ExecResult(3, b'{"difference_count": 2}', b"")
    done = ran(crashing, limit_s=5.0)
    assert (done.verdict.outcome, done.verdict.crash_title) == ("survived", PANICS["nmi"])
    assert (done.observation.detail, done.verdict.corruption) == ("timed out", "unclassified")
    # Only stage 0's agent was asked whether it lives.
    assert (crashing.nmis, crashing.resets, crashing.asked) == (1, 1, 1)
    assert (done.console.startswith(NMI), done.crash_guest_s) == (True, 9.6)
    # Nobody told the guest anything between injection and reset.
    before, after = [trial.INJECTOR, "start"], ["/run/recovery.json", "check", "/run/e2fsck.log"]
    assert [argv[0] for argv in crashing.commands] == before + after
    row = trial_row(done, 1, 1, "2026-01-02T03:04:05.000+00:00", "")
    assert row.time_to_crash_s == pytest.approx(5, abs=1.1)


WARNED = b"[ 8.0] BUG: KASAN: slab-out-of-bounds in ext4_iget+0x1/0x2\n"


@pytest.mark.parametrize("answer", [NMI, READY + WARNED])
def test_what_a_kernel_reports_and_outlives_is_told(crashing: Recovering, answer: bytes) -> None:
    """Stage 0's kernel is another one."""
    surviving(crashing)
    crashing.later(1, crashing.console, WARNED)
    crashing.on_nmi = lambda: crashing.say(crashing.console, answer)
    done = ran(crashing, limit_s=5.0)
    assert done.verdict.outcome == "survived"
    assert done.complaints == Complaints(1, "KASAN slab-out-of-bounds in ext4_iget")


@pytest.mark.parametrize(
    ("answer", "resets", "kind", "detail"),
    [
        (b"", 1, "reset", "timed out; no panic within 10 s of an NMI"),
        # Its answer may fail in its own way; it was up until somebody asked for its end.
        (BUG + NMI, 1, "panic", "timed out; an NMI was answered with: BUG at fs/ext4/inode.c in ext4_iget"),
        (READY, 0, "reset", "timed out"),
    ],
)
def test_a_guest_that_does_not_panic_when_told_to_is_reset(
    crashing: Recovering, answer: bytes, resets: int, kind: str, detail: str
) -> None:
    surviving(crashing)
    crashing.on_nmi = lambda: crashing.say(crashing.console, answer)
    done = ran(crashing, limit_s=5.0)
    assert (done.verdict.outcome, done.verdict.crash_kind, crashing.resets) == ("survived", kind, resets)
    assert (done.observation.detail, done.verdict.corruption) == (detail, "none")


SYSRQ = b"[ 9.1] Kernel panic - not syncing: sysrq triggered crash\n"
SYNCED = b"[ 9.2] sync at panic: begun, for at most 30 s\n[ 9.9] sync at panic: done\n"
SYSRQ_END = b"[ 9.9] ---[ end Kernel panic - not syncing: sysrq triggered crash ]---\n"


@pytest.mark.parametrize(("answer", "nmis", "by", "how"), [
    (SYSRQ + SYNCED + SYSRQ_END, 0, "sysrq", "done"),
    # It is left to the interrupt, in which nothing is written.
    (b"", 1, "nmi", "not in this context"),
])  # fmt: skip
def test_a_guest_that_writes_at_a_panic_is_brought_down_where_it_can(
    crashing: Recovering, answer: bytes, nmis: int, by: str, how: str
) -> None:
    surviving(crashing)
    crashing.on_spawn = lambda: (
        "sysrq" in str(crashing.commands[-1]) and crashing.later(0.1, crashing.console, answer)
    )
    told = b"[ 9.5] sync at panic: not in this context\n"
    crashing.on_nmi = lambda: crashing.later(0.2, crashing.console, told + NMI)
    crashing.answers["check"] = ExecResult(0, b'{"steps_lost": 3, "states": {"older": 1}}', b"")
    done = ran(crashing, mode=cache_mode("rio-sync-at-panic"), limit_s=5.0)
    assert (done.verdict.outcome, done.verdict.crash_title) == ("survived", PANICS[by])
    assert (crashing.nmis, crashing.resets) == (nmis, 1)
    row = trial_row(done, 1, 1, "2026-01-02T03:04:05.000+00:00", "")
    assert row.detail == f"timed out; sync at panic: {how}"
    # A step a second, each heard when it was made.
    assert row.seconds_lost == pytest.approx(3, abs=0.5)


BEGUN = b"riobed: stage 0\nriorecover: registry\nriorecover: e2fsck\n"


def failing_recovery(machine: Recovering, times: int, said: bytes = BEGUN) -> list[int]:
    """That many recoveries of the machine do not end; the resets before each."""
    seen: list[int] = []

    def come_back() -> None:
        seen.append(machine.resets)
        failed = said + b"riobed: stage 0 failed: riorecover, status 1\n"
        machine.say(machine.console, failed if len(seen) <= times else READY)

    machine.come_back = come_back
    return seen


def test_a_recovery_that_fails_is_begun_anew(crashing: Recovering) -> None:
    seen = failing_recovery(crashing, 2)
    done = ran(crashing)
    assert seen == [1, 2, 3]
    assert (done.verdict.outcome, done.verdict.corruption, done.unrecovered) == ("panic", "none", "")
    # What went wrong can be read.
    assert done.console.count(b"=== recovery, failed ===\n" + BEGUN) == 2


@pytest.mark.parametrize(
    ("said", "why"),
    [(b"", "vm: riobed: stage 0 failed: riorecover, status 1"), (BUG, "BUG at fs/ext4/inode.c")],
)
def test_a_recovery_that_always_fails_is_a_result(crashing: Recovering, said: bytes, why: str) -> None:
    failing_recovery(crashing, 3, BEGUN + said)
    done = ran(crashing)
    assert (done.verdict.outcome, done.verdict.corruption) == ("panic", "unclassified")
    assert done.unrecovered.startswith(f"recovery failed: {why}")
    row = trial_row(done, 1, 1, "2026-01-02T03:04:05.000+00:00", "")
    assert (row.outcome, row.recovery, row.corruption_where) == ("panic", None, "disk")
    assert row.detail == done.unrecovered


def test_a_guest_that_dies_in_the_check_is_recovered_again(crashing: Recovering) -> None:
    lost = [AgentLost("guest agent: no answer in time")]

    def run() -> None:
        if crashing.commands[-1][0] == "check" and lost:
            raise lost.pop()

    crashing.on_run = run
    done = ran(crashing)
    assert done.verdict.corruption == "none"
    assert (crashing.resets, done.check) == (2, read_check(crashing.answers["check"]))


def test_qemu_that_ends_in_recovery_is_our_failure(crashing: Recovering) -> None:
    crashing.come_back = lambda: (crashing.say(crashing.console, BEGUN), crashing.die())
    with pytest.raises(InfraError, match="not running"):
        run_trial(ReadyGuest(crashing), spec(), a_record())


TRAP = b"[ 9.0] BUG: rio: protection trap in rio_open+0x12/0x40\n"


# In the warm-up, and just after its last look.
@pytest.mark.parametrize("at", [0.5, PLANNED.warmup_s + 0.001])
def test_a_guest_without_faults_that_crashes_by_itself_is_no_reset(crashing: Recovering, at: float) -> None:
    crashing.later(at, crashing.console, TRAP)
    verdict = ran(crashing, a_record(0, fault_class="none")).verdict
    assert (verdict.outcome, verdict.crash_kind) == ("panic", "trap")
    assert verdict.crash_title == "protection trap in rio_open"


def test_a_crash_before_the_faults_is_named(crashing: Recovering) -> None:
    crashing.later(0.5, crashing.console, TRAP)
    with pytest.raises(InfraError, match="before any fault was in place: protection trap in rio_open"):
        run_trial(ReadyGuest(crashing), spec(), a_record())


def test_a_fault_that_bites_between_two_looks_was_in_place(machine: ScriptedMachine) -> None:
    read = machine.evidence.text

    def text() -> bytes:
        before = read()
        if machine.nmis and not before:
            machine.say(machine.evidence, b"I 0 5\n")
            machine.say(machine.console, PANIC)
        return before

    machine.evidence.text = text
    inject(ReadyGuest(machine), a_record())


@pytest.mark.parametrize(
    ("reset_s", "what"), [(None, "no 'riobed: stage 0 ready'"), (0.1, "no recovery began")]
)
def test_our_failures_leave_the_console(crashing: Recovering, reset_s: float | None, what: str) -> None:
    crashing.stage0 = b"SeaBIOS\n"
    done = a_record(recovery_reset_s=reset_s)
    with pytest.raises(
        InfraError, match=f"after the crash: vm: {what} .*the console ends: SeaBIOS"
    ) as caught:
        run_trial(ReadyGuest(crashing), spec(), done)
    assert not isinstance(caught.value, BootError)
    assert done.console.startswith(PANIC) and done.console.count(b"=== recovery, failed ===") == 3
    assert (crashing.resets, done.verdict) == (3, None)
    assert "reset" in done.phases


PART = REPORT.model_dump_json(exclude={"entries"}).encode()
NEGATIVE = REPORT.model_dump_json().replace('"free":0', '"free":-1').encode()


@pytest.mark.parametrize("output", [b"", b"null", b"{", b"{}", b"\xff", b"[" * 99999, PART, NEGATIVE])
def test_a_recovery_report_that_is_none(crashing: Recovering, output: bytes) -> None:
    crashing.files["/run/recovery.json"] = output
    with pytest.raises(InfraError, match="stage 0 left no readable recovery report"):
        read_recovery(ReadyGuest(crashing))


@pytest.mark.parametrize("boot_id", [None, "beef"])
def test_memory_of_this_boot_is_judged(crashing: Recovering, boot_id: str | None) -> None:
    crashing.files["/run/recovery.json"] = recovery(boot_id=boot_id).model_dump_json().encode()
    assert ran(crashing).recovery.boot_id == boot_id


def test_memory_of_another_boot_is_not_judged(crashing: Recovering) -> None:
    crashing.files["/run/recovery.json"] = recovery(boot_id="dead").model_dump_json().encode()
    with pytest.raises(InfraError, match="recovery found memory of boot dead, not of beef"):
        run_trial(ReadyGuest(crashing), spec(), a_record())


class RepeatableGuest(ReadyGuest):
    """A guest that is told all at once."""

    repeatable = True


def test_what_two_recoveries_of_one_crash_found() -> None:
    one, other = a_record(), a_record()
    one.recovery, one.check = recovery(), CheckReport(equal=True)
    other.recovery = recovery(seconds={"total": 9.0})
    other.check = CheckReport(equal=True)
    assert differing(findings(one), findings(other)) == []
    other.check = CheckReport.model_validate({"equal": False, "differences": [{"path": "a"}]})
    other.recovery = recovery(mount_error=22)
    assert differing(findings(one), findings(other)) == [
        "check.differences",
        "check.equal",
        "recovery.mount_error",
    ]
    other.recovery = None
    assert "recovery" in differing(findings(one), findings(other))


def test_a_repeatable_guest_is_told_all_at_once(crashing: Recovering) -> None:
    def begin() -> None:
        crashing.later(3, crashing.evidence, b"I 0 5\nI 1 5\n")
        crashing.later(3.5, crashing.console, PANIC)

    crashing.on_spawn = begin
    done: Any = a_record()
    run_trial(RepeatableGuest(crashing), spec(), done)
    assert done.verdict.crash_title == "panic: Fatal"
    assert done.observation.seconds == pytest.approx(0.5, abs=0.1)
    assert list(done.phases) == ["restore", "warmup", "watch", "reset", "report", "check"]
    # One command before the crash, with the warm-up, the workload and the faults.
    told, *after = crashing.commands
    workload = ["start", f"seed={PLANNED.workload_seed}"]
    after_ms = f"after {round(PLANNED.warmup_s * 1000)}"
    assert told[3:] == ["trial", *workload, commands(done.faults, after_ms)]
    assert [command[0] for command in after] == ["/run/recovery.json", "check"]


def test_what_a_guest_is_told_works_in_a_shell(tmp_path: Path) -> None:
    script = trial._LOADED.replace(trial.INJECTOR, str(tmp_path / "injector"))

    def told(*workload: str) -> int:
        argv = ["/bin/sh", "-c", script, "trial", *workload]
        return subprocess.run(argv, input="text 0\ngo\n", text=True, timeout=120).returncode

    # When the workload begins, all is loaded.
    assert told("/usr/bin/grep", "-qx", "go", str(tmp_path / "injector")) == 0
    assert told("/bin/sh", "-c", "exit 7") == 7
    assert (tmp_path / "injector").read_text() == "text 0\ngo\n"
    # Refused: the workload does not begin.
    (tmp_path / "injector").unlink()
    (tmp_path / "injector").mkdir()
    assert told("/bin/sleep", "60") == 1


def test_faults_that_a_repeatable_guest_does_not_put_in_place(crashing: Recovering) -> None:
    def failure() -> str:
        with pytest.raises(InfraError) as caught:
            run_trial(RepeatableGuest(crashing), spec(), a_record())
        return str(caught.value)

    crashing.on_spawn = lambda: None
    assert "no fault was put in place in time: its command still runs" in failure()
    crashing.ended = ExecResult(1, b"", b"cat: write error: Invalid argument")
    assert "Invalid argument" in failure()
    crashing.say(crashing.console, PANIC)
    assert "crashed before any fault was in place" in failure()


def test_a_repeatable_guest_has_as_long_as_its_workload_makes_steps(crashing: Recovering) -> None:
    for second in range(1, 200, 10):
        crashing.later(second, crashing.progress, step(second))
    crashing.later(200, crashing.evidence, b"I 0 5\nI 1 5\n")
    crashing.later(201, crashing.console, PANIC)
    done = a_record()
    run_trial(RepeatableGuest(crashing), spec(), done)
    assert done.phases["warmup"] == pytest.approx(200, abs=1)


def test_faults_before_the_first_step_are_our_failure(crashing: Recovering) -> None:
    crashing.say(crashing.evidence, b"I 0 5\n")
    with pytest.raises(InfraError, match="had made no step"):
        run_trial(RepeatableGuest(crashing), spec(), a_record())


def announced(*numbers: int) -> bytes:
    return b"".join(record("I", number, seed=PLANNED.workload_seed) for number in numbers)


def stopped(machine: ScriptedMachine, *said: bytes) -> int:
    """The step in which a workload stops that says these at each signal."""
    words = iter(said)
    machine.on_run = lambda: machine.say(machine.progress, next(words, b""))
    fresh = a_record(0)
    trial.spawn_workload(ReadyGuest(machine), fresh)
    machine.commands.clear()
    return stop_in_step(ReadyGuest(machine), fresh.progress)


def test_a_workload_stops_in_the_middle_of_a_step(machine: ScriptedMachine) -> None:
    cut = announced(5)
    # First between two records, then in one of them; at both it goes on.
    assert stopped(machine, step(4), b"", step(4) + cut[:6], cut[6:], b"") == 5
    assert [argv[-1] for argv in machine.commands] == ["STOP", "CONT", "STOP", "CONT", "STOP"]


def test_a_workload_that_is_never_in_a_step(machine: ScriptedMachine) -> None:
    with pytest.raises(InfraError, match="no step in flight"):
        stopped(machine, step(1))
