# SPDX-License-Identifier: Apache-2.0
"""Crash recognition on the logs of campaigns, whole and damaged in every way a console can be."""

import re
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from riobed.crash import formats, frames

CAMPAIGNS = Path(__file__).parent / "data" / "campaigns"
EXPECTED: dict[str, list[str]] = yaml.safe_load((CAMPAIGNS / "campaigns.yaml").read_text())
with tarfile.open(CAMPAIGNS / "campaigns.tar.xz") as archive:
    LOGS = {
        member.name.removesuffix(".log"): file.read()
        for member in archive.getmembers()
        if (file := archive.extractfile(member))
    }
# A report that begins with its cause: of the others the harness asked for the report.
REPORTS = sorted(name for name, (kind, *_) in EXPECTED.items() if kind in ("oops", "panic"))


def title_of(console: bytes) -> str:
    """The title as the watcher makes it: what was asked for names a hang."""
    if where := formats.hung_in(console):
        return f"hang in {where}"
    if b"sysrq: Show Blocked State" in console:
        asked = formats.blocked_in, formats.looping_in
        where = next(filter(frames.UNKNOWN.__ne__, (ask(console) for ask in asked)))
        return f"workload stuck in {where}"
    crash = formats.recognise(console)
    assert crash is not None
    return crash.title


def test_each_log_has_its_expectation_and_there_are_many_kinds() -> None:
    assert set(LOGS) == set(EXPECTED)
    crashes = [expected for expected in EXPECTED.values() if expected != ["none"]]
    assert len(crashes) >= 100
    assert len({title for _, title in crashes}) >= 100
    assert {kind for kind, _ in crashes} == {"hang", "oops", "panic"}


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_logs_of_campaigns(name: str) -> None:
    console = LOGS[name]
    kind, *title = EXPECTED[name]
    if kind == "none":
        assert formats.recognise(console) is None
        assert not formats.started(console)
        return
    assert [title_of(console)] == title
    crash = formats.recognise(console)
    assert crash is None or crash.damage == ""
    if kind != "hang":
        assert crash is not None
        assert crash.kind == kind


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_that_was_cut_is_damaged_and_of_the_same_crash(name: str) -> None:
    """After its place has been printed, a report says what happened wherever it ends."""
    console = LOGS[name]
    whole = formats.recognise(console)
    assert whole is not None
    lines = console.splitlines(keepends=True)
    said = next(
        number for number, line in enumerate(lines) if b"</TASK>" in line or b"---[ end trace" in line
    )
    first = next(number for number in range(len(lines)) if formats.started(b"".join(lines[: number + 1])))
    ends = [number for number, line in enumerate(lines) if b"---[ end Kernel panic" in line]
    for end in {first + 1, max(said, first) + 1, ends[0]}:
        cut = formats.recognise(b"".join(lines[:end]))
        assert cut is not None
        assert (cut.kind, "no end" in cut.damage) == (whole.kind, True)
        if end > said > first:
            assert cut.title == whole.title
    assert "no place" in cut_before_the_registers(lines[: first + 1], whole.title)


def cut_before_the_registers(lines: list[bytes], title: str) -> str:
    cut = formats.recognise(b"".join(lines))
    assert cut is not None
    # The stack protector's line has the place in it.
    return "no place" if title.startswith("stack corrupted") else cut.damage


def registers(console: bytes) -> int:
    """Where the line with the place begins."""
    return console.index(b"RIP: 0010", console.index(b"Oops: "))


def garbled(console: bytes) -> bytes:
    at = registers(console) + 200
    return console[:at] + b"\x00\xff\x1b" + console[at + 3 :]


def mixed(console: bytes) -> bytes:
    stamp = console.index(b"[", registers(console))
    return console[: stamp - 4] + console[stamp:]


def without_beginning(console: bytes) -> bytes:
    return console[registers(console) :]


@pytest.mark.parametrize(
    ("spoil", "damage"), [(garbled, "garbage"), (mixed, "mixed lines"), (without_beginning, "no beginning")]
)
@pytest.mark.parametrize("name", [name for name in REPORTS if EXPECTED[name][0] == "oops"])
def test_a_report_that_lost_something_is_marked(
    spoil: Callable[[bytes], bytes], damage: str, name: str
) -> None:
    crash = formats.recognise(spoil(LOGS[name]))
    assert crash is not None
    assert damage in crash.damage.split(", ")
    assert crash.kind == "oops"


def test_garbage_before_a_report_is_no_damage() -> None:
    crash = formats.recognise(b"\x00\xff noise\n" + LOGS[REPORTS[0]])
    assert crash is not None
    assert crash.damage == ""


@pytest.mark.parametrize(
    ("before", "title"),
    [
        # As Linux 6.1 and 5.10 say it.
        (
            b"general protection fault, probably for non-canonical address 0xdead00000100: 0000 [#1] SMP",
            "unknown: general protection fault, probably for non-canonical address ADDR: N [#N] SMP",
        ),
        (b"BUG: something nobody has seen in 77 years", "unknown: BUG: something nobody has seen in N years"),
        # What counts is not the warning before it.
        (
            b"WARNING: CPU: 0 PID: 77 at fs/inode.c:417 drop_nlink+0x28/0x40\nfrobnication: 0000 [#1] SMP",
            "unknown: frobnication: N [#N] SMP",
        ),
        (b"", "oops in iput"),
    ],
)
def test_a_crash_no_row_knows_is_titled_by_the_line_that_tells_most(before: bytes, title: str) -> None:
    console = before + b"\nRIP: 0010:iput+0x17/0x120\n[    9.0] Kernel panic - not syncing: Fatal exception\n"
    crash = formats.recognise(console)
    assert crash is not None
    assert (crash.kind, crash.title) == ("oops", title)
    assert crash.damage == "no beginning, no end"


@pytest.mark.parametrize(
    ("console", "line"),
    [
        (b"BUG: scheduling while atomic: memtest/89/0x00000000\n", "BUG: scheduling while atomic: TASK"),
        (b"[    9.123456] EXT4-fs (vdb): mounted\r\n[    9.2] INFO: x 7\r\n", "INFO: x N"),
        (b"EXT4-fs (vdb): mounted\n", ""),
        (b"", ""),
    ],
)
def test_the_line_that_tells_most(console: bytes, line: str) -> None:
    assert formats.telling_line(console) == line
    assert formats.with_telling_line("reset", console) == (f"reset: {line}" if line else "reset")


@pytest.mark.parametrize(
    "name", [name for name, (kind, *title) in EXPECTED.items() if title and title[0].startswith("hang in")]
)
def test_hangs_are_not_all_in_the_lock_they_wait_for(name: str) -> None:
    assert not re.search("lock_slowpath|_raw_", EXPECTED[name][1])
