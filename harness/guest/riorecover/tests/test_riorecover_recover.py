# SPDX-License-Identifier: Apache-2.0
"""Recovery up to the mount, which needs root: metadata reaches its blocks, and nothing else is touched."""

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from registry_image import (
    CLEAN,
    DEV,
    FREE,
    OTHER_DEV,
    PAGE,
    RAM_PAGES,
    RECOVERED,
    SIZE,
    START,
    UUID,
    UUID_TEXT,
    Entry,
    Ram,
    data,
    entry_address,
    flip,
    metadata,
)
from riorecover_helper import Riorecover, changed_blocks, counts, registry_options, run_tool, tool

# e2fsck writes too; where each byte counts, the check of the file system is one that does not.
NO_CHECK = tool("true")
# Page frames that hold neither the registry nor its header.
FRAMES = range(1024, RAM_PAGES)


def assert_not_mounted(report: dict[str, Any]) -> None:
    assert report["mount_error"] > 0
    assert report["data"] == dict.fromkeys(report["data"], 0)


def test_a_changed_file_system_comes_back(
    riorecover: Riorecover, ram: Ram, disk: Path, tmp_path: Path
) -> None:
    """What was done to the file system in memory only is on the disk, and e2fsck finds no fault in it."""
    later = Path(shutil.copy(disk, tmp_path / "later"))
    script = tmp_path / "script"
    lines = [f"mkdir /d{number}" for number in range(40)] + ["symlink /d1/s " + "x" * 200]
    script.write_text("\n".join(lines) + "\n")
    run_tool("debugfs", "-w", "-f", script, later)
    dirty = changed_blocks(disk.read_bytes(), later)
    assert len(dirty) > 40
    frames = random.Random(6).sample(FRAMES, len(dirty))
    for pfn, (block, content) in zip(frames, dirty.items(), strict=True):
        ram.entry(pfn, metadata(block), content)
    memory = ram.valid().path.read_bytes()

    report = riorecover.recover(ram, disk)
    assert report["registry"] == "recovered" and report["e2fsck_status"] == 0
    assert report["metadata"] == {"written": len(dirty), "failed": 0}
    # e2fsck notes in the superblock when it ran.
    assert list(changed_blocks(later.read_bytes(), disk)) in ([], [0])
    assert_not_mounted(report)
    assert ram.path.read_bytes() == memory, "without its data the registry must stay valid"


def scatter(ram: Ram, rng: random.Random) -> dict[int, bytes]:
    """Dirty metadata among entries that must not be followed; what must be on the disk."""
    expect = {}
    for number, pfn in enumerate(rng.sample(FRAMES, 300)):
        block, content = number + 1000, rng.randbytes(PAGE)
        if number % 6 == 5:
            ram.put(entry_address(pfn), flip(metadata(block).pack(pfn), rng.randrange(256)))
            continue
        followed = metadata(block)
        others = [metadata(block, state=CLEAN), metadata(block, dev=OTHER_DEV)]
        entries = [followed, *others, Entry(state=FREE, index=block), data(12, block)]
        ram.entry(pfn, entries[number % 6], content)
        if entries[number % 6] is followed:
            expect[block] = content
    return expect


def test_only_listed_blocks_are_written(riorecover: Riorecover, ram: Ram, disk: Path) -> None:
    before = disk.read_bytes()
    expect = scatter(ram.valid(), random.Random(7))
    report = riorecover.recover(ram, disk, e2fsck=NO_CHECK)
    assert counts(report)["rejected"] == 50
    assert report["metadata"] == {"written": len(expect), "failed": 0}
    assert changed_blocks(before, disk) == expect
    assert_not_mounted(report)


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A disk with a backup of its superblock, in block 32768."""
    options = ["-b", 4096, "-O", "^has_journal", "-U", UUID_TEXT]
    run_tool("mke2fs", "-q", "-F", "-t", "ext4", *options, tmp_path / "large", "200M")
    return tmp_path / "large"


def put(disk: Path, at: int, content: bytes) -> bytes:
    """What was there."""
    with disk.open("r+b") as file:
        file.seek(at)
        before = file.read(len(content))
        file.seek(at)
        file.write(content)
    return before


def test_superblock_comes_from_memory(riorecover: Riorecover, ram: Ram, large: Path, tmp_path: Path) -> None:
    """Whatever the disk has in its first block."""
    later = Path(shutil.copy(large, tmp_path / "later"))
    run_tool("tune2fs", "-L", "from-memory", later)
    ram.valid().entry(2000, metadata(0), put(later, 0, bytes(PAGE)))
    superblock = put(large, 0, bytes(PAGE))
    for content, match in ((superblock, "uuid"), (bytes(PAGE), "only")):
        put(large, 0, content)
        report = riorecover.recover(ram, large)
        assert (report["registry"], report["matched_by"]) == ("recovered", match)
        assert "from-memory" in run_tool("dumpe2fs", "-h", large)


def matched(riorecover: Riorecover, ram: Ram, disk: Path) -> str | None:
    """How the disk was found in the registry; if it was not, no entry is for it."""
    result = riorecover("inspect", *registry_options(ram), "--device", disk)
    report = json.loads(result.stdout)
    cold = report["registry"] == "cold", not report["entries"]["entries"], report["matched_by"] is None
    assert len(set(cold)) == 1 and (all(cold) or str(disk) in result.stderr)
    match: str | None = report["matched_by"]
    return match


def test_a_disk_with_a_damaged_superblock(riorecover: Riorecover, ram: Ram, large: Path) -> None:
    """It is taken for the only one that is to be recovered if its backup says so."""
    ram.valid().entry(2000, metadata(1500), b"x" * PAGE)
    superblock = put(large, 0, bytes(PAGE))
    assert matched(riorecover, ram, large) == "only"
    one_of_two = ((DEV, UUID), (OTHER_DEV, UUID[::-1], RECOVERED))
    assert matched(riorecover, ram.valid(file_systems=one_of_two), large) == "only"
    both = ((DEV, UUID), (OTHER_DEV, UUID[::-1]))
    for speaks_against in (both, ((DEV, UUID, RECOVERED),), ((DEV, UUID[::-1]),)):
        assert matched(riorecover, ram.valid(file_systems=speaks_against), large) is None
    ram.valid().entry(2001, metadata(large.stat().st_size // PAGE))
    assert matched(riorecover, ram, large) is None
    ram.entry(2001, metadata(0), superblock)
    assert matched(riorecover, ram, large) == "only"
    put(large, 32768 * PAGE, bytes(PAGE))
    assert matched(riorecover, ram, large) is None


def test_a_disk_below_a_mapping_is_not_written(riorecover: Riorecover, ram: Ram, disk: Path) -> None:
    """With dm-crypt the disk has as many blocks as the file system, and looks like noise."""
    ram.valid().entry(2000, metadata(0), disk.read_bytes()[:PAGE])
    ram.entry(2001, metadata(1500), b"x" * PAGE)
    disk.write_bytes(random.Random(1).randbytes(disk.stat().st_size))
    below = disk.read_bytes()
    report = riorecover.recover(ram, disk)
    assert not changed_blocks(below, disk) and not report["complete"]


def test_another_disk_is_not_taken_for_the_only_file_system(
    riorecover: Riorecover, ram: Ram, disk: Path
) -> None:
    """Only a superblock in memory can tell that it is the same: by the time at which it was made."""
    superblock = bytearray(disk.read_bytes()[:PAGE])
    ram.valid(file_systems=((DEV, UUID[::-1]),)).entry(2001, metadata(1500), b"x" * PAGE)
    assert riorecover.inspect(ram, disk)["matched_by"] is None
    for changed, match in ((0, "only"), (1, None)):
        superblock[1024 + 0x108] ^= changed
        ram.entry(2000, metadata(0), bytes(superblock))
        assert riorecover.inspect(ram, disk)["matched_by"] == match


def only_checked(riorecover: Riorecover, ram: Ram, disk: Path) -> tuple[str, bool]:
    """What a recovery that restores nothing says of the registry, and whether that is all."""
    before = disk.read_bytes()
    report = riorecover.recover(ram, disk)
    assert report["e2fsck_status"] == 0 and report["metadata"]["written"] == 0
    assert set(changed_blocks(before, disk)) <= {0}
    assert_not_mounted(report)
    return report["registry"], report["complete"]


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ({"phase": RECOVERED}, ("cold", True)),
        ({"version": 9}, ("damaged", False)),
        (None, ("damaged", False)),
    ],
)
def test_cold_start_only_checks(
    riorecover: Riorecover, ram: Ram, disk: Path, header: dict[str, Any] | None, found: tuple[str, bool]
) -> None:
    """A header that was overwritten, if only by zeros, has lost what its entries list."""
    if header:
        ram.valid(**header)
    ram.entry(2000, metadata(1500), b"x" * PAGE)
    assert only_checked(riorecover, ram, disk) == found


@pytest.mark.parametrize(("noise", "found"), [(False, ("cold", True)), (True, ("damaged", True))])
def test_memory_that_is_new_or_lost_power_has_nothing_to_recover(
    riorecover: Riorecover, ram: Ram, disk: Path, noise: bool, found: tuple[str, bool]
) -> None:
    ram.put(START, random.Random(45).randbytes(SIZE) if noise else bytes(SIZE))
    assert only_checked(riorecover, ram, disk) == found


def test_wrecked_superblock_is_a_result(riorecover: Riorecover, ram: Ram, disk: Path) -> None:
    with disk.open("r+b") as file:
        file.write(bytes(PAGE))
    report = riorecover.recover(ram.valid(phase=RECOVERED), disk)
    assert report["registry"] == "cold" and report["e2fsck_status"] > 0
    assert_not_mounted(report)


def test_a_superblock_spoiled_by_the_journal_is_taken_from_its_backup(
    riorecover: Riorecover, ram: Ram, tmp_path: Path
) -> None:
    """One run of e2fsck replays the journal and gives up: a mode with a journal must not lose all by that."""
    disk, block, script, log = (tmp_path / name for name in ("disk", "block", "script", "fsck.log"))
    # Blocks of 1 KiB, so that a small disk has a second group, with the backup. Block 1 is the superblock.
    run_tool("mke2fs", "-q", "-F", "-t", "ext4", "-b", 1024, "-O", "metadata_csum", disk, "20M")
    superblock = bytearray(disk.read_bytes()[1024:2048])
    superblock[-1] ^= 0xFF  # the end of its checksum
    block.write_bytes(superblock)
    script.write_text(f"jo\njw -b 1 {block}\njc\n")
    run_tool("debugfs", "-w", "-f", script, disk)

    report = riorecover.recover(ram, disk, fsck_log=log)
    assert report["e2fsck_status"] == 1
    said = log.read_text()
    assert said.index("while trying to re-open") < said.index("trying backup blocks")
    assert "clean" in run_tool("e2fsck", "-n", disk)
