# SPDX-License-Identifier: Apache-2.0
"""What a test of a program in the guest can fail with, besides riobed's own errors, and where it is shown."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from riobed import ExecResult, RiobedError

_P = ParamSpec("_P")
_T = TypeVar("_T")


class CommandFailed(RiobedError):
    """A command in the guest ended too early or with another status than 0; `result` is how."""

    def __init__(self, command: str, result: ExecResult, when: str = "") -> None:
        said = (result.stderr or result.stdout).decode("utf-8", "replace").strip()
        super().__init__(": ".join(filter(None, (command.strip(), f"status {result.status}{when}", said))))
        self.result = result


class RecoveryFailed(RiobedError):
    """The guest came back from a crash, but its file system cannot be mounted."""


def shown_at_caller(method: Callable[_P, _T]) -> Callable[_P, _T]:
    """Errors of riobed are raised anew here, so that a test's report shows the test's line and no others."""

    @functools.wraps(method)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        __tracebackhide__ = True
        try:
            return method(*args, **kwargs)
        except RiobedError as error:
            raise error.with_traceback(None) from None

    return call
