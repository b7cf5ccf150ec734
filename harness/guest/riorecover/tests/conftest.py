# SPDX-License-Identifier: Apache-2.0
"""riorecover built with the sanitizers, an image of RAM and an ext4 disk."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from registry_image import UUID_TEXT, Ram
from riorecover_helper import FILE_SIZE, Mounted, Riorecover, build, run_tool, tool


@pytest.fixture(scope="session")
def riorecover(tmp_path_factory: pytest.TempPathFactory) -> Riorecover:
    return Riorecover(build(tmp_path_factory.mktemp("riorecover-build"), "riorecover-sanitize"))


@pytest.fixture(scope="session")
def fresh_disk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """8 MiB of ext4, made as for the cache modes with a registry; not to be changed."""
    disk = tmp_path_factory.mktemp("riorecover-disk") / "disk"
    options = ["-b", 4096, "-O", "^has_journal,^metadata_csum,^uninit_bg", "-U", UUID_TEXT]
    run_tool("mke2fs", "-q", "-F", "-t", "ext4", *options, disk, "8M")
    return disk


@pytest.fixture
def disk(fresh_disk: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(fresh_disk, tmp_path / "disk"))


@pytest.fixture
def ram(tmp_path: Path) -> Ram:
    return Ram(tmp_path / "ram")


@pytest.fixture
def loop(disk: Path, tmp_path: Path) -> Iterator[Mounted]:
    if os.geteuid():
        pytest.skip("needs root")
    folder, content = tmp_path / "mount", tmp_path / "content"
    folder.mkdir()
    content.write_bytes(b"o" * FILE_SIZE)
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
    mounted = Mounted(device, folder, disk)
    yield mounted
    mounted.unmount()
    run_tool("losetup", "-d", device)
