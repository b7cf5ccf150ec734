# SPDX-License-Identifier: Apache-2.0
"""Errors of tests that run a program in the guest, in addition to riobed's own, and how they are reported."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from riobed import ExecResult, RiobedError

_P = ParamSpec("_P")
_T = TypeVar("_T")


class CommandFailed(RiobedError):
    """A command in the guest ended too early or with a status other than 0; `result` says how it ended."""

    def __init__(self, command: str, result: ExecResult, when: str = "") -> None:
        said = (result.stderr or result.stdout).decode("utf-8", "replace").strip()
        super().__init__(": ".join(filter(None, (command.strip(), f"status {result.status}{when}", said))))
        self.result = result


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
