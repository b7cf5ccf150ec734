# SPDX-License-Identifier: Apache-2.0
"""Old memory saved to a disk before anything is restored, and a recovery from there."""

import os
import random
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from registry_image import (
    ENTRY,
    PAGE,
    RAM_PAGES,
    RECOVERED,
    SIZE,
    START,
    STRIDE,
    Ram,
    data,
    entry_address,
    flip,
    metadata,
    phase,
    undo,
)
from riorecover_helper import Mounted, Riorecover, changed_blocks, counts, recovery, run_tool, tool

NO_CHECK = tool("true")
# Header page, entries and log.
REGISTRY_PAGES = SIZE // PAGE
# Header, table, and all pages of `fill`.
NEED = (2 + REGISTRY_PAGES + 20) * PAGE


@pytest.fixture
def save(tmp_path: Path) -> Path:
    path = tmp_path / "save"
    path.write_bytes(bytes(2 << 20))
    return path


def fill(ram: Ram) -> dict[int, bytes]:
    """Metadata of all kinds; what must be on the disk afterwards."""
    rng = random.Random(40)
    expect: dict[int, bytes] = {}
    records: list[bytes] = []
    for number in range(20):
        expect[1000 + number] = content = rng.randbytes(PAGE)
        if number % 2:
            ram.entry(2000 + number, metadata(1000 + number), content)
        else:
            ram.entry(2000 + number, metadata(1000 + number), b"changed" + content[7:])
            records.append(undo(5, 1000 + number, 0, content[:7]))
    ram.log_page(5, *records)
    ram.entry(2200, metadata(1001, state=1), rng.randbytes(PAGE))
    ram.put(entry_address(2202), flip(metadata(1500).pack(2202), 3))
    ram.valid()
    return expect


def lose(ram: Ram) -> None:
    """Memory after the power was off."""
    ram.put(0, bytes(RAM_PAGES * PAGE))


def assert_restored(disk: Path, before: bytes, expect: dict[int, bytes]) -> None:
    assert changed_blocks(before, disk) == expect


def recover(riorecover: Riorecover, ram: Ram, disk: Path, save: Path) -> dict[str, Any]:
    """Without a mount, so that neither registry nor save come to their end."""
    # No folder of that name: what is mounted otherwise would have to be unmounted.
    return riorecover.recover(ram, disk, ram.path.with_name("nowhere"), e2fsck=NO_CHECK, save=save)


@dataclass
class Saved:
    """A crash whose recovery has saved memory; `disk` is restored, `second` still as the crash left it."""

    riorecover: Riorecover
    ram: Ram
    disk: Path
    save: Path

    def __post_init__(self) -> None:
        self.before = self.disk.read_bytes()
        self.second = Path(shutil.copy(self.disk, self.disk.with_name("another")))
        self.expect = fill(self.ram)
        self.report = self.recover(self.disk)
        self.content = self.save.read_bytes()

    def recover(self, disk: Path) -> dict[str, Any]:
        return recover(self.riorecover, self.ram, disk, self.save)

    def assert_restored(self, disk: Path) -> None:
        assert_restored(disk, self.before, self.expect)


@pytest.fixture
def saved(riorecover: Riorecover, ram: Ram, disk: Path, save: Path) -> Saved:
    return Saved(riorecover, ram, disk, save)


def test_without_a_place_for_it(riorecover: Riorecover, ram: Ram, disk: Path) -> None:
    fill(ram)
    report = riorecover.recover(ram, disk, e2fsck=NO_CHECK)
    assert (report["source"], report["saved"]) == ("memory", None)


def test_what_was_saved_is_all_that_is_needed(saved: Saved) -> None:
    report = saved.report
    # One table page, and 20 dirty pages.
    pages = {"pages": REGISTRY_PAGES + 20, "bytes": NEED, "refused": 0, "error": None}
    assert (report["source"], report["saved"]) == ("memory", pages)
    assert counts(report)["rejected"] == 1 and phase(saved.ram) != RECOVERED
    saved.assert_restored(saved.disk)

    lose(saved.ram)
    again = saved.recover(saved.second)
    assert (again["registry"], again["source"]) == ("recovered", "save")
    for part in ("entries", "log", "metadata"):
        assert again[part] == report[part]
    assert again["saved"] == {"pages": 0, "bytes": 0, "refused": 0, "error": None}
    saved.assert_restored(saved.second)


def test_a_registry_that_is_damaged(saved: Saved) -> None:
    for copy_at in (0, STRIDE):
        saved.ram.put(START + copy_at + 9, b"\xff")
    assert saved.recover(saved.second)["source"] == "save"
    saved.assert_restored(saved.second)


def test_memory_comes_before_the_save(saved: Saved) -> None:
    """And the save of this crash is kept as it is."""
    saved.expect[1001] = b"m" * PAGE
    saved.ram.put(2001 * PAGE, saved.expect[1001])
    again = saved.recover(saved.disk)
    assert again["source"] == "memory" and again["saved"] == saved.report["saved"]
    assert saved.save.read_bytes() == saved.content
    saved.assert_restored(saved.disk)


def test_a_later_crash_overwrites_the_save(saved: Saved) -> None:
    lose(saved.ram)
    saved.ram.valid(boot_id=7)
    report = saved.recover(saved.disk)
    assert report["source"] == "memory" and report["saved"]["pages"] == REGISTRY_PAGES
    assert saved.save.read_bytes() != saved.content


def test_a_recovered_registry_ends_the_save(saved: Saved) -> None:
    """It is of this crash, or of a later one."""
    saved.ram.valid(phase=RECOVERED)
    assert saved.recover(saved.second)["registry"] == "cold"
    lose(saved.ram)
    report = saved.recover(saved.second)
    assert (report["registry"], report["source"]) == ("cold", "memory")
    assert saved.second.read_bytes() == saved.before


def test_a_save_of_another_file_system(saved: Saved) -> None:
    """It has blocks that this disk has not; without them it might be this one with a new UUID."""
    run_tool("mke2fs", "-q", "-F", "-t", "ext4", "-b", 4096, saved.second, "4000k")
    os.truncate(saved.second, 4000 << 10)
    before = saved.second.read_bytes()
    lose(saved.ram)
    assert saved.recover(saved.second)["registry"] == "cold"
    assert saved.second.read_bytes() == before


@pytest.mark.parametrize("size", [0, 100, PAGE, NEED - 1])
def test_too_small(riorecover: Riorecover, ram: Ram, disk: Path, save: Path, size: int) -> None:
    before, expect = disk.read_bytes(), fill(ram)
    os.truncate(save, size)
    result = riorecover(*recovery(ram, disk, ram.path.with_name("nowhere"), NO_CHECK, save=save))
    assert result.returncode == 3 and str(save) in result.stderr
    line = next(line for line in result.stderr.splitlines() if "not saved" in line)
    assert f"too small: {NEED} bytes needed, {size} there" in line
    assert_restored(disk, before, expect)
    assert save.read_bytes() == bytes(size)


@pytest.mark.parametrize("place", ["nothing", "/dev/full"])
def test_a_disk_that_cannot_be_used(riorecover: Riorecover, ram: Ram, disk: Path, place: str) -> None:
    before, expect = disk.read_bytes(), fill(ram)
    report = recover(riorecover, ram, disk, disk.with_name(place) if place == "nothing" else Path(place))
    assert report["saved"]["pages"] == 0 and report["saved"]["error"]
    assert_restored(disk, before, expect)


def test_damaged_pages_are_refused_one_by_one(saved: Saved) -> None:
    content = saved.content
    for block in (1003, 1004):
        at = content.index(saved.expect.pop(block)[7:]) - 7
        content = content[:at] + flip(content[at : at + PAGE], 99) + content[at + PAGE :]
    # And one of the registry's: entries of page frames that nobody uses.
    at = (2 + 10) * PAGE
    saved.save.write_bytes(flip(content, 8 * at))
    lose(saved.ram)
    report = saved.recover(saved.second)
    assert (report["source"], report["saved"]["refused"]) == ("save", 3)
    assert report["entries"]["unreadable"] == 2 + PAGE // ENTRY
    # One of them has bytes to be put back, but not into what the disk has.
    assert report["metadata"] == {"written": 18, "failed": 2}
    saved.assert_restored(saved.second)


def test_a_damaged_save_is_none(saved: Saved) -> None:
    """Any bit of its header or of its table; or it is cut off, or the production kernel made it swap."""
    lose(saved.ram)
    rng = random.Random(41)
    table = (REGISTRY_PAGES + 20) * 16
    bits = [*rng.sample(range(48 * 8), 30), *rng.sample(range(PAGE * 8), 10)]
    bits += [PAGE * 8 + bit for bit in rng.sample(range(table * 8), 30)]
    for damaged in (
        *(flip(saved.content, bit) for bit in bits),
        *(saved.content[:size] for size in (0, 1, PAGE, PAGE + table, 3 * PAGE)),
    ):
        saved.save.write_bytes(damaged)
        assert saved.recover(saved.second)["registry"] == "cold"
    saved.save.write_bytes(saved.content)
    run_tool("mkswap", saved.save)
    assert saved.recover(saved.second)["registry"] == "cold"
    assert saved.second.read_bytes() == saved.before


def test_a_complete_recovery_ends_the_save(
    riorecover: Riorecover, ram: Ram, loop: Mounted, save: Path
) -> None:
    ino = loop.inode("/file")[0]
    ram.valid().entry(2000, data(ino, 0), b"n" * PAGE)
    for source in ("memory", "save"):
        if source == "save":
            # As a recovery leaves it that is cut short before its end.
            ram.valid()
            recover(riorecover, ram, loop.device, save)
            lose(ram)
        report = riorecover.recover(ram, loop.device, loop.folder, save=save)
        assert report["source"] == source and report["data"]["pages"] == 1
        (loop.folder / "file").write_bytes(b"later")
        loop.unmount()
        lose(ram)
        report = riorecover.recover(ram, loop.device, loop.folder, save=save)
        assert report["registry"] == "cold"
        assert (loop.folder / "file").read_bytes() == b"later"
        loop.unmount()
        ram.valid().entry(2000, data(ino, 0), b"n" * PAGE)
