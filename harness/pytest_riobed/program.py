# SPDX-License-Identifier: Apache-2.0
"""A program that runs in the guest while the test continues; its output survives the guest's crash."""

import time
from collections.abc import Callable

from riobed import PROGRESS_PORT, ExecResult, InfraError, Machine, UsageError

from pytest_riobed.errors import CommandFailed, shown_at_caller

_POLL_S = 0.05


def enter(folder: str) -> str:
    """Return the first line of a shell's script: go to a folder of the guest, with the usual umask.

    The agent's is 077 (QEMU, qga/main.c, become_daemon()). A server that changes its user could not read what
    root has made.
    """
    return f"umask 022; cd {folder} || exit"


class Program:
    """A program started by CrashGuest.start(). Its output has left the guest when its write returns."""

    def __init__(self, machine: Machine, command: str, folder: str) -> None:
        self.command = command
        self._machine = machine
        self._begin = len(machine.progress.text())
        self._kept: bytes | None = None
        self._dropped = False
        self._result: ExecResult | None = None
        script = f"{enter(folder)}\nexec >{PROGRESS_PORT} || exit\n{command}"
        self.pid = machine.spawn(["/bin/sh", "-c", script])

    @shown_at_caller
    def lines(self) -> list[str]:
        """Return the complete lines it has printed so far, or until the crash.

        UsageError if the programs of this test printed more than is kept, and the rest was dropped.
        """
        printed = self._machine.progress.text(self._begin) if self._kept is None else self._kept
        self._need_all()
        return printed.decode("utf-8", "replace").split("\n")[:-1]

    @shown_at_caller
    def result(self) -> ExecResult | None:
        """Return how it ended, None while it runs; UsageError if it was running when the guest crashed."""
        # The agent reports an end only once.
        if self._result is None:
            if self._kept is not None:
                raise UsageError(f"{self.command}: ran when the guest crashed; lines() has what it printed")
            self._result = self._machine.status(self.pid)
        return self._result

    @shown_at_caller
    def wait_for_lines(self, count: int, timeout: float = 60) -> list[str]:
        """Return its lines as soon as there are `count`.

        CommandFailed if it ends before that, InfraError after `timeout` seconds, UsageError as in lines().
        """
        self._until(lambda: len(self.lines()) >= count or self.result() is not None, timeout)
        lines = self.lines()
        if len(lines) < count and (ended := self.result()):
            raise CommandFailed(self.command, ended, f" after {len(lines)} lines of {count}")
        return lines

    @shown_at_caller
    def wait(self, timeout: float = 60) -> list[str]:
        """Wait for its end; return all its lines.

        CommandFailed if its status is not 0, InfraError after `timeout` seconds, UsageError as in lines().
        """
        self._until(lambda: self.result() is not None, timeout)
        if (ended := self.result()) and ended.status:
            raise CommandFailed(self.command, ended)
        return self.lines()

    def cut(self) -> None:
        """Take no more output for this program: it has ended, or the guest has crashed."""
        if self._kept is None:
            self._kept = self._machine.progress.text(self._begin)
            self._dropped = self._machine.progress.full

    def _need_all(self) -> None:
        if self._dropped or (self._kept is None and self._machine.progress.full):
            raise UsageError(
                f"{self.command}: more than {self._machine.progress.most >> 20} MiB were printed by programs "
                "that this test started, and the rest was dropped; print less"
            )

    def _until(self, condition: Callable[[], bool], timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not condition():
            self._need_all()
            if time.monotonic() > deadline:
                raise InfraError(
                    f"{self.command}: it, or a child that keeps its standard error open, still runs after "
                    f"{timeout:g} s; it printed {len(self.lines())} lines"
                )
            time.sleep(_POLL_S)
