# SPDX-License-Identifier: Apache-2.0
"""The boot protocol: console markers of the two boot stages, and functions that wait for them.

harness/guest/stage0/init and riobed-init print the markers.
"""

import time
from collections.abc import Callable
from contextlib import suppress

from riobed.crash.formats import clean
from riobed.errors import BootError, InfraError
from riobed.vm import AgentLost, Machine

# Prefix of the first line of stage 0 and of the two markers below.
STAGE0 = b"riobed: stage 0"
STAGE0_READY = b"riobed: stage 0 ready"
_STAGE0_FAILED = b"riobed: stage 0 failed"
# riorecover has no program to check or repair the file system with: no crash causes that.
_LACKS_PROGRAM = b"riobed: stage 0 failed: recovery lacks a program"
_PRODUCTION_READY = b"riobed: production ready"
_PRODUCTION_FAILED = b"riobed: production failed"

# Seconds, on a busy host.
BOOT_S = 240.0
# Stage 0 with recovery, which writes back the restored cache and checks a whole file system. That takes
# tenths of a second for a trial's 128 MiB and half a minute for the GiB of a soak.
RECOVERY_S = 300.0
_POLL_S = 0.02
_ANSWER_S = 1.0
# Lines of the console that an error carries.
_TAIL = 30


def wait_stage0(machine: Machine, timeout: float = RECOVERY_S) -> None:
    """Wait until stage 0 has recovered and its agent answers; BootError after `timeout` seconds.

    If stage 0 lacks a program of recovery, the error is an InfraError and no BootError: to boot again is of
    no use.
    """
    try:
        _wait_for(machine, STAGE0_READY, [_STAGE0_FAILED], timeout)
    except BootError as error:
        if _LACKS_PROGRAM in machine.console.text():
            raise InfraError(str(error)) from None
        raise


def boot_production(machine: Machine, timeout: float = BOOT_S) -> None:
    """Boot the production kernel from stage 0; BootError after `timeout` seconds.

    BootError also if stage 0 refuses, because only memory holds what it could not restore.
    """
    # Stage 0 may be gone before its agent answers; the console says what became of it.
    with suppress(AgentLost):
        machine.write_file("/run/boot", machine.config.production_cmdline.encode())
    _wait_for(machine, _PRODUCTION_READY, [_STAGE0_FAILED, _PRODUCTION_FAILED], timeout)


def wait_until(machine: Machine, condition: Callable[[], bool], timeout: float) -> bool:
    """Wait for a condition; return False after `timeout` seconds. InfraError if the machine has failed."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            return False
        if failure := machine.failure():
            raise InfraError(f"{machine.config.name}: {failure}")
        time.sleep(_POLL_S)
    return True


def boot_error(machine: Machine, what: str) -> BootError:
    """Make an error that carries the last console lines; its message quotes the very last one."""
    lines = [line for line in clean(machine.console.text()).splitlines() if line.strip()][-_TAIL:]
    last = f"; the console ends: {lines[-1].strip()[:120]}" if lines else "; the console is empty"
    return BootError(f"{machine.config.name}: {what}{last}", "\n".join(lines))


def _wait_for(machine: Machine, good: bytes, bad: list[bytes], timeout: float) -> None:
    more = machine.console.follow()

    def look() -> bool:
        text = more()
        for word in bad:
            if word in text:
                line = text[text.index(word) :].splitlines()[0]
                raise boot_error(machine, line.decode("latin-1"))
        return good in text

    if not wait_until(machine, look, timeout):
        raise boot_error(machine, f"no '{good.decode()}' within {timeout:.0f} s")
    # In short waits, so that a machine that ends meanwhile ends the whole wait.
    if not wait_until(machine, lambda: machine.agent_answers(_ANSWER_S), timeout):
        raise boot_error(machine, f"'{good.decode()}', but no agent within {timeout:.0f} s")
