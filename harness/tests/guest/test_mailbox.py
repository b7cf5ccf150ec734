# SPDX-License-Identifier: Apache-2.0
"""A command in a guest's memory: found where it belongs, and run by a real shell as it was given."""

import subprocess
from pathlib import Path

import pytest
from harness_builders import Clock, ScriptedMachine
from riobed.errors import InfraError
from riobed.guest.memory.layout import PAGE
from riobed.guest.memory.mailbox import _MARK, _PAGES, _WAIT, find_mailbox, open_mailbox, put_command
from riobed.vm.agent import ExecResult

ORDER = [9, 2, 5, 3]


class WithMemory(ScriptedMachine):
    """A machine with a file for RAM, in which the pages of a mailbox lie in no order."""

    def __init__(self, folder: Path, pages: dict[int, bytes]) -> None:
        super().__init__(folder, Clock())
        memory = bytearray(16 * PAGE)
        for page, line in pages.items():
            memory[ORDER[page] * PAGE : (ORDER[page] + 1) * PAGE] = line
        # A copy in some buffer.
        memory[12 * PAGE + 24 : 13 * PAGE + 24] = line_of(0, 1)
        (folder / "ram").write_bytes(memory)

    def ram_path(self) -> Path:
        return self.config.folder / "ram"

    def pages(self) -> bytes:
        memory = self.ram_path().read_bytes()
        return b"".join(memory[place * PAGE : (place + 1) * PAGE] for place in ORDER)


def line_of(page: int, pid: int) -> bytes:
    return f"#{_MARK} {page} {pid}".ljust(PAGE - 1).encode() + b"\n"


@pytest.fixture
def machine(tmp_path: Path) -> WithMemory:
    return WithMemory(tmp_path, {page: line_of(page, 93) for page in range(_PAGES)})


def test_the_shell_that_waits_writes_what_is_looked_for(tmp_path: Path) -> None:
    script = _WAIT.replace("/run/mailbox", str(tmp_path / "box"))
    with subprocess.Popen(["/bin/sh", "-c", script, "mailbox", _MARK], stdout=subprocess.PIPE) as shell:
        box = tmp_path / "box"
        while not box.exists() or box.stat().st_size < _PAGES * PAGE:
            pass
        found = find_mailbox(box.read_bytes())
        assert found == {page: (page * PAGE, shell.pid) for page in range(_PAGES)}
        with box.open("r+b") as file:
            file.write(b":\nexec echo it came\n".ljust(_PAGES * PAGE, b"\n"))
        assert shell.communicate(timeout=120)[0] == b"it came\n"


@pytest.mark.parametrize("size", [0, 1, 3 * PAGE])
def test_a_command_arrives_as_it_is(machine: WithMemory, tmp_path: Path, size: int) -> None:
    words = ["it's", 'a "$HOME"', "`two\nlines`"]
    given = b"text 0 $(x) \\\n" * (size // 14)
    assert put_command(machine, ["/bin/sh", "-c", 'printf "%s|" "$@"; cat', "name", *words], given) == 93
    (tmp_path / "script").write_bytes(machine.pages())
    done = subprocess.run(["/bin/sh", tmp_path / "script"], capture_output=True, check=True)
    assert done.stdout == "".join(f"{word}|" for word in words).encode() + given


def test_nothing_else_is_written(machine: WithMemory) -> None:
    before = machine.ram_path().read_bytes()
    put_command(machine, ["/bin/true"], b"")
    after = machine.ram_path().read_bytes()
    changed = {at // PAGE for at in range(len(before)) if before[at] != after[at]}
    assert changed == set(ORDER)


def test_a_command_that_is_too_long(machine: WithMemory) -> None:
    with pytest.raises(InfraError, match="too long for the mailbox"):
        put_command(machine, ["/bin/true"], b"x" * (_PAGES * PAGE))


def test_a_memory_without_a_whole_mailbox(tmp_path: Path) -> None:
    machine = WithMemory(tmp_path, {0: line_of(0, 93), 1: b"\0" * PAGE})
    with pytest.raises(InfraError, match="mailbox is not in its memory"):
        put_command(machine, ["/bin/true"], b"")


def test_a_guest_that_cannot_make_one(machine: WithMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "run", lambda argv, timeout: ExecResult(1, b"", b""))
    with pytest.raises(InfraError, match="cannot make a mailbox"):
        open_mailbox(machine)
