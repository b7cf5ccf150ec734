# SPDX-License-Identifier: Apache-2.0
"""The header: which registries are believed, which copy of two, and what is said of the others."""

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from registry_image import (
    ENTRY,
    LOG_PAGES,
    LOG_START,
    OTHER_DEV,
    PAGE,
    RAM_PAGES,
    RECOVERED,
    SIZE,
    START,
    UUID,
    Header,
    Ram,
    flip,
    metadata,
)
from riorecover_helper import Riorecover, checked, counts, registry_options

GOOD = Header()


def verdict(riorecover: Riorecover, ram: Ram, disk: Path) -> tuple[str, str]:
    """The word in the report and what was said on standard error; of what is not believed nothing is read."""
    result = riorecover("inspect", *registry_options(ram), "--device", disk)
    assert result.returncode == 0, result.stderr
    report = checked(json.loads(result.stdout))
    if report["registry"] != "recovered":
        assert (report["entries"]["entries"], result.stderr.count("\n")) == (0, 1)
    return report["registry"], result.stderr


def test_both_copies_whole(riorecover: Riorecover, ram: Ram, disk: Path) -> None:
    ram.valid().entry(100, metadata(1000))
    assert verdict(riorecover, ram, disk) == ("recovered", "")
    report = riorecover.inspect(ram, disk)
    assert report["header_damaged"] == 0 and counts(report) == {"dirty_metadata": 1}


def test_the_report_says_which_boot_it_is_of(riorecover: Riorecover, ram: Ram, disk: Path) -> None:
    assert riorecover.inspect(ram.valid(), disk)["boot_id"] == "1122334455667788"
    assert riorecover.inspect(ram.valid(boot_id=7, phase=RECOVERED), disk)["boot_id"] == "0000000000000007"
    # One that is not believed is of none.
    assert riorecover.inspect(ram.valid(version=2), disk)["boot_id"] is None


@pytest.mark.parametrize("damaged", [0, 1])
@pytest.mark.parametrize("older", [0, 1])
def test_one_damaged_copy_does_no_harm_and_is_told(
    riorecover: Riorecover, ram: Ram, disk: Path, damaged: int, older: int
) -> None:
    copies = [GOOD.newer().pack(), GOOD.newer().pack()]
    copies[older] = GOOD.pack()
    ram.entry(100, metadata(1000))
    for bad in (flip(copies[damaged], 77), bytes(len(copies[damaged]))):
        copies[damaged] = bad
        word, said = verdict(riorecover, ram.headers(*copies), disk)
        assert word == "recovered" and "damaged" in said
        report = riorecover.inspect(ram, disk)
        assert report["header_damaged"] == 1 and counts(report) == {"dirty_metadata": 1}


def test_two_damaged_copies_are_named(riorecover: Riorecover, ram: Ram, disk: Path) -> None:
    ram.headers(b"\0" + GOOD.pack()[1:], flip(GOOD.pack(), 300)).entry(100, metadata(1000))
    word, said = verdict(riorecover, ram, disk)
    assert word == "damaged"
    assert "wrong magic number; wrong checksum" in said and f"{START:#x}" in said


@pytest.mark.parametrize("seq", [1, 0x7FFFFFFE, 0x7FFFFFFF, 0xFFFFFFFE, 0xFFFFFFFF])
@pytest.mark.parametrize("newest", [0, 1])
def test_newer_copy_holds(riorecover: Riorecover, ram: Ram, disk: Path, seq: int, newest: int) -> None:
    older = replace(GOOD, seq=seq)
    copies = [older, older]
    copies[newest] = older.newer(phase=RECOVERED)
    ram.headers(*(copy.pack() for copy in copies))
    assert verdict(riorecover, ram, disk)[0] == "cold"
    copies = [older.newer(), older.newer()]
    copies[1 - newest] = replace(older, phase=RECOVERED)
    ram.headers(*(copy.pack() for copy in copies))
    assert verdict(riorecover, ram, disk)[0] == "recovered"


IMPOSSIBLE = {
    "magic": [0x4745524F4953],
    "version": [3, 5],
    "flags": [3, 1 << 31],
    "start": [START + PAGE],
    "size": [SIZE + PAGE, PAGE - 1],
    "nr_entries": [RAM_PAGES + LOG_PAGES * PAGE // ENTRY + 1, 2**64 - 1, 2**59 + 1],  # the last one wraps
    "log_start": [LOG_START + 8, LOG_START - PAGE, LOG_START + PAGE, 0, 2**64 - PAGE],
    "nr_log_pages": [LOG_PAGES + 1, 2**32 - 1],
    "phase": [4, 0],
    "nr_fs": [5],
}


@pytest.mark.parametrize(
    ("part", "value"), [(k, value) for k, values in IMPOSSIBLE.items() for value in values]
)
def test_whole_but_impossible(riorecover: Riorecover, ram: Ram, disk: Path, part: str, value: int) -> None:
    ram.valid(**{part: value}).entry(100, metadata(1000))
    assert verdict(riorecover, ram, disk)[0] == "damaged"


def test_nothing_to_recover(riorecover: Riorecover, ram: Ram, disk: Path) -> None:
    ram.valid(phase=RECOVERED).entry(100, metadata(1000))
    word, said = verdict(riorecover, ram, disk)
    assert word == "cold" and "cold start" in said
    for listed in ((), ((0, UUID),), ((OTHER_DEV, UUID[::-1], RECOVERED),)):
        word, said = verdict(riorecover, ram.valid(file_systems=listed), disk)
        assert word == "cold" and str(disk) in said


def test_memory_that_is_refused_is_not_taken_for_empty(riorecover: Riorecover, ram: Ram, disk: Path) -> None:
    # It cannot be mapped, as /dev/mem where the kernel has its own RAM.
    options = [*registry_options(ram)[:-1], "/dev/null"]
    result = riorecover("inspect", *options, "--device", disk)
    assert result.returncode == 1 and "cannot be read" in result.stderr


def test_disk_is_found_by_its_uuid(riorecover: Riorecover, ram: Ram, disk: Path) -> None:
    ram.valid(file_systems=((7, bytes(16)), (0, UUID), (8, UUID[::-1]), (OTHER_DEV, UUID)))
    ram.entry(100, metadata(1000))
    ram.entry(101, metadata(1001, dev=OTHER_DEV))
    assert counts(riorecover.inspect(ram, disk)) == {"dirty_metadata": 1, "foreign": 1}


def test_any_flipped_bit_is_noticed(riorecover: Riorecover, ram: Ram, disk: Path) -> None:
    ram.entry(100, metadata(1000))
    rng = random.Random(1)
    for bit in rng.sample(range(8 * len(GOOD.pack())), 100):
        ram.headers(flip(GOOD.pack(), bit), bytes(len(GOOD.pack())))
        assert verdict(riorecover, ram, disk)[0] == "damaged", bit
