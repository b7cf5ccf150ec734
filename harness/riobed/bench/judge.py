# SPDX-License-Identifier: Apache-2.0
"""Whether a run's output is right: a run with wrong output has done other work than the others."""

from riobed.errors import InfraError
from riobed.guest import Guest
from riobed.trial import read_check

# Writing each file through to a disk of 1996 takes a quarter of an hour; comparing files reads them from it.
_PART_S = 7200.0
_CHECK_S = 1800.0


def judge(guest: Guest, seed: int) -> str | None:
    """Return what is wrong after the work, None if nothing is; InfraError if the check itself fails."""
    return _checked(guest, [*guest.workload.checks(seed).values()][-1])


def rehearse(guest: Guest, seed: int) -> str | None:
    """Do the work with its checks between parts, if it has any; return what is wrong.

    That is no measured run: the kernel goes on writing while a check runs, and the next part then finds less
    to be written. InfraError if a part or a check fails.
    """
    *between, _ = checks = guest.workload.checks(seed)
    if not between:
        return None
    guest.ready()
    for name, text in guest.workload.measured(seed).items():
        done = guest.machine.run(["/bin/sh", "-c", text], timeout=_PART_S)
        if done.status:
            raise InfraError(f"the part {name} failed with status {done.status}: {done.error}")
        if name in checks and (wrong := _checked(guest, checks[name])):
            return f"after {name}: {wrong}"
    return None


def _checked(guest: Guest, check: list[str]) -> str | None:
    report = read_check(guest.machine.run(check, timeout=_CHECK_S))
    if report.equal:
        return None
    return f"the output is wrong: {'; '.join(map(str, report.differences[:1])) or 'the check says no more'}"
