# SPDX-License-Identifier: Apache-2.0
"""The errors that stop riobed: wrong use, a wrong environment, our own failure inside a trial."""

from pydantic import ValidationError


class RiobedError(Exception):
    """One line for the user: what happened, where, what to do. `exit_code` is the command's status."""

    exit_code = 1


class UsageError(RiobedError):
    """The request itself is wrong (unknown mode, bad spec); exit status 2."""

    exit_code = 2


class EnvironmentFault(RiobedError):
    """This host lacks something or is in a state we cannot work in; exit status 1."""


class InfraError(RiobedError):
    """Our own machinery failed inside a trial (QEMU died, agent lost before injection).

    Never a result: the trial is run again.
    """


class BootError(InfraError):
    """The guest did not reach the stage it was booted for; `console` has the last lines it printed."""

    def __init__(self, message: str, console: str = "") -> None:
        super().__init__(message)
        self.console = console


def complaint(error: ValidationError, whole: str) -> str:
    """Return pydantic's first complaint, in one line; `whole` names the place if the complaint has no key."""
    first = error.errors()[0]
    where = " ".join(".".join(str(part) for part in first["loc"]).split()) or whole
    return f"{where}: {first['msg'].removeprefix('Value error, ')}"
