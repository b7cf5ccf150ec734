# SPDX-License-Identifier: Apache-2.0
"""The value of the fixture `riobed_guest`: a guest that runs a program and can be crashed under it."""

import shutil
import time
import warnings
from pathlib import Path, PurePosixPath
from typing import Literal, get_args

from riobed import (
    RECOVERY_TRIES,
    AgentLost,
    BootError,
    ExecResult,
    Guest,
    InfraError,
    RecoveryReport,
    UsageError,
    boot_production,
    clean,
    copy_in,
    ended,
    read_recovery,
    recognise,
    wait_stage0,
)

from pytest_riobed.errors import (
    MAX_OUTPUT,
    CommandFailed,
    CommandTimeout,
    RecoveryFailed,
    shown_at_caller,
)
from pytest_riobed.packages import MOUNT
from pytest_riobed.program import Program, enter

# The file system under test.
FOLDER = "/mnt/test"
Cause = Literal["reset", "panic", "power", "power-lines"]
# What memory is overwritten with at a loss of power is drawn from this.
_NOISE_SEED = 1
_PANIC_S = 30.0
_COMMAND_S = 120.0
_POLL_S = 0.05
# For a killed command to end, and for the agent to send MAX_OUTPUT bytes at about 1 MiB/s.
_KILL_S = 60.0
_SYNC_S = 10.0
_PIECE = 4 << 20
# Arguments: file, bytes per piece, number of the piece. (A pipe would hide a read error.)
_READ = 'dd if="$1" bs="$2" skip="$3" count=1 iflag=fullblock status=none'
# In the guest: the pipes that the last command was given for its output, as readlink(1) names them.
_PIPES = "/run/riobed-pipes"
# Kills a command's session, and what else has its output open for writing; the agent has it for reading.
# Arguments: the session, and the file with the pipes' names.
_KILL = r"""pkill -KILL -s "$1"
find /proc/[0-9]*/fd -lname 'pipe:*' -perm -200 -printf '%l/%h\n' |
	grep -Ff "$2" | cut -d/ -f4 | xargs -r kill -KILL
"""
# Lines per part of the console in a failing test's report.
_TAIL = 30


class CrashGuest:
    """A guest in cache mode `mode`. sh runs commands in the root of the file system under test."""

    def __init__(self, mode: str, guest: Guest) -> None:
        self.mode = mode
        self._guest = guest
        self._machine = guest.machine
        self._production = False
        self._program: Program | None = None
        self._brought: list[tuple[Path, str]] = []
        self._logs: list[tuple[str, bytes]] = []

    def __repr__(self) -> str:
        return f"<guest in mode {self.mode}>"

    @shown_at_caller
    def put(self, source: str | Path, target: str) -> None:
        """Copy a file or folder into the guest, with its permissions.

        `target` is the path of the copy, relative to the file system under test. A copy outside is made again
        after a crash. InfraError if the target has no room or is not writable.
        """
        path = str(PurePosixPath(FOLDER, target))
        if not Path(source).exists():
            raise UsageError(f"put: {source} does not exist")
        copy_in(self._machine, Path(source), path)
        if not path.startswith(f"{FOLDER}/"):
            self._brought.append((Path(source), path))

    @shown_at_caller
    def run(self, command: str, timeout: float = _COMMAND_S) -> str:
        """Run a command to its end; return its standard output, which must be less than 16 MiB.

        It has ended when its output is closed, so a daemon needs its output redirected. CommandFailed if its
        status is not 0; CommandTimeout if it does not end in `timeout` seconds: then it is killed, with all
        that keeps its output open. InfraError if the guest does not answer.
        """
        output = self._execute(command, command, timeout=timeout)
        if len(output) >= MAX_OUTPUT:
            raise UsageError(f"{command}: output of {MAX_OUTPUT >> 20} MiB or more; write it to a file")
        return output.decode("utf-8", "replace")

    @shown_at_caller
    def read(self, path: str) -> bytes:
        """Return the content of a file of any size; CommandFailed if it cannot be read."""
        pieces: list[bytes] = []
        while not pieces or len(pieces[-1]) == _PIECE:
            pieces.append(self._execute(f"read {path}", _READ, path, _PIECE, len(pieces)))
        return b"".join(pieces)

    @shown_at_caller
    def start(self, command: str) -> Program:
        """Start a command and follow its output while it runs; UsageError if another one still runs."""
        if self._program:
            if self._program.result() is None:
                raise UsageError(f"{command}: {self._program.command} still runs; only one can be followed")
            self._program.cut()
        self._program = Program(self._machine, command, FOLDER)
        return self._program

    @shown_at_caller
    def crash_and_recover(self, by: Cause = "reset", production: bool = True) -> RecoveryReport:
        """Crash the guest, reset it with RAM kept, and recover its file cache; return riorecover's report.

        `by` selects a reset without warning, a kernel panic followed by a reset, or a loss of power: a reset
        that disks and an NVDIMM survive, and RAM does not. `power-lines` also takes some of the cache lines
        of the NVDIMM that were not flushed and fenced; the marker must have `power_lines=True`, because the
        emulator watches all stores from the start. Afterwards the production kernel runs again. If recovery
        or that kernel does not come up, the guest is reset once more, as a machine in use would be. A kernel
        that did not come up is a warning. So is damage that memory says of itself (the report's `damage`),
        and a file system that had to be repaired, or whose check left errors (its `trouble`). With
        `production=False` stage 0 keeps running, which saves a boot, but has little memory and cannot be
        crashed. RecoveryFailed if the file system cannot be mounted, or if only memory holds
        what could not be restored.
        """
        if by not in get_args(Cause):
            raise UsageError(f"crash by {by!r}: there are {', '.join(get_args(Cause))}")
        if by.startswith("power") and (by == "power-lines") != self._guest.setup.loses_lines:
            raise UsageError(f"crash by {by!r}: a guest with power_lines=True has power-lines, others power")
        if not self._production:
            raise UsageError("the guest is in stage 0, whose crash says nothing: leave out production=False")
        if by == "panic":
            self._panic()
        self._production = False
        report = self._recover(f"until the {by}", power_lost=by.startswith("power"))
        if self._program:
            self._program.cut()
            self._program = None
        if report.mount_error:
            why = "; ".join(filter(None, (str(report.mount_error), report.trouble)))
            raise RecoveryFailed(f"after the {by} the file system cannot be mounted: {why}")
        if report.incomplete:
            raise RecoveryFailed(f"after the {by}: {report.incomplete}")
        for told in filter(None, (report.damage, report.trouble)):
            warnings.warn(f"after the {by}: {told}", stacklevel=2)
        if production:
            self._restart_production()
            self._production = True
        self._furnish()
        return report

    def begin(self) -> None:
        """Start a new test with an empty file system, from the snapshot or from power-on."""
        self._program, self._brought, self._logs = None, [], []
        self._guest.ready()
        self._production = True
        self._furnish()

    def rest(self) -> None:
        """Pause the guest until the next test, whatever still runs in it."""
        if self._machine.alive():
            self._machine.pause()

    def end(self) -> None:
        """Power off and remove the guest's files."""
        self._guest.discard()
        shutil.rmtree(self._machine.config.folder, ignore_errors=True)

    def logs(self) -> list[tuple[str, str]]:
        """Return name and last lines of each part of the console, in order."""
        parts = [*self._logs, ("now", self._machine.console.text())]
        return [(name, "\n".join(clean(text).splitlines()[-_TAIL:])) for name, text in parts if text]

    def _execute(self, name: str, script: str, *arguments: str | int, timeout: float = _COMMAND_S) -> bytes:
        begin = f"readlink /proc/$$/fd/1 /proc/$$/fd/2 >{_PIPES}\n{enter(FOLDER)}"
        argv = ["/usr/bin/setsid", "/bin/sh", "-c", f"{begin}\n{script}", "sh", *map(str, arguments)]
        try:
            pid = self._machine.spawn(argv)
            result = self._end_of(pid, timeout)
            if not result:
                raise CommandTimeout(name, timeout, self._kill(pid))
        except AgentLost as error:
            if crash := recognise(self._machine.console.text()):
                raise InfraError(f"{name}: the guest's kernel crashed: {crash.title}") from None
            # The next command must not take a late answer for its own.
            self._machine.agent_answers(_SYNC_S)
            raise AgentLost(f"{name}: {error}") from None
        if result.status:
            raise CommandFailed(name, result)
        return result.stdout

    def _end_of(self, pid: int, timeout: float) -> ExecResult | None:
        """Return how a command ended, None if it has not after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while not (result := self._machine.status(pid)) and time.monotonic() <= deadline:
            time.sleep(_POLL_S)
        return result

    def _kill(self, pid: int) -> ExecResult | None:
        """Kill a command; return what it printed, None if the kernel does not end it."""
        deadline = time.monotonic() + _KILL_S
        result = None
        while not result and time.monotonic() <= deadline:
            # Again: what is killed may have started another process meanwhile.
            self._machine.run(["/bin/sh", "-c", _KILL, "sh", str(pid), _PIPES])
            time.sleep(_POLL_S)
            result = self._machine.status(pid, timeout=_KILL_S)
        return result

    def _furnish(self) -> None:
        """Restore what is not on the disk under test and therefore lost at each boot."""
        if self._machine.config.workload_image:
            self._execute("packages", MOUNT)
        for source, path in self._brought:
            copy_in(self._machine, source, path)

    def _panic(self) -> None:
        self._machine.spawn(["/bin/sh", "-c", "echo c >/proc/sysrq-trigger"])
        deadline = time.monotonic() + _PANIC_S
        while not ended(self._machine.console.text()):
            if time.monotonic() > deadline:
                raise InfraError(f"no panic within {_PANIC_S:.0f} s of asking the kernel for one")
            time.sleep(_POLL_S)

    def _recover(self, log: str, power_lost: bool = False) -> RecoveryReport:
        """Reset until recovery succeeds, as campaigns do; `log` names the console's part before it.

        With `power_lost` the first reset is a loss of power.
        """
        for left in reversed(range(RECOVERY_TRIES)):
            self._close_log(log)
            if power_lost:
                self._machine.power_loss(_NOISE_SEED)
            else:
                self._machine.reset()
            power_lost = False
            try:
                wait_stage0(self._machine)
                return read_recovery(self._guest)
            except (BootError, AgentLost):
                if not left or self._machine.failure():
                    raise
            log = "recovery, failed"
        raise AssertionError("the last try returns or raises")

    def _restart_production(self) -> None:
        self._close_log("recovery")
        try:
            boot_production(self._machine)
        except (BootError, AgentLost) as error:
            if self._machine.failure():
                raise
            warnings.warn(f"reset once more: the production kernel did not come up: {error}", stacklevel=2)
            # All is on the disk by now.
            self._recover("production, not up")
            self._close_log("recovery")
            boot_production(self._machine)

    def _close_log(self, name: str) -> None:
        self._logs.append((name, self._machine.console.text()))
        self._machine.console.clear()
