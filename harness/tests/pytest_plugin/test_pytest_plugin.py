# SPDX-License-Identifier: Apache-2.0
"""The pytest plugin as far as no guest is needed: option, marker, complaints."""

import warnings
from pathlib import Path
from typing import Any, cast

import pytest
from harness_builders import Clock, Kernels, ScriptedMachine, booting_guest, manifest, recovery
from pytest_riobed.errors import CommandFailed
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
    with pytest.raises(InfraError, match=r"^work: still runs after 5 s, 3 lines$"):
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


def test_the_console_in_a_report_is_clean(guest: CrashGuest, machine: ScriptedMachine) -> None:
    assert guest.logs() == []
    machine.say(machine.console, b"".join(b"[ %4d.0] line %d\r\n" % (n, n) for n in range(100)) + b"\x1b[2J")
    ((name, text),) = guest.logs()
    assert name == "now" and text.splitlines()[0] == "line 71" and text.endswith("line 99\n?[2J")
