# SPDX-License-Identifier: Apache-2.0
"""Errors of tests that run a program in the guest, in addition to riobed's own, and how they are reported."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from riobed import ExecResult, InfraError, RiobedError

_P = ParamSpec("_P")
_T = TypeVar("_T")
# guest-exec truncates output at this size (QEMU, qga/commands.c, GUEST_EXEC_MAX_OUTPUT).
MAX_OUTPUT = 16 << 20
# How much of a stream CommandTimeout shows.
_LAST_LINES = 10
_LAST_BYTES = 2000


class CommandFailed(RiobedError):
    """A command in the guest ended too early or with a status other than 0; `result` says how it ended."""

    def __init__(self, command: str, result: ExecResult, when: str = "") -> None:
        said = (result.stderr or result.stdout).decode("utf-8", "replace").strip()
        super().__init__(": ".join(filter(None, (command.strip(), f"status {result.status}{when}", said))))
        self.result = result


class CommandTimeout(InfraError):
    """A command in the guest did not end in time, so it was killed.

    `result` has what it had printed, at most MAX_OUTPUT bytes of each stream; None if that is not known.
    """

    def __init__(self, command: str, timeout: float, result: ExecResult | None) -> None:
        what = (
            f"it, or a child that keeps its output open, did not end within {timeout:g} s and was killed; "
            "redirect the output of what has to run on (>/dev/null 2>&1 &), or start() it"
        )
        if result:
            said = _end("standard output", result.stdout) + _end("standard error", result.stderr)
        else:
            said = ["what it printed is not known: it did not end when it was killed"]
        super().__init__("\n".join([f"{command.strip()}: {what}", *(said or ["it printed nothing"])]))
        self.result = result


def _end(name: str, data: bytes) -> list[str]:
    """Return the last lines of what a command printed, under a title; none if it printed nothing."""
    lines = data[-_LAST_BYTES:].decode("utf-8", "replace").splitlines()[-_LAST_LINES:]
    part = f"the first {MAX_OUTPUT >> 20} MiB of " if len(data) >= MAX_OUTPUT else ""
    return [f"last lines of {part}its {name}:", *lines] if lines else []


class RecoveryFailed(RiobedError):
    """The guest came back from a crash, but its file system cannot be mounted."""


def shown_at_caller(method: Callable[_P, _T]) -> Callable[_P, _T]:
    """Raise riobed's errors again at the caller, so a test's report shows only the test's line."""

    @functools.wraps(method)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        __tracebackhide__ = True
        try:
            return method(*args, **kwargs)
        except RiobedError as error:
            raise error.with_traceback(None) from None

    return call
