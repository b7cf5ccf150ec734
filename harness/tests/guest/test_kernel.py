# SPDX-License-Identifier: Apache-2.0
"""The kernel of a mode: built by the playbook when it is missing, ended with all it started, checked."""

import os
import signal
import sys
import threading
import time
import traceback
from pathlib import Path

import pytest
from harness_builders import shell_program
from riobed.errors import EnvironmentFault, UsageError
from riobed.guest.settings import kernel as kernel_module
from riobed.guest.settings.kernel import build, check_config
from riobed.products import KernelSpec

HARDENED = KernelSpec(config=("hardened",))


@pytest.fixture
def playbook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in the place of ansible-playbook, for a kernel that is never there."""
    monkeypatch.setenv("RIOBED_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(kernel_module.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(kernel_module, "prepare_cache", lambda kernel: (tmp_path / "cache").mkdir())
    return tmp_path / "ansible-playbook"


def test_a_build_says_what_it_does(playbook: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shell_program(
        playbook, "echo 'TASK [Compile it (about 7 minutes)] ***'; echo 'TASK [other] ***'; echo noise"
    )
    build(HARDENED)
    first, second = capsys.readouterr().err.splitlines()
    assert "hardened" in first
    assert second == "  Compile it (about 7 minutes)"


def test_a_failed_build_is_told_in_one_line(playbook: Path) -> None:
    failing = "echo 'fatal: [localhost]: FAILED!'; echo ' msg: no'; echo ' luck'; exit 2"
    shell_program(playbook, f"echo 'TASK [x] *'; {failing}")
    with pytest.raises(EnvironmentFault, match=r"^[^\n]*hardened[^\n]*no luck[^\n]*$"):
        build(HARDENED)


def test_an_interrupted_build_leaves_no_process(playbook: Path, tmp_path: Path) -> None:
    """Ansible gives its tasks sessions of their own, which Ctrl-C does not reach."""
    said = tmp_path / "pid"
    shell_program(playbook, f"setsid sh -c 'echo $$ >{said}; exec sleep 1000' & wait")

    def reads() -> bool:
        """Whether the main thread reads what the playbook prints."""
        frame = sys._current_frames()[threading.main_thread().ident or 0]
        return any(entry.name == "_told" for entry in traceback.extract_stack(frame))

    def interrupt() -> None:
        # On a busy host the process that is started may be faster than the one that starts it.
        while not said.exists() or not said.read_text() or not reads():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        build(HARDENED)
    command, deadline = Path(f"/proc/{said.read_text().strip()}/cmdline"), time.monotonic() + 120
    while command.exists() and command.read_bytes():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_kernel_without_what_is_needed_is_refused() -> None:
    with pytest.raises(UsageError, match=r"mode x.*CONFIG_RIO_CACHE.*registry"):
        check_config(
            "mode x", {"CONFIG_EXT4_FS": "y"}, {"CONFIG_EXT4_FS": "e", "CONFIG_RIO_CACHE": "a registry"}
        )
