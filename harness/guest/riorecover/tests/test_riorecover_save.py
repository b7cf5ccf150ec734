# SPDX-License-Identifier: Apache-2.0
"""Old memory saved to a disk before anything is restored, and a recovery from there."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from riorecover_helper import (
    PAGE,
    RAM_PAGES,
    RECOVERED,
    START,
    STRIDE,
    Mounted,
    Ram,
    Riorecover,
    checked,
    counts,
    data,
    flip,
    metadata,
    phase,
    recovery,
    run_tool,
    tool,
)

NO_CHECK = tool("true")
# The header page and all pairs of the registry.
REGISTRY_PAGES = 1 + RAM_PAGES * 64 // PAGE
SAVE_SIZE = 2 << 20


@pytest.fixture
def save(tmp_path: Path) -> Path:
    path = tmp_path / "save"
    with path.open("wb") as file:
        file.truncate(SAVE_SIZE)
    return path


def fill(ram: Ram) -> dict[int, bytes]:
    """Metadata of all kinds; what must be on the disk afterwards."""
    rng = random.Random(40)
    expect = {}
    for number in range(20):
        expect[1000 + number] = content = rng.randbytes(PAGE)
        if number % 2:
            ram.entry(2000 + number, metadata(1000 + number), content)
        else:
            ram.change(2000 + number, 1000 + number, content, rng.randbytes(PAGE), frame=2100 + number)
    ram.entry(2200, metadata(1001, state=1), rng.randbytes(PAGE))
    ram.pair(2202, bytes(32), flip(metadata(1500).pack(2202), 3))
    ram.valid()
    return expect


def lose(ram: Ram) -> None:
    """Memory after the power was off."""
    ram.put(0, bytes(RAM_PAGES * PAGE))


def assert_restored(disk: Path, before: bytes, expect: dict[int, bytes]) -> None:
    after = disk.read_bytes()
    for block in range(len(before) // PAGE):
        at = slice(block * PAGE, (block + 1) * PAGE)
        assert after[at] == expect.get(block, before[at]), block


def recover(riorecover: Riorecover, ram: Ram, disk: Path, save: Path) -> dict[str, Any]:
    """Without a mount, so that neither registry nor save come to their end."""
    # No folder of that name: what is mounted otherwise would have to be unmounted.
    return riorecover.recover(ram, disk, ram.path.with_name("nowhere"), e2fsck=NO_CHECK, save=save)


def copy(disk: Path) -> Path:
    return Path(shutil.copy(disk, disk.with_name("another")))


def test_without_a_place_for_it(riorecover: Riorecover, ram: Ram, disk: Path, tmp_path: Path) -> None:
    fill(ram)
    report = riorecover.recover(ram, disk, tmp_path, e2fsck=NO_CHECK)
    assert (report["source"], report["saved"]) == ("memory", None)


def test_what_was_saved_is_all_that_is_needed(
    riorecover: Riorecover, ram: Ram, disk: Path, save: Path
) -> None:
    before, second = disk.read_bytes(), copy(disk)
    expect = fill(ram)
    report = recover(riorecover, ram, disk, save)
    assert report["source"] == "memory"
    # One table page, and 20 dirty pages or their shadows.
    saved = {"pages": REGISTRY_PAGES + 20, "bytes": (2 + REGISTRY_PAGES + 20) * PAGE}
    assert report["saved"] == {**saved, "refused": 0, "error": None}
    assert_restored(disk, before, expect)

    lose(ram)
    again = recover(riorecover, ram, second, save)
    assert (again["registry"], again["source"]) == ("recovered", "save")
    assert again["entries"] == report["entries"] and again["metadata"] == report["metadata"]
    assert again["saved"] == {"pages": 0, "bytes": 0, "refused": 0, "error": None}
    assert_restored(second, before, expect)


def test_a_registry_that_is_damaged(riorecover: Riorecover, ram: Ram, disk: Path, save: Path) -> None:
    before, second = disk.read_bytes(), copy(disk)
    expect = fill(ram)
    recover(riorecover, ram, disk, save)
    for copy_at in (0, STRIDE):
        ram.put(START + copy_at + 9, b"\xff")
    assert recover(riorecover, ram, second, save)["source"] == "save"
    assert_restored(second, before, expect)


def test_memory_comes_before_the_save(riorecover: Riorecover, ram: Ram, disk: Path, save: Path) -> None:
    """And the save of this crash is kept as it is."""
    before = disk.read_bytes()
    expect = fill(ram)
    first = recover(riorecover, ram, disk, save)
    content = save.read_bytes()
    expect[1001] = b"m" * PAGE
    ram.put(2001 * PAGE, expect[1001])
    second = recover(riorecover, ram, disk, save)
    assert second["source"] == "memory" and second["saved"] == first["saved"]
    assert save.read_bytes() == content
    assert_restored(disk, before, expect)


def test_a_later_crash_overwrites_the_save(riorecover: Riorecover, ram: Ram, disk: Path, save: Path) -> None:
    fill(ram)
    recover(riorecover, ram, disk, save)
    content = save.read_bytes()
    lose(ram)
    report = recover(riorecover, ram.valid(boot_id=7), disk, save)
    assert report["source"] == "memory" and report["saved"]["pages"] == REGISTRY_PAGES
    assert save.read_bytes() != content


def test_a_recovered_registry_ends_the_save(riorecover: Riorecover, ram: Ram, disk: Path, save: Path) -> None:
    """It is of this crash, or of a later one."""
    fill(ram)
    recover(riorecover, ram, disk, save)
    before = disk.read_bytes()
    ram.valid(phase=RECOVERED)
    assert recover(riorecover, ram, disk, save)["registry"] == "cold"
    lose(ram)
    report = recover(riorecover, ram, disk, save)
    assert (report["registry"], report["source"]) == ("cold", "memory")
    assert disk.read_bytes() == before


def test_a_save_of_another_file_system(riorecover: Riorecover, ram: Ram, disk: Path, save: Path) -> None:
    fill(ram)
    recover(riorecover, ram, disk, save)
    run_tool("tune2fs", "-U", "random", disk)
    before = disk.read_bytes()
    lose(ram)
    assert recover(riorecover, ram, disk, save)["registry"] == "cold"
    assert disk.read_bytes() == before


@pytest.mark.parametrize("size", [0, 100, PAGE, (2 + REGISTRY_PAGES + 20) * PAGE - 1])
def test_too_small(riorecover: Riorecover, ram: Ram, disk: Path, save: Path, size: int) -> None:
    before = disk.read_bytes()
    expect = fill(ram)
    with save.open("r+b") as file:
        file.truncate(size)
    result = riorecover(*recovery(ram, disk, ram.path.with_name("nowhere"), NO_CHECK, save=save))
    assert result.returncode == 0 and str(save) in result.stderr
    need = (2 + REGISTRY_PAGES + 20) * PAGE
    line = next(line for line in result.stderr.splitlines() if "not saved" in line)
    assert f"too small: {need} bytes needed, {size} there" in line
    assert_restored(disk, before, expect)
    assert save.read_bytes() == bytes(size)


def test_no_such_disk(riorecover: Riorecover, ram: Ram, disk: Path, tmp_path: Path) -> None:
    before = disk.read_bytes()
    expect = fill(ram)
    report = recover(riorecover, ram, disk, tmp_path / "nothing")
    assert report["saved"] == {"pages": 0, "bytes": 0, "refused": 0, "error": "No such file or directory"}
    assert_restored(disk, before, expect)


def test_a_disk_that_cannot_be_written(riorecover: Riorecover, ram: Ram, disk: Path) -> None:
    before = disk.read_bytes()
    expect = fill(ram)
    report = recover(riorecover, ram, disk, Path("/dev/full"))
    assert report["saved"]["pages"] == 0 and report["saved"]["error"]
    assert_restored(disk, before, expect)


def test_damaged_pages_are_refused_one_by_one(
    riorecover: Riorecover, ram: Ram, disk: Path, save: Path
) -> None:
    before, second = disk.read_bytes(), copy(disk)
    expect = fill(ram)
    recover(riorecover, ram, disk, save)
    content = save.read_bytes()
    for block in (1003, 1004):
        at = content.index(expect.pop(block))
        content = content[:at] + flip(content[at : at + PAGE], 99) + content[at + PAGE :]
    # And one of the registry's: the pairs of 64 page frames that nobody uses.
    at = (2 + 10) * PAGE
    assert content[at : at + PAGE] == bytes(PAGE)
    save.write_bytes(content[:at] + b"x" + content[at + 1 :])
    lose(ram)
    report = recover(riorecover, ram, second, save)
    assert (report["source"], report["saved"]["refused"]) == ("save", 3)
    assert report["entries"]["unreadable"] == 2 + 64 and report["metadata"]["written"] == 18
    assert_restored(second, before, expect)


def test_a_damaged_save_is_none(riorecover: Riorecover, ram: Ram, disk: Path, save: Path) -> None:
    """Any bit of its header or of its table."""
    fill(ram)
    recover(riorecover, ram, disk, save)
    before, content = disk.read_bytes(), save.read_bytes()
    lose(ram)
    rng = random.Random(41)
    table = (REGISTRY_PAGES + 20) * 16
    bits = [*rng.sample(range(48 * 8), 30), *rng.sample(range(PAGE * 8), 10)]
    bits += [PAGE * 8 + bit for bit in rng.sample(range(table * 8), 30)]
    for bit in bits:
        save.write_bytes(flip(content, bit))
        assert recover(riorecover, ram, disk, save)["registry"] == "cold", bit
    for size in (0, 1, PAGE, PAGE + table, 3 * PAGE):
        save.write_bytes(content[:size])
        assert recover(riorecover, ram, disk, save)["registry"] == "cold", size
    assert disk.read_bytes() == before


def test_swap_ends_a_save(riorecover: Riorecover, ram: Ram, disk: Path, save: Path) -> None:
    """The production kernel makes swap of the disk: what is on it is then of no use."""
    fill(ram)
    recover(riorecover, ram, disk, save)
    lose(ram)
    run_tool("mkswap", save)
    assert recover(riorecover, ram, disk, save)["registry"] == "cold"


def test_damage_all_over(riorecover: Riorecover, ram: Ram, fresh_disk: Path, save: Path) -> None:
    """A block is written as it was or as its shadow, or not at all."""
    rng = random.Random(42)
    disk = Path(shutil.copy(fresh_disk, save.with_name("disk")))
    before = disk.read_bytes()
    expect = fill(ram)
    shadow_of_1001 = ram.path.read_bytes()[2201 * PAGE : 2202 * PAGE]
    recover(riorecover, ram, disk, save)
    content = save.read_bytes()
    lose(ram)
    for _ in range(30):
        damaged = bytearray(content)
        for _ in range(rng.choice([1, 30, 1000])):
            # Its header and table are left alone, or nothing would be written.
            damaged[rng.randrange(2 * PAGE, (2 + REGISTRY_PAGES + 20) * PAGE)] ^= 1 << rng.randrange(8)
        save.write_bytes(damaged)
        shutil.copy(fresh_disk, disk)
        report = recover(riorecover, ram, disk, save)
        after = disk.read_bytes()
        written = 0
        for block in range(len(before) // PAGE):
            now = after[block * PAGE : (block + 1) * PAGE]
            if now != before[block * PAGE : (block + 1) * PAGE]:
                written += 1
                assert now in (expect[block], shadow_of_1001)
        assert report["metadata"] == {"written": written, "failed": 0}


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


def test_counts_are_checked(riorecover: Riorecover, ram: Ram, disk: Path, save: Path) -> None:
    fill(ram)
    report = checked(recover(riorecover, ram, disk, save))
    assert counts(report)["rejected"] == 1 and phase(ram) != RECOVERED
