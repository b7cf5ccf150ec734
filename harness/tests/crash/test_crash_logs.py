# SPDX-License-Identifier: Apache-2.0
"""Crash recognition on the logs of campaigns, whole and damaged in every way a console can be."""

import tarfile
from pathlib import Path

import pytest
import yaml
from harness_builders import SEED, record
from riobed.crash import formats, frames
from riobed.trial.observe.progress import Progress

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


def test_each_log_has_its_expectation() -> None:
    assert set(LOGS) == set(EXPECTED) and len(LOGS) > 100


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_logs_of_campaigns(name: str) -> None:
    console = LOGS[name]
    kind, *title = EXPECTED[name]
    crash = formats.recognise(console)
    if kind == "none":
        assert crash is None and not formats.started(console)
        return
    assert [title_of(console)] == title
    assert crash is None or crash.damage == ""
    assert kind == "hang" or (crash and crash.kind == kind)


def told() -> bytes:
    """What a log has of a workload whose words are those of a crash, stamps and garbage included."""
    heard = Progress(SEED)
    words = b"[    9.123456] Kernel panic - not syncing: Fatal exception \x00\xff\x1b ---[ end Kernel panic"
    for number in range(1, 9):
        said = record("I", number) + record("E", number, "EIO", "read", words.decode("latin-1")) + words
        heard.feed(said + b"\n", number / 10)
    return heard.told.text(0.0)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_what_the_workload_told_is_not_taken_for_the_kernels_words(name: str) -> None:
    console, log = LOGS[name], LOGS[name] + told()
    assert log.count(b"progress +") == 24
    before, after = formats.recognise(console), formats.recognise(log)
    assert (after, after and after.damage) == (before, before and before.damage)
    for read in (formats.started, formats.ended, formats.moment, formats.victim, formats.hung_in):
        assert read(log) == read(console)
    assert not formats.started(told()) and formats.recognise(told()) is None


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_that_was_cut_is_damaged_and_of_the_same_crash(name: str) -> None:
    """After its place has been printed, a report says what happened wherever it ends."""
    console = LOGS[name]
    whole = formats.recognise(console)
    assert whole is not None
    lines = console.splitlines(keepends=True)
    said = next(n for n, line in enumerate(lines) if b"</TASK>" in line or b"---[ end trace" in line)
    first = next(n for n in range(len(lines)) if formats.started(b"".join(lines[: n + 1])))
    last = next(n for n, line in enumerate(lines) if b"---[ end Kernel panic" in line)
    for end in {first + 1, max(said, first) + 1, last}:
        cut = formats.recognise(b"".join(lines[:end]))
        assert cut is not None
        assert (cut.kind, "no end" in cut.damage) == (whole.kind, True)
        if end > said > first:
            assert cut.title == whole.title
    begun = formats.recognise(b"".join(lines[: first + 1]))
    # The stack protector's line has the place in it.
    assert begun and ("no place" in begun.damage or whole.title.startswith("stack corrupted"))


def spoiled(console: bytes) -> dict[str, bytes]:
    """The console with each kind of damage at the line with the place."""
    line = console.index(b"RIP: 0010", console.index(b"Oops: "))
    stamp = console.index(b"[", line)
    return {
        "garbage": console[: line + 200] + b"\x00\xff\x1b" + console[line + 203 :],
        "mixed lines": console[: stamp - 4] + console[stamp:],
        "no beginning": console[line:],
    }


@pytest.mark.parametrize("name", [name for name in REPORTS if EXPECTED[name][0] == "oops"])
def test_a_loss_is_marked(name: str) -> None:
    for damage, console in spoiled(LOGS[name]).items():
        crash = formats.recognise(console)
        assert crash is not None and crash.kind == "oops" and damage in crash.damage.split(", ")


def test_garbage_before_a_report_is_no_damage() -> None:
    crash = formats.recognise(b"\x00\xff noise\n" + LOGS[REPORTS[0]])
    assert crash is not None and crash.damage == ""


FAULT = b"general protection fault, probably for non-canonical address 0xdead00000100: 0000 [#1] SMP"


@pytest.mark.parametrize(
    ("before", "title"),
    [
        # As Linux 6.1 and 5.10 say it.
        (FAULT, f"unknown: {FAULT.decode().replace('0xdead00000100: 0000 [#1]', 'ADDR: N [#N]')}"),
        (b"BUG: something nobody has seen in 77 years", "unknown: BUG: something nobody has seen in N years"),
        # What counts is not the warning before it.
        (
            b"WARNING: CPU: 0 at fs/inode.c:417\nfrobnication: 0000 [#1] SMP",
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


def test_a_trace_that_ends_within_a_line_is_read_as_far_as_it_goes() -> None:
    trace = "RIP: 0010:_raw_spin_lock+0x17/0x20\nCall Trace:\n iput+0x17/0x1"
    assert frames.location(trace, 0) == "iput"


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
