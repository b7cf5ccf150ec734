# SPDX-License-Identifier: Apache-2.0
"""QEMU as a process of the host: find it, read its last words, and kill it if it does not answer."""

import os
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# A log is truncated at each start; the command line takes about 8 KiB of it.
_LAST_PART = 64 << 10
_MAX_WORDS = 300
_AGAIN_S = 0.5
# Lines of libvirt itself; QEMU's have a T between date and time.
_LIBVIRT = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}\+0000: ")
_TIME = re.compile(r"^\d{4}-\d\d-\d\dT\S+Z ")


def qemus_with(mark: bytes) -> list[int]:
    """Return the process ids of the QEMUs whose command line contains `mark`; its words end with a byte 0."""

    def command_line(process: Path) -> bytes:
        try:
            return (process / "cmdline").read_bytes()
        except OSError:  # the process has just ended
            return b""

    lines = {int(path.name): command_line(path) for path in Path("/proc").glob("[0-9]*")}
    return [pid for pid, line in lines.items() if b"qemu-system" in line and mark in line]


def end_qemus(mark: bytes) -> None:
    """Kill the QEMUs whose command line contains `mark`."""
    for pid in qemus_with(mark):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


@contextmanager
def time_limit(seconds: float, mark: bytes) -> Iterator[threading.Event]:
    """After `seconds`, set the event and kill the QEMUs with that mark, until the block ends.

    libvirt waits for ever for QEMU's monitor, but gives up when QEMU is gone. The kill is repeated because a
    block that starts a QEMU may do so after the limit.
    """
    late, over = threading.Event(), threading.Event()

    def end() -> None:
        patience = seconds
        while not over.wait(patience):
            late.set()
            end_qemus(mark)
            patience = _AGAIN_S

    watcher = threading.Thread(target=end, daemon=True, name="time limit")
    watcher.start()
    try:
        yield late
    finally:
        over.set()
        watcher.join()


def last_words(log: Path) -> str:
    """Return QEMU's last two lines in libvirt's log, as one printable line; "" if there are none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _LAST_PART))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    words: list[str] = []
    command_line = False
    for line in text.splitlines():
        if _LIBVIRT.match(line):
            if ": starting up " in line:
                words, command_line = [], True
        elif not command_line:
            words.append(_TIME.sub("", line).strip())
        elif not line.endswith("\\"):
            command_line = False
    said = " ".join("".join(c if c.isprintable() else "?" for c in line) for line in words[-2:])
    return said if len(said) <= _MAX_WORDS else f"{said[: _MAX_WORDS - 3]}..."
