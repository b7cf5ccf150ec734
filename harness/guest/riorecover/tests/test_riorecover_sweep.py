# SPDX-License-Identifier: Apache-2.0
"""A reset at any write to the disk in a recovery: the next one loses nothing, whether it is listed or not.

The writes of a whole recovery are logged, with the states of the registry between them. A crash point is
the disk with some of these writes, the first ones, and a registry of that time. Needs root and FUSE.
"""

import os
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from registry_image import (
    LOG_FIRST,
    OTHER_DEV,
    PAGE,
    RAM_PAGES,
    START,
    UUID_TEXT,
    Ram,
    data,
    log_address,
    log_word,
    metadata,
    undo,
)
from riobed.sweep.logged_recovery import log_recovery
from riorecover_helper import Riorecover, build, recovery, run_tool

_NEIGHBOURS = 20
Pages = dict[int, bytes]
# An open operation of another disk, with the number and among the pages that recovery's own gets.
OTHERS = 1
ANOTHER = undo(OTHERS, 1500, 0, b"other", dev=OTHER_DEV, operation=1)


@pytest.fixture(scope="session")
def stepping(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """riorecover that writes down what the registry is after each change of it."""
    return build(tmp_path_factory.mktemp("riorecover-steps"), "riorecover-steps")


@contextmanager
def mounted(image: Path, folder: Path) -> Iterator[Path]:
    device = run_tool("losetup", "-f", "--show", image).strip()
    try:
        run_tool("mount", "-t", "ext4", device, folder)
        yield folder
        run_tool("umount", folder)
    finally:
        run_tool("losetup", "-d", device)


def into_unwritten_blocks(folder: Path) -> dict[str, Pages]:
    """Pages behind what the disk has of a file. They make a tree of extents. Some are neighbours."""
    file = folder / "file"
    file.write_bytes(b"c" * 200 * PAGE)
    run_tool("fallocate", "-o", 200 * PAGE, "-l", 100 * PAGE, file)
    rng = random.Random(1)
    return {"file": {index: rng.randbytes(PAGE) for index in (*range(201, 260, 2), *range(260, 300))}}


def into_files_that_need_no_order(folder: Path) -> dict[str, Pages]:
    """Their extents stay in their inodes, but for those of one, and a file's end is no page's."""
    rng, made = random.Random(3), {}
    for number in range(6):
        file = folder / f"file{number}"
        run_tool("fallocate", "-l", 14 * PAGE + 100, file)
        made[file.name] = {index: rng.randbytes(PAGE) for index in range(15)}
    # Four extents, the last of which is split.
    for index in (2, 5, 8):
        run_tool("fallocate", "-p", "-o", index * PAGE, "-l", PAGE, folder / "file3")
        made["file3"].pop(index)
    made["file3"].pop(12)
    return made


def into_full_blocks_of_extents(folder: Path) -> dict[str, Pages]:
    """So many extents that the pages split the blocks that list them."""
    pieces, file = range(0, 4 * 420, 4), folder / "file"
    run_tool("fallocate", "-l", 4 * 420 * PAGE, file)
    for index in pieces:
        run_tool("fallocate", "-p", "-o", index * PAGE, "-l", PAGE, file)
    with file.open("r+b") as opened:
        for index in pieces[::10]:
            opened.seek((index + 1) * PAGE)
            opened.write(b"c" * PAGE)
    rng = random.Random(2)
    return {"file": {index + 2: rng.randbytes(PAGE) for index in pieces}}


@dataclass
class Crashed:
    """The disk and the memory of a crash, the pages in it, and what the files must be after a recovery."""

    disk: Path
    ram: Ram
    memory: bytes
    pages: frozenset[bytes]
    files: dict[str, bytes]


def crashed(folder: Path, make: Callable[[Path], dict[str, Pages]], listed: bool) -> Crashed:
    disk, mount, ram = folder / "disk", folder / "mount", Ram(folder / "ram")
    mount.mkdir()
    options = ["-b", 4096, "-O", "^has_journal,^metadata_csum,^uninit_bg", "-U", UUID_TEXT]
    run_tool("mke2fs", "-q", "-F", "-t", "ext4", *options, disk, "32M")
    with mounted(disk, mount):
        for number in range(_NEIGHBOURS):
            (mount / f"neighbour{number}").write_bytes(bytes([number]) * 9000)
        made = make(mount)
    with mounted(disk, mount):
        files = {path.name: path.read_bytes() for path in mount.iterdir() if path.is_file()}
        inos = {name: (mount / name).stat().st_ino for name in made}
    frames = iter(range(1024, RAM_PAGES))
    ram.valid()
    for name, pages in made.items():
        words = run_tool("debugfs", "-R", f"stat {name}", disk).split()
        generation, size = int(words[words.index("Generation:") + 1]), len(files[name])
        whole = bytearray(files[name])
        for index, content in pages.items():
            whole[index * PAGE : (index + 1) * PAGE] = content
            ram.entry(next(frames), data(inos[name], index, generation), content)
        files[name] = bytes(whole[:size])
    ram.log_page(OTHERS, ANOTHER, operation=1)
    if listed:
        ino = next(iter(inos.values()))
        block = int(run_tool("debugfs", "-R", f"imap <{ino}>", disk).split("at block ")[1].split(",")[0])
        content = disk.read_bytes()[block * PAGE : (block + 1) * PAGE]
        ram.entry(next(frames), metadata(block), content)
    contents = frozenset(content for pages in made.values() for content in pages.values())
    return Crashed(disk, ram, ram.path.read_bytes(), contents, files)


@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.extended), 31])
@pytest.mark.parametrize(
    ("make", "listed"),
    [
        pytest.param(into_unwritten_blocks, False, id="into_unwritten_blocks-inode-clean"),
        pytest.param(into_unwritten_blocks, True, id="into_unwritten_blocks-inode-listed"),
        pytest.param(into_files_that_need_no_order, False, id="into_files_that_need_no_order"),
        pytest.param(
            into_full_blocks_of_extents,
            False,
            id="into_full_blocks_of_extents-inode-clean",
            marks=pytest.mark.extended,
        ),
        pytest.param(into_full_blocks_of_extents, True, id="into_full_blocks_of_extents-inode-listed"),
    ],
)
def test_a_reset_at_any_write(
    riorecover: Riorecover,
    stepping: Path,
    tmp_path: Path,
    make: Callable[[Path], dict[str, Pages]],
    listed: bool,
    every: int,
) -> None:
    if os.geteuid() or not Path("/dev/fuse").exists():
        pytest.skip("this host lacks root or FUSE")
    state = crashed(tmp_path, make, listed)
    logged = Path(shutil.copy(state.disk, tmp_path / "logged"))
    whole = log_recovery(
        lambda device: [str(stepping), *map(str, recovery(state.ram, device, tmp_path / "mount"))],
        logged,
        tmp_path / "mount",
        tmp_path,
    )
    assert len(whole.log.writes) > 20 and len(whole.registries) > 3
    disk, image = bytearray(state.disk.read_bytes()), tmp_path / "image"
    for number in range(len(whole.log.writes) + 1):
        if number:
            write = whole.log.writes[number - 1]
            disk[write.offset : write.offset + len(write.data)] = write.data
            # After each write of metadata, and some of data
            if number % every and write.data in state.pages:
                continue
        for registry in whole.at(number, state.memory[START : START + len(whole.registries[0][1])]):
            image.write_bytes(disk)
            state.ram.path.write_bytes(state.memory)
            state.ram.put(START, registry)
            assert found(riorecover, state, image, tmp_path / "mount") == state.files, number


def found(riorecover: Riorecover, state: Crashed, image: Path, mount: Path) -> dict[str, bytes]:
    """The files after a recovery; e2fsck finds nothing to repair then."""
    device = Path(run_tool("losetup", "-f", "--show", image).strip())
    try:
        riorecover.recover(state.ram, device, mount)
        files = {path.name: path.read_bytes() for path in mount.iterdir() if path.is_file()}
        run_tool("umount", mount)
    finally:
        subprocess.run(["umount", mount], capture_output=True)
        run_tool("losetup", "-d", device)
    run_tool("e2fsck", "-fn", image)
    log = state.ram.path.read_bytes()[log_address(OTHERS) :]
    assert log.startswith(log_word(OTHERS, LOG_FIRST, len(ANOTHER), 1) + ANOTHER)
    return files
