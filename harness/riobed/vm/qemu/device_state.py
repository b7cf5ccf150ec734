# SPDX-License-Identifier: Apache-2.0
"""Processors and devices of a QEMU, saved without RAM into a file of their own.

The migration capability x-ignore-shared leaves out RAM that is a shared file (QEMU, migration/ram.c), so a
state takes half a MiB. The jobs snapshot-save and snapshot-load (QEMU's QMP reference) name the disks that
belong to it; HMP's savevm always takes all.
"""

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from riobed.errors import InfraError
from riobed.vm.host.tools import run_tool

_NODE = "riobed-devices"
# A sparse file, with room for some states.
_SIZE = "64M"
_POLL_S = 0.002
_JOB_S = 60.0

Execute = Callable[[str, dict[str, Any]], Any]


class DeviceStates:
    """The states of one QEMU, in a qcow2 image that no guest sees."""

    def __init__(self, execute: Execute, file: Path) -> None:
        """`execute` runs a command of QEMU's machine protocol."""
        self._execute = execute
        self._file = file
        self._added = False
        self._numbers = itertools.count()

    def new_file(self) -> Path:
        """Make the image anew, for a QEMU that is about to start; return its path."""
        self._file.unlink(missing_ok=True)
        run_tool(["qemu-img", "create", "-q", "-f", "qcow2", str(self._file), _SIZE], f"image {self._file}")
        self._added = False
        return self._file

    def save(self, name: str, disks: bool) -> None:
        """Save the state of a paused QEMU; InfraError if that fails."""
        if not self._added:
            file = {"driver": "file", "filename": str(self._file)}
            self._execute("blockdev-add", {"driver": "qcow2", "node-name": _NODE, "file": file})
            self._added = True
        nodes = self._nodes(disks)
        self._job("snapshot-delete", {"tag": name, "devices": nodes})
        with self._without_ram():
            self._job("snapshot-save", {"tag": name, "vmstate": _NODE, "devices": nodes})

    def load(self, name: str, disks: bool) -> None:
        """Load a state into a paused QEMU, which stays paused; InfraError if that fails.

        QEMU then translates all code anew, so RAM may have been changed before.
        """
        with self._without_ram():
            self._job("snapshot-load", {"tag": name, "vmstate": _NODE, "devices": self._nodes(disks)})

    def _nodes(self, disks: bool) -> list[str]:
        if not disks:
            return [_NODE]
        inserted = [block["inserted"] for block in self._execute("query-block", {}) if "inserted" in block]
        return [_NODE, *(disk["node-name"] for disk in inserted if not disk["ro"])]

    @contextmanager
    def _without_ram(self) -> Iterator[None]:
        self._ignore_shared(True)
        try:
            yield
        finally:
            self._ignore_shared(False)

    def _ignore_shared(self, state: bool) -> None:
        capability = {"capability": "x-ignore-shared", "state": state}
        self._execute("migrate-set-capabilities", {"capabilities": [capability]})

    def _job(self, command: str, arguments: dict[str, Any]) -> None:
        name = f"{_NODE}-{next(self._numbers)}"
        self._execute(command, {"job-id": name, **arguments})
        deadline = time.monotonic() + _JOB_S
        while (job := self._query(name))["status"] != "concluded":
            if time.monotonic() > deadline:
                raise InfraError(f"QEMU's {command} took over {_JOB_S:.0f} s")
            time.sleep(_POLL_S)
        self._execute("job-dismiss", {"id": name})
        if "error" in job:
            raise InfraError(f"QEMU's {command}: {job['error']}")

    def _query(self, name: str) -> dict[str, Any]:
        return next(job for job in self._execute("query-jobs", {}) if job["id"] == name)
