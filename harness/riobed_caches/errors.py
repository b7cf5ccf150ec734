# SPDX-License-Identifier: Apache-2.0
"""Errors of recording, importing and running traces; a command prints one line and exits with a status."""

from pathlib import Path


class CachesError(Exception):
    """This host cannot do what was asked (no strace, disk full). Exit status 1."""

    exit_code = 1


class TraceError(CachesError):
    """The trace or the request is wrong: `what` is wrong at `where`; `do` says what to do. Exit status 2."""

    exit_code = 2

    def __init__(self, where: Path | str, what: str, do: str = "record or import it again") -> None:
        super().__init__(f"trace {where}: {what}; {do}")
        self._parts = (where, what, do)

    def __reduce__(self) -> tuple[type["TraceError"], tuple[Path | str, str, str]]:
        # An error of another process comes back with the arguments that it was made with.
        return type(self), self._parts
