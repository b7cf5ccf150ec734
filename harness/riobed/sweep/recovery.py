# SPDX-License-Identifier: Apache-2.0
"""Recovers the memory and the disk of a crash on this host."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from riobed.guest import Layout
from riobed.guest.workload.tree import Tree
from riobed.sweep.host import PATH, run, tool
from riobed.sweep.logged_recovery import LoggedRecovery, log_recovery
from riobed.sweep.memory import Memory
from riobed.sweep.tree import parse_tree

_RECOVERY_S = 300.0


@dataclass(frozen=True)
class Programs:
    """riorecover, the same with a log of its steps, and the program that lists trees, on the host."""

    recover: Path
    steps: Path
    operation: Path


class Damaged(Exception):
    """What e2fsck finds wrong after a recovery."""


class Recovery:
    """Recovers one state after another, in a folder of its own."""

    def __init__(self, programs: Programs, layout: Layout, folder: Path) -> None:
        self._programs = programs
        self._registry = ["--registry", layout.registry, "--limit", str(layout.ram)]
        self._image, self._mount = folder / "image", folder / "mount"
        self._mount.mkdir()

    @contextmanager
    def of(self, memory: Memory, disk: Path) -> Iterator[tuple[Tree | None, str]]:
        """Recover; yield the tree, mounted meanwhile, or None and why there is none."""
        # A new file: the loop device of the one before may still write what it had, when it is detached late.
        self._image.unlink(missing_ok=True)
        run("cp", "--sparse=always", disk, self._image)
        device = Path(run("losetup", "-f", "--show", self._image).decode().strip())
        try:
            with memory.kept():
                report, said = self._recover(memory, device)
            if not report or report.get("mount_error") or not report["complete"]:
                yield None, f"not recovered: {said}"
                return
            yield parse_tree(run(self._programs.operation, "tree", self._mount)), ""
            run("umount", self._mount)
            self._check()
        finally:
            subprocess.run(["umount", self._mount], capture_output=True, env={"PATH": PATH})
            run("losetup", "-d", device)

    def content(self, path: bytes) -> bytes:
        """Return what a file has that is mounted."""
        return Path(os.fsdecode(bytes(self._mount) + path)).read_bytes()

    def log(self, memory: Memory, disk: Path, folder: Path) -> LoggedRecovery:
        """Recover with a log of each step in `folder`; what is written goes to `disk`."""

        def command(device: Path) -> list[str]:
            return self._command(self._programs.steps, memory, device)

        with memory.kept():
            return log_recovery(command, disk, self._mount, folder)

    def _command(self, program: Path, memory: Memory, device: Path) -> list[str]:
        where = {"memory": memory.path, "device": device, "mount": self._mount, "e2fsck": tool("e2fsck")}
        options = [word for name, value in where.items() for word in (f"--{name}", str(value))]
        return [str(program), "recover", *self._registry, *options]

    def _recover(self, memory: Memory, device: Path) -> tuple[dict[str, object] | None, str]:
        command = self._command(self._programs.recover, memory, device)
        done = subprocess.run(
            command, capture_output=True, timeout=_RECOVERY_S, env={"PATH": PATH}, text=True
        )
        said = (done.stderr or done.stdout).strip().replace("\n", "; ")[-300:]
        if done.returncode not in (0, 3):
            return None, f"status {done.returncode}: {said}"
        return json.loads(done.stdout), said

    def _check(self) -> None:
        checked = subprocess.run(["e2fsck", "-fn", self._image], capture_output=True, env={"PATH": PATH})
        if checked.returncode:
            raise Damaged(checked.stdout.decode("utf-8", "replace").strip().replace("\n", "; ")[:300])
