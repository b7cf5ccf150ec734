# SPDX-License-Identifier: Apache-2.0
"""QEMU's last words in libvirt's log of it, and the end of a QEMU that takes too long."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from riobed.vm.host.process import end_qemus, last_words, qemus_with, time_limit

# As libvirt 9.0 writes it, shortened in the middle.
START = """\
2026-11-21 18:05:28.319+0000: starting up libvirt version: 9.0.0, qemu version: 7.2.22, kernel: 6.1.0
LC_ALL=C \\
/usr/bin/qemu-system-x86_64 \\
-name guest=riobed-12198-w0-rio,debug-threads=on \\
-msg timestamp=on
2026-11-21 18:05:28.320+0000: Domain id=4 is tainted: high-privileges
"""
END = "2026-11-21 18:07:01.002+0000: shutting down, reason=crashed\n"
ABORT = (
    "**\nERROR:../../accel/tcg/cpu-exec.c:954:cpu_exec: assertion failed: (cpu == current_cpu)\n"
    "Bail out! ERROR:../../accel/tcg/cpu-exec.c:954:cpu_exec: assertion failed: (cpu == current_cpu)\n"
)
SIGNAL = "2026-11-21T18:07:01.000001Z qemu-system-x86_64: terminating on signal 15 from pid 77 (kill)\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "guest.log"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (START, ""),
        (START + END, ""),
        (START + SIGNAL + END, "qemu-system-x86_64: terminating on signal 15 from pid 77 (kill)"),
        (START + ABORT + END, " ".join(ABORT.splitlines()[1:])),
        # What it said before it was started again is not about this end.
        (START + ABORT + END + START + END, ""),
        (START + ABORT + END + START + SIGNAL, SIGNAL.partition(" ")[2].strip()),
        # Too long a log begins in the middle of a command line.
        ("-device x \\\n" * 9000 + "-msg timestamp=on\n" + ABORT, " ".join(ABORT.splitlines()[1:])),
    ],
)
def test_last_words(log: Path, text: str, words: str) -> None:
    assert last_words(log) == ""
    log.write_text(text)
    assert last_words(log) == words


def test_last_words_are_one_printable_line_of_some_length(log: Path) -> None:
    log.write_bytes(START.encode() + b"\x1b[2J\x00\xff bad\r" + b"x" * 10_000 + b"\n")
    words = last_words(log)
    assert words.isprintable() and len(words) == 300 and words.endswith("x...")


@contextmanager
def likeness(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A harmless process with the command line of a QEMU."""
    program = "import time; print(flush=True); time.sleep(600)"
    name = f"guest={folder.name},debug-threads=on"
    argv = [sys.executable, "-c", program, "qemu-system-x86_64", "-name", name]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        yield process
        process.kill()


@pytest.fixture
def qemu(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    with likeness(tmp_path) as process:
        yield process


@pytest.fixture
def mark(tmp_path: Path) -> bytes:
    return f"guest={tmp_path.name},".encode()


def test_a_qemu_is_known_by_its_mark(qemu: subprocess.Popen[bytes], mark: bytes) -> None:
    other = mark.replace(b",", b"x,")
    assert (qemus_with(mark), qemus_with(other)) == ([qemu.pid], [])
    end_qemus(other)
    assert qemu.poll() is None


def test_what_takes_too_long_is_ended(qemu: subprocess.Popen[bytes], mark: bytes) -> None:
    qemu.send_signal(signal.SIGSTOP)
    with time_limit(0.5, mark) as late:
        assert qemu.wait(120) == -signal.SIGKILL
    assert late.is_set()


def test_what_begins_when_it_is_too_late_is_ended_too(tmp_path: Path, mark: bytes) -> None:
    """On a busy host libvirt may not have started its QEMU yet."""
    with time_limit(0.1, mark) as late:
        assert late.wait(120)
        time.sleep(0.3)  # nothing was there to be killed then
        with likeness(tmp_path) as process:
            assert process.wait(120) == -signal.SIGKILL


def test_what_is_in_time_is_left_alone(qemu: subprocess.Popen[bytes], mark: bytes) -> None:
    with time_limit(120, mark) as late:
        pass
    # Nor is there anything left that could end it later.
    assert "time limit" not in [thread.name for thread in threading.enumerate()]
    assert qemu.poll() is None and not late.is_set()
