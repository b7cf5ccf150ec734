# SPDX-License-Identifier: Apache-2.0
"""The whole of a recovery on a loop device; needs root and a kernel that mounts ext4."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from riorecover_helper import PAGE, RECOVERED, START, Ram, Riorecover, data, run_tool, tool

SIZE = 2 * PAGE + 100


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


@pytest.fixture
def loop(disk: Path, tmp_path: Path) -> Iterator[Mounted]:
    if os.geteuid():
        pytest.skip("needs root")
    folder, content = tmp_path / "mount", tmp_path / "content"
    folder.mkdir()
    content.write_bytes(b"o" * SIZE)
    for name in ("/file", "/other", "/kept"):
        run_tool("debugfs", "-w", "-R", f"write {content} {name}", disk)
    run_tool("debugfs", "-w", "-R", "set_inode_field /other generation 77", disk)
    made = subprocess.run([tool("losetup"), "-f", "--show", disk], capture_output=True, text=True)
    device = Path(made.stdout.strip())
    probe = [tool("mount"), "-t", "ext4", str(device), str(folder)]
    if made.returncode or subprocess.run(probe, capture_output=True).returncode:
        subprocess.run([tool("losetup"), "-d", device], capture_output=True)
        pytest.skip("needs loop devices and ext4")
    run_tool("umount", folder)
    yield Mounted(device, folder, disk)
    subprocess.run([tool("umount"), folder], capture_output=True)
    run_tool("losetup", "-d", device)


def phase(ram: Ram) -> int:
    """Of the copy of the header with the higher sequence number."""
    memory = ram.path.read_bytes()
    copies = [memory[START + at : START + at + 64] for at in (0, 2048)]
    newest = max(copies, key=lambda copy: int.from_bytes(copy[12:16], "little"))
    return int.from_bytes(newest[56:60], "little")


def test_file_data_comes_back(riorecover: Riorecover, ram: Ram, loop: Mounted) -> None:
    """Right bytes, exact sizes, by inode and generation; then the registry is done with."""
    rng = random.Random(11)
    first, last, lost = (rng.randbytes(PAGE) for _ in range(3))
    ino, generation = loop.inode("/file")
    other, other_generation = loop.inode("/other")
    assert (generation, other_generation) == (0, 77)
    ram.valid()
    ram.entry(2000, data(ino, 0), first)
    ram.entry(2001, data(ino, 2, size=PAGE), last)
    ram.entry(2002, data(ino, 3), lost)
    # The inode decides, not what the entry says of the size.
    ram.entry(2003, data(other, 1, size=7, generation=77), last)
    ram.entry(2004, data(other, 0, generation=78), lost)
    ram.entry(2005, data(1500, 0), lost)
    ram.entry(2006, data(11, 0), lost)  # lost+found: not a file

    report = riorecover.recover(ram, loop.device, loop.folder)
    assert report["mount_error"] == 0
    restored = {"pages": 3, "bytes": PAGE + 100 + PAGE, "files": 2}
    assert report["data"] == {**restored, "lost_inodes": 3, "beyond_size": 1, "failed": 0}
    assert (loop.folder / "file").read_bytes() == first + b"o" * PAGE + last[:100]
    assert (loop.folder / "other").read_bytes() == b"o" * PAGE + last + b"o" * 100
    assert (loop.folder / "kept").read_bytes() == b"o" * SIZE
    assert phase(ram) == RECOVERED

    (loop.folder / "file").write_bytes(b"later")
    run_tool("umount", loop.folder)
    report = riorecover.recover(ram, loop.device, loop.folder)
    assert report["registry"] == "cold"
    assert (loop.folder / "file").read_bytes() == b"later"


def test_registry_stays_while_data_is_missing(riorecover: Riorecover, ram: Ram, loop: Mounted) -> None:
    """A file that refuses its data (immutable) must not cost what only memory holds."""
    content = random.Random(12).randbytes(PAGE)
    ram.valid().entry(2000, data(loop.inode("/file")[0], 0), content)
    run_tool("debugfs", "-w", "-R", "set_inode_field /file flags 0x80010", loop.image)
    report = riorecover.recover(ram, loop.device, loop.folder)
    assert report["data"]["failed"] == 1 and report["data"]["lost_inodes"] == 0
    assert phase(ram) != RECOVERED
    run_tool("chattr", "-i", loop.folder / "file")
    run_tool("umount", loop.folder)
    report = riorecover.recover(ram, loop.device, loop.folder)
    assert report["data"]["pages"] == 1 and phase(ram) == RECOVERED
    assert (loop.folder / "file").read_bytes() == content + b"o" * (SIZE - PAGE)
