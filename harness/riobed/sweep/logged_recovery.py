# SPDX-License-Identifier: Apache-2.0
"""A whole recovery, with each write to the disk and each state of the registry between them."""

import struct
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from riobed.errors import InfraError
from riobed.sweep.host import PATH, run
from riobed.sweep.logged_disk import Logged, logged

# A file of riorecover's steps.c begins with how long the log was.
_SIZE = struct.Struct("<Q")


@dataclass(frozen=True)
class LoggedRecovery:
    """The writes of a recovery, and each state of the registry with how many bytes the log had then."""

    log: Logged
    registries: list[tuple[int, bytes]]

    def at(self, writes: int, first: bytes) -> list[bytes]:
        """Return the registries that memory may have had after so many writes, and before the next one.

        `first` is the one before recovery.
        """
        since, until = self.log.end(writes), self.log.end(writes + 1)
        before = [first, *(registry for size, registry in self.registries if size < since)][-1:]
        return before + [registry for size, registry in self.registries if since <= size < until]


def log_recovery(
    command: Callable[[Path], list[str]], disk: Path, mount: Path, folder: Path
) -> LoggedRecovery:
    """Recover a disk with riorecover-steps; InfraError if that fails.

    `command` is given the device, and mounts it at `mount`. What it writes goes to `disk`.
    """
    steps, log = folder / "steps", folder / "log"
    steps.mkdir()
    with logged(disk, log) as device:
        env = {"PATH": PATH, "STEPS": str(steps), "LOG": str(log)}
        done = subprocess.run(command(device), capture_output=True, env=env, text=True)
        if done.returncode:
            raise InfraError(f"recovery of {disk}: status {done.returncode}: {done.stderr.strip()[-300:]}")
        run("umount", mount)
    registries = []
    for step in sorted(steps.iterdir()):
        content = step.read_bytes()
        registries.append((_SIZE.unpack_from(content)[0], content[_SIZE.size :]))
    return LoggedRecovery(Logged.read(log), registries)
