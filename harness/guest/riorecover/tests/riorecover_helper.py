# SPDX-License-Identifier: Apache-2.0
"""Running riorecover on images of RAM and of disks."""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from registry_image import PAGE, RAM_PAGES, SIZE, START, Ram

SOURCE = Path(__file__).resolve().parents[1]
# Of the files in `Mounted`.
FILE_SIZE = 2 * PAGE + 100

TOOLS = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
# What a sanitizer found must not look like riorecover's own exit status 1. The search for
# leaks doubles the time of a process; one test is made for it.
_SANITIZE = "exitcode=99:allocator_may_return_null=1:detect_leaks="
CATEGORIES = "free clean dirty_data dirty_metadata rejected inconsistent foreign unreadable"


def tool(name: str) -> str:
    path = shutil.which(name, path=TOOLS)
    assert path, f"{name} is not installed"
    return path


def run_tool(name: str, *arguments: object) -> str:
    command = [tool(name), *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def build(folder: Path, target: str, *variables: str, more: Path | None = None) -> Path:
    """A program made of a copy of the sources, which may have been changed before."""
    for file in [*SOURCE.glob("*.[ch]"), SOURCE / "Makefile", *([more] if more else [])]:
        if not (folder / file.name).exists():
            shutil.copy(file, folder)
    subprocess.run(["make", "-s", "-C", folder, target, *variables], check=True)
    return folder / target


@dataclass
class Mounted:
    """A loop device, and the folder where riorecover mounts it."""

    device: Path
    folder: Path
    image: Path

    def inode(self, name: str) -> tuple[int, int]:
        """Number and generation; the file system must not be mounted."""
        words = run_tool("debugfs", "-R", f"stat {name}", self.image).split()
        return int(words[words.index("Inode:") + 1]), int(words[words.index("Generation:") + 1])

    def unmount(self) -> None:
        """If it is mounted."""
        subprocess.run([tool("umount"), self.folder], capture_output=True)


@dataclass(frozen=True)
class Riorecover:
    program: Path

    def __call__(self, *arguments: object, leaks: bool = False) -> subprocess.CompletedProcess[str]:
        options = _SANITIZE + str(int(leaks))
        result = subprocess.run(
            [self.program, *map(str, arguments)],
            capture_output=True,
            text=True,
            env={**os.environ, "ASAN_OPTIONS": options, "UBSAN_OPTIONS": options},
        )
        assert result.returncode in (0, 1, 2, 3, 4), result.stderr
        return result

    def inspect(self, ram: Ram, disk: Path, **keywords: Any) -> dict[str, Any]:
        result = self("inspect", *registry_options(ram), "--device", disk, **keywords)
        assert result.returncode == 0, result.stderr
        return checked(json.loads(result.stdout))

    def recover(
        self, ram: Ram, disk: Path, mount: Path | None = None, e2fsck: str = "", **more: Path
    ) -> dict[str, Any]:
        """The report; without root, or for a plain file, mounting fails and is reported."""
        result = self(*recovery(ram, disk, mount, e2fsck, **more))
        report = checked(json.loads(result.stdout))
        assert result.returncode == (0 if report["complete"] else 3), result.stderr
        return report


def recovery(ram: Ram, disk: Path, mount: Path | None = None, e2fsck: str = "", **more: Path) -> list[object]:
    """The arguments of a recovery, where nothing can be mounted unless told; `more` are options by name."""
    mount = mount or ram.path.parent
    # As root it really mounts, over whatever is there.
    assert mount.resolve().is_relative_to(ram.path.parent.resolve()), f"{mount} is not the test's own"
    arguments = ["recover", *registry_options(ram), "--device", disk, "--mount", mount]
    arguments += ["--e2fsck", e2fsck or tool("e2fsck")]
    return arguments + [word for key, value in more.items() for word in (f"--{key.replace('_', '-')}", value)]


def registry_options(ram: Ram) -> list[object]:
    return ["--registry", f"{SIZE:#x}@{START:#x}", "--limit", RAM_PAGES * PAGE, "--memory", ram.path]


def checked(report: dict[str, Any]) -> dict[str, Any]:
    """`report`, in which every entry is counted in exactly one category, and every mismatch."""
    entries, checksums = report["entries"], report["checksums"]
    assert sum(entries[name] for name in CATEGORIES.split()) == entries["entries"], entries
    assert len(checksums["mismatches"]) == min(checksums["corrupt"], 64)
    return report


def blocks(disk: bytes) -> list[bytes]:
    return [disk[at : at + PAGE] for at in range(0, len(disk), PAGE)]


def changed_blocks(before: bytes, disk: Path) -> dict[int, bytes]:
    """The blocks of `disk` that are not as they were, by number."""
    pairs = enumerate(zip(blocks(before), blocks(disk.read_bytes()), strict=True))
    return {number: now for number, (old, now) in pairs if now != old}


def counts(report: dict[str, Any]) -> dict[str, int]:
    """The entries that are not simply free, without the zeros."""
    return {
        name: count for name, count in report["entries"].items() if count and name not in ("entries", "free")
    }
