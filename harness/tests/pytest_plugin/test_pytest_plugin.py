# SPDX-License-Identifier: Apache-2.0
"""The pytest plugin as far as no guest is needed: option, marker, complaints."""

import os
import signal
import subprocess
import sys
import warnings
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import IO, Any, cast

import pytest
from harness_builders import PATIENCE_S, Clock, Kernels, ScriptedMachine, booting_guest, manifest, recovery
from pytest_riobed import guest as guest_module
from pytest_riobed.errors import CommandFailed, CommandTimeout, RecoveryFailed
from pytest_riobed.guest import CrashGuest

# So that pytest inside pytest does not load libvirt anew.
from pytest_riobed.guests import Guests  # noqa: F401
from pytest_riobed.packages import packages_image
from pytest_riobed.program import Program
from riobed.errors import InfraError, UsageError
from riobed.guest import MIB, Guest, GuestSetup, MachineSpec, cache_mode
from riobed.guest.memory.registry import mapped
from riobed.vm.agent import ExecResult
from riobed.vm.fake import FakeMachine

TESTS = """
import pytest
@pytest.fixture
def database(riobed_guest): return riobed_guest
def test_plain(riobed_guest): pass
@pytest.mark.riobed("rio", pytest.param("delayed", marks=pytest.mark.xfail))
def test_two(database): pass
def test_none(): pass
"""


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest_inprocess("-p", "no:cacheprovider", *arguments)


def collected(pytester: pytest.Pytester, *arguments: str) -> list[str]:
    lines = run(pytester, "--collect-only", "-q", *arguments).stdout.lines
    return [line.partition("::")[2] for line in lines if "::" in line]


def test_a_test_is_run_once_in_each_mode(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTS)
    assert collected(pytester) == ["test_plain[rio]", "test_two[rio]", "test_two[delayed]", "test_none"]
    # The option takes the place of the markers.
    option = ["--riobed-mode", "rio", "--riobed-mode", "rio-protected"]
    both = [f"test_{name}[{mode}]" for name in ("plain", "two") for mode in option[1::2]]
    assert collected(pytester, *option) == [*both, "test_none"]


def test_an_unknown_mode_as_option_is_one_line(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTS)
    result = run(pytester, "--riobed-mode", "fast")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert result.stderr.lines[0].startswith("ERROR: --riobed-mode: unknown cache mode 'fast'; there are: ")


@pytest.fixture
def nothing_set_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "state"
    monkeypatch.setattr("riobed.products.manifest.state_dir", lambda checkout: folder)
    return folder


def errors(result: pytest.RunResult) -> list[str]:
    return [line for line in result.stdout.lines if line.startswith("riobed: ")]


def test_where_nothing_is_set_up_it_says_so(pytester: pytest.Pytester, nothing_set_up: Path) -> None:
    pytester.makepyfile(TESTS)
    result = run(pytester)
    # Not a skip: whoever asks for a guest wants to know.
    result.assert_outcomes(passed=1, errors=2, xfailed=1)
    (first, second) = errors(result)
    assert first == second
    assert first.startswith("riobed: nothing is set up in ") and first.endswith(": run make setup")
    assert "Traceback" not in result.stdout.str() and "plugin.py" not in result.stdout.str()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("'fast'", "unknown cache mode 'fast'; there are: "),
        ("memory_mib=3", "marker riobed: memory_mib: "),
        ("disk_mib='much'", "marker riobed: disk_mib: "),
        ("package=['sqlite3']", "marker riobed: package: "),
        ("power_lines=True", "marker riobed: power_lines: want nvdimm_mib and one emulated processor"),
        ("packages='sqlite3'", "packages='sqlite3': want a list of names"),
    ],
)
def test_a_wrong_marker(pytester: Any, nothing_set_up: Path, arguments: str, complaint: str) -> None:
    marked = f"import pytest\n@pytest.mark.riobed({arguments})\ndef test_it(riobed_guest): assert False"
    pytester.makepyfile(marked)
    result = run(pytester)
    result.assert_outcomes(errors=1)
    (line,) = errors(result)
    assert line.startswith(f"riobed: {complaint}")


@pytest.mark.parametrize("name", ["", "a", "sqlite3; reboot", "../x", "-o", "Sqlite3", "sqlite3\n"])
def test_what_is_no_package(name: str) -> None:
    with pytest.raises(UsageError, match=r"is no name of a Debian package$"):
        packages_image(("sqlite3", name), cast(Any, None))


@pytest.fixture
def machine(tmp_path: Path, clock: Clock) -> ScriptedMachine:
    return ScriptedMachine(tmp_path, clock)


@pytest.fixture
def program(machine: ScriptedMachine) -> Program:
    machine.say(machine.progress, b"of another program\n")
    return Program(machine, "work", "/mnt/test")


def test_lines_are_whole_and_its_own(machine: ScriptedMachine, program: Program) -> None:
    assert program.lines() == []
    machine.say(machine.progress, b"one\n\ntwo \xff\nthr")
    assert program.lines() == ["one", "", "two \ufffd"]
    program.cut()
    machine.say(machine.progress, b"ee\nof the next\n")
    assert program.lines() == ["one", "", "two \ufffd"]
    with pytest.raises(UsageError, match=r"^work: ran when the guest crashed; lines\(\) has"):
        program.result()


def test_lines_are_waited_for(machine: ScriptedMachine, program: Program) -> None:
    machine.later(1, machine.progress, b"1\n2\n")
    machine.later(2, machine.progress, b"3\n")
    assert program.wait_for_lines(2) == ["1", "2"]
    with pytest.raises(InfraError, match=r"^work: it, or .* still runs after 5 s; it printed 3 lines$"):
        program.wait_for_lines(4, timeout=5)


def test_an_end_before_the_lines_is_an_error(machine: ScriptedMachine, program: Program) -> None:
    machine.say(machine.progress, b"1\n")
    machine.ended = ExecResult(0, b"", b"")
    assert program.wait_for_lines(1) == program.wait() == ["1"]
    # The agent tells it once.
    assert program.result() == program.result() == machine.ended
    with pytest.raises(CommandFailed, match=r"^work: status 0 after 1 lines of 2$"):
        program.wait_for_lines(2)


def test_an_end_with_another_status_is_an_error(machine: ScriptedMachine, program: Program) -> None:
    machine.ended = ExecResult(3, b"", b"disk full\n")
    with pytest.raises(CommandFailed, match=r"^work: status 3: disk full$") as caught:
        program.wait()
    assert caught.value.result == machine.ended


@pytest.fixture
def guest(machine: ScriptedMachine) -> CrashGuest:
    setup = GuestSetup(manifest(machine.config.folder), MachineSpec(), "tcg")
    return CrashGuest("rio", Guest(setup, cache_mode("rio"), machine))


def test_wrong_use_of_a_guest(guest: CrashGuest, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^crash by 'fire': there are reset, panic, power, power-lines$"):
        guest.crash_and_recover(by=cast(Any, "fire"))
    with pytest.raises(UsageError, match=r"^crash by 'power-lines': a guest with power_lines=True has "):
        guest.crash_and_recover(by="power-lines")
    with pytest.raises(UsageError, match=rf"^put: {tmp_path}/no does not exist$"):
        guest.put(tmp_path / "no", "x")
    guest.start("one")
    with pytest.raises(UsageError, match=r"^two: one still runs; only one can be followed$"):
        guest.start("two")


class Frail(Kernels):
    """What becomes of the next boots of stage 0 and of the production kernel; later ones come up."""

    def __init__(self) -> None:
        super().__init__()
        self.recoveries: list[bool] = []
        self.boots: list[bool] = []
        # Whether each boot of stage 0 found what the one before it restored.
        self.found: list[bool] = []

    def boot(self, machine: FakeMachine) -> None:
        self.found.append(holds(machine, RESTORED))
        put(machine, RESTORED)
        super().boot(machine)

    def comes_up(self, machine: FakeMachine, kernel: str) -> None:
        planned = self.recoveries if kernel == "stage 0" else self.boots
        if not planned or planned.pop(0):
            super().comes_up(machine, kernel)
        else:
            machine.say(machine.console, f"riobed: {kernel} failed: it ends at kexec\n".encode())


# Bytes in RAM, by their address: of before the crash, and of what recovery restores.
BEFORE, RESTORED = 2 * MIB, 3 * MIB


def put(machine: FakeMachine, address: int) -> None:
    with mapped(machine.ram_path()) as memory:
        memory[address : address + 8] = b"\xa5" * 8


def holds(machine: FakeMachine, address: int) -> bool:
    with mapped(machine.ram_path()) as memory:
        return memory[address : address + 8] == b"\xa5" * 8


@pytest.fixture
def kernels() -> Frail:
    return Frail()


@pytest.fixture
def booted(tmp_path: Path, clock: Clock, kernels: Frail) -> CrashGuest:
    """A guest that runs its production kernel."""
    guest = CrashGuest("write-through", booting_guest(tmp_path, "write-through", kernels))
    guest.begin()
    return guest


@pytest.mark.parametrize(
    ("recoveries", "boots", "warned"), [([False, True], [True], 0), ([True, True], [False, True], 1)]
)
def test_what_does_not_come_up_is_reset_once_more(
    booted: CrashGuest, kernels: Frail, recoveries: list[bool], boots: list[bool], warned: int
) -> None:
    kernels.recoveries, kernels.boots = recoveries, boots
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert booted.crash_and_recover() == recovery()
    assert kernels.recoveries == kernels.boots == []
    assert ["did not come up: " in str(each.message) for each in told] == [True] * warned


def test_what_recovery_rejected_and_what_had_to_be_repaired_are_warnings(
    booted: CrashGuest, kernels: Frail
) -> None:
    first = {"error": 117, "without_log": True, "repair_status": 0}
    damaged = {"entries": {"rejected": 2, "inconsistent": 1}, "saved": {"refused": 3}}
    kernels.report = recovery(**damaged, file_system="xfs", first_mount=first, e2fsck_status=-1)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        report = booted.crash_and_recover(production=False)
    assert report.first_mount and report.first_mount.without_log and report.log_dropped
    damage, trouble = (str(each.message) for each in told)
    for said in ("2 parts of the registry rejected and 1 inconsistent", "3 pages of the save refused"):
        assert said in damage
    assert "xfs_repair -L, which throws the log away, ended with status 0" in trouble


def test_a_mount_that_fails_even_after_a_repair_is_an_error(booted: CrashGuest, kernels: Frail) -> None:
    kernels.report = recovery(
        file_system="btrfs", first_mount={"error": 5, "repair_status": 1}, mount_error=5, e2fsck_status=-1
    )
    with pytest.raises(RecoveryFailed, match=r"cannot be mounted: 5; .*btrfs rescue zero-log"):
        booted.crash_and_recover()


@pytest.mark.parametrize("by", ["reset", "power"])
def test_only_a_loss_of_power_costs_the_memory_and_only_once(
    booted: CrashGuest, kernels: Frail, by: Any
) -> None:
    """A recovery that fails is followed by a reset, which leaves what the first one has restored."""
    machine = cast(FakeMachine, booted._machine)
    put(machine, BEFORE)
    kernels.recoveries = [False]
    booted.crash_and_recover(by=by, production=False)
    assert holds(machine, BEFORE) == (by == "reset")
    assert kernels.found == [False, by == "reset", True]


def test_output_that_was_dropped_is_an_error(guest: CrashGuest, machine: ScriptedMachine) -> None:
    machine.progress.most = 1 << 20
    first = guest.start("one")
    machine.say(machine.progress, b"whole\n")
    machine.ended = ExecResult(0, b"", b"")
    assert first.wait() == ["whole"]
    machine.ended, machine.reaped = None, False
    second = guest.start("two")
    machine.say(machine.progress, b"12345\n" * (1 << 18))
    dropped = pytest.raises(UsageError, match=r"^two: more than 1 MiB were printed by .*; print less$")
    for ask in (second.lines, second.wait, partial(second.wait_for_lines, 1 << 20)):
        with dropped:
            ask()
    second.cut()
    with dropped:
        second.lines()
    # What had ended before is known.
    assert first.lines() == ["whole"]


class Running:
    """A command of this host, and what it printed. As for the agent, it ends when its output is closed."""

    def __init__(self, argv: list[str]) -> None:
        self._process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._said = [b"", b""]
        self._begun = Event()
        streams = (self._process.stdout, self._process.stderr)
        self._readers = [Thread(target=self._read, args=each) for each in enumerate(streams)]
        for reader in self._readers:
            reader.start()
        # So that what a command prints first does not depend on the host's load.
        self._begun.wait(PATIENCE_S)

    def _read(self, number: int, stream: IO[bytes]) -> None:
        with stream:
            while data := os.read(stream.fileno(), 1 << 16):
                self._said[number] += data
                self._begun.set()
        self._begun.set()

    def ended(self) -> ExecResult | None:
        if any(reader.is_alive() for reader in self._readers):
            return None
        status = self._process.wait()
        return ExecResult(status if status >= 0 else 128 - status, self._said[0], self._said[1])


class HostMachine(ScriptedMachine):
    """A machine whose guest is this host."""

    def spawn(self, argv: list[str], stdin: bytes = b"") -> int:
        self.commands.append(argv)
        self.running = getattr(self, "running", []) + [Running(argv)]
        return self.running[-1]._process.pid

    def status(self, pid: int, timeout: float = 10) -> ExecResult | None:
        return next(each.ended() for each in self.running if each._process.pid == pid)

    def run(self, argv: list[str], stdin: bytes = b"", timeout: float = 60) -> ExecResult:
        running = Running(argv)
        for reader in running._readers:
            reader.join()
        return cast(ExecResult, running.ended())


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CrashGuest:
    """A guest that is this host, with a folder of its own as the file system under test."""
    monkeypatch.setattr(guest_module, "FOLDER", str(tmp_path))
    monkeypatch.setattr(guest_module, "_PIPES", str(tmp_path / "pipes"))
    setup = GuestSetup(manifest(tmp_path), MachineSpec(), "tcg")
    return CrashGuest("rio", Guest(setup, cache_mode("rio"), HostMachine(tmp_path / "vm")))


def runs(pid: int) -> bool:
    """Whether there is such a process; one that ended may still wait for its parent to ask."""
    try:
        return ") Z " not in Path("/proc", str(pid), "stat").read_text()
    except FileNotFoundError:
        return False


# Each prints the id of a process that would run on.
@pytest.mark.parametrize(
    "command",
    [
        "echo $$; sleep 600",
        "sleep 600 & echo $!",
        "sleep 600 >/dev/null 2>&1 & echo $!; wait",
        # It leaves the session, and only its standard error is open.
        "setsid sh -c 'echo $$; exec sleep 600 >/dev/null' &",
        "trap '' TERM; echo $$; while :; do sleep 1; done",
    ],
)
def test_a_command_that_does_not_end_is_killed_and_what_it_printed_is_shown(
    host: CrashGuest, command: str
) -> None:
    with pytest.raises(CommandTimeout) as caught:
        host.run(command, timeout=0.1)
    said = caught.value.result.stdout.decode() if caught.value.result else ""
    first, title, *rest = str(caught.value).splitlines()
    assert first.startswith(f"{command}: it, or a child") and "within 0.1 s" in first
    assert first.endswith("redirect the output of what has to run on (>/dev/null 2>&1 &), or start() it")
    assert (title, rest) == ("last lines of its standard output:", [said.strip()])
    assert not runs(int(said))
    assert host.run("echo well") == "well\n"


def test_a_daemon_whose_output_is_redirected_runs_on(host: CrashGuest) -> None:
    pid = int(host.run("setsid sleep 600 >/dev/null 2>&1 & echo $!"))
    with pytest.raises(CommandTimeout):
        host.run("echo before; sleep 600", timeout=0.1)
    assert runs(pid)
    os.kill(pid, signal.SIGKILL)


def test_of_much_output_only_the_end_is_shown() -> None:
    numbers = b"".join(b"%d\n" % n for n in range(100_000))
    said = str(CommandTimeout("count", 5, ExecResult(137, numbers, b"x" * (16 << 20))))
    assert len(said) < 5000
    assert "\nlast lines of its standard output:\n99990\n" in said and "\n99999\nlast lines of " in said
    # The agent takes no more.
    assert "\nlast lines of the first 16 MiB of its standard error:\nxxx" in said


def test_commands_have_the_usual_umask(host: CrashGuest) -> None:
    assert host.run("umask") == "0022\n"


# A machine that is told to end once more in the middle of its end, as timeout(1) does.
FAKE_GUESTS = """
import os
import signal
import pytest_riobed.guests
from harness_builders import Kernels, booting_guest
from pytest_riobed.guest import CrashGuest
from riobed.vm.fake import FakeMachine
from riobed.vm.host.scratch import scratch_dir

class Told(FakeMachine):
    def destroy(self):
        if self.alive():
            os.kill(os.getpid(), signal.SIGTERM)
            super().destroy()
            print("the guest has ended", flush=True)

def made(mode, packages, machine, power_lines, folder):
    return CrashGuest(mode, booting_guest(scratch_dir() / folder, mode, Kernels(), Told))

pytest_riobed.guests._guest = made
"""
LONG = """
import time
import pytest
from riobed.vm.host.scratch import memory_dir, scratch_dir

@pytest.mark.riobed("write-through")
def test_long(riobed_guest):
    print("folders:", scratch_dir(), memory_dir(), flush=True)
    time.sleep(600)
"""


def test_a_run_that_is_told_to_end_cleans_up(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(FAKE_GUESTS)
    (tmp_path / "test_long.py").write_text(LONG)
    builders = str(Path(__file__).parents[1])
    path = os.pathsep.join(filter(None, (builders, os.environ.get("PYTHONPATH"))))
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-s", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path, "RIOBED_SCRATCH": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout
    seen = next((line for line in process.stdout if "folders:" in line), "")
    folders = [Path(word) for word in seen.rpartition("folders:")[2].split()]
    assert len(folders) == 2 and all(folder.exists() for folder in folders)
    process.send_signal(signal.SIGTERM)
    rest, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == pytest.ExitCode.INTERRUPTED, rest
    assert "the guest has ended" in rest
    assert not any(folder.exists() for folder in folders)


def test_the_console_in_a_report_is_clean(guest: CrashGuest, machine: ScriptedMachine) -> None:
    assert guest.logs() == []
    machine.say(machine.console, b"".join(b"[ %4d.0] line %d\r\n" % (n, n) for n in range(100)) + b"\x1b[2J")
    ((name, text),) = guest.logs()
    assert name == "now" and text.splitlines()[0] == "line 71" and text.endswith("line 99\n?[2J")
