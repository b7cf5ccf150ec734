# SPDX-License-Identifier: Apache-2.0
"""The progress log: what a good record says, and that damage changes nothing but the count of damage."""

import random
from itertools import pairwise

import pytest
from harness_builders import SEED, crc32c_bitwise, record
from riobed.trial.observe.progress import Progress, StepError, Streams, crc32c, progress

# `memtest run --seed 81985529216486895 --steps 2`, as it left the guest.
STREAM = [record("S", 0), record("I", 1), record("D", 1) + record("I", 2), record("D", 2), record("F", 2)]


def fed(*chunks: bytes, seed: int = SEED) -> Progress:
    progress = Progress(seed)
    for chunk in chunks:
        progress.feed(chunk)
    return progress


@pytest.mark.parametrize(
    ("data", "value"),
    [
        # RFC 3720, appendix B.4, and the check value of the catalogue of CRC algorithms
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (b"123456789", 0xE3069283),
        (b"", 0),
    ],
)
def test_crc32c(data: bytes, value: int) -> None:
    assert crc32c(data) == value == crc32c_bitwise(data)


def test_a_run_from_start_to_end() -> None:
    progress = Progress(SEED)
    after = []
    for chunk in STREAM:
        assert progress.feed(chunk)
        after.append((progress.done, progress.intent, progress.in_flight, progress.finished))
    assert after == [(0, 0, 0, False), (0, 1, 1, False), (1, 2, 2, False), (2, 2, 0, False), (2, 2, 0, True)]
    assert (progress.error, progress.damaged) == ("", 0)


def test_a_step_between_intent_and_done_is_in_flight() -> None:
    assert fed(record("I", 41), record("D", 41), record("I", 42)).in_flight == 42
    assert fed(record("D", 42)).in_flight == 0
    # Its announcement was damaged.
    assert fed(record("I", 41), record("D", 42)).in_flight == 0


def test_the_first_error_keeps_its_words() -> None:
    progress = fed(record("E", 3, "ENOSPC", "write of 3 bytes at 4"), record("E", 4, "EROFS", "write"))
    assert (progress.error, progress.mismatch) == ("ENOSPC write of 3 bytes at 4", False)
    assert len(progress.errors) == 2
    read = fed(record("E", 3, "mismatch"))
    assert (read.error, read.mismatch) == ("mismatch", True)
    assert fed(record("E", 3, "EIO", "é".encode().decode("latin-1"))).error


def test_each_error_is_kept_for_the_check() -> None:
    progress = fed(
        record("I", 3),
        record("E", 3, "EIO", "write", "tree/f1", "fsync"),
        record("D", 3) + record("I", 4),
        record("E", 4, "mismatch", "read", "tree/f2", "offset 3 holds 00, should be 01"),
        record("E", 4, "EIO"),
        record("E", 9, "$(reboot)"),
        record("F", 9, "frozen"),
    )
    assert progress.errors == [
        StepError(3, "EIO", "write", "tree/f1", "fsync"),
        StepError(4, "mismatch", "read", "tree/f2", "offset 3 holds 00, should be 01"),
        StepError(9, "unknown"),
    ]
    assert progress.failed == "3:EIO,4:mismatch,9:unknown"
    assert (progress.finished, progress.ended, progress.mismatch) == (True, "frozen", True)


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        # Another trial's do not count, and late and double ones do not turn back the count.
        ([record("D", 9, seed=SEED + 1), record("D", 3)], (3, 0, 1)),
        ([record("I", 8), record("D", 7), record("I", 3), record("D", 2), record("D", 2)], (7, 8, 0)),
        # A step that begins ends the one before: the damage to its record must not undo it.
        ([record("D", 40), record("I", 41), record("D", 41)[:5], b"\n", record("I", 42)], (41, 42, 1)),
        # A line cut by another is lost alone, and one without its end does not count yet.
        ([record("D", 1), record("D", 2)[:6], record("D", 3), record("D", 4)], (4, 0, 1)),
        ([record("D", 1), record("D", 2)[:-1]], (1, 0, 0)),
    ],
)
def test_what_counts(records: list[bytes], expected: tuple[int, int, int]) -> None:
    progress = fed(*records)
    assert (progress.done, progress.intent, progress.damaged) == expected


def test_feed_says_whether_there_was_a_good_record() -> None:
    progress = Progress(SEED)
    assert not progress.feed(b"")
    assert not progress.feed(b"noise\n")
    line = record("D", 1)
    assert not progress.feed(line[:-1])
    assert progress.feed(line[-1:])
    assert progress.feed(b"noise\n" + record("D", 2) + b"noise\n")


def test_every_single_bit_flip_is_seen() -> None:
    """No flip makes a step of it that the workload did not report."""
    line = record("D", 1234567)
    for bit in range(8 * len(line.rstrip())):
        damaged = bytearray(line)
        damaged[bit // 8] ^= 1 << bit % 8
        assert fed(bytes(damaged), b"\n").done == 0, bit


D5 = record("D", 5)


@pytest.mark.parametrize("garbage", [
    b"\n\n\n", b"D 5 00000000\n", b"D 5\n", b"D -5 " + D5[4:], b"D 05 " + D5[4:], b"D 5 \xff\xfe\n",
    b"D 99999999999999999999 00000000\n", b"X" + D5[1:], b" " + D5, D5.upper().replace(b"D", b"d"),
    record("Z", 5), D5[:-2] + b"\n", D5[1:], bytes(range(256)), b"\0" * 1000 + b"\n",
    b"[   12.3] BUG: unable to handle page fault\n",
])  # fmt: skip
def test_garbage_does_not_count_and_does_not_spoil_what_follows(garbage: bytes) -> None:
    assert fed(garbage).done == 0
    progress = fed(record("D", 1), garbage, b"\n", record("D", 2))
    assert (progress.done, progress.error) == (2, "")


def noisy(rng: random.Random) -> tuple[bytes, int, int]:
    """A log with damage in it; the last step done and announced in what is whole of it."""
    parts, done, intent = [], 0, 0
    for step in range(1, 30):
        for kind in "ID":
            line = record(kind, step)
            match rng.randrange(8):
                case 0:
                    parts.append(line[: rng.randrange(1, len(line) - 1)] + b"\n")
                    continue
                case 1:
                    parts.append(rng.randbytes(rng.randrange(1, 40)).replace(b"\n", b"") + b"\n")
                case 2:
                    spot = rng.randrange(len(line) - 1)
                    parts.append(line[:spot] + bytes([line[spot] ^ 0x80]) + line[spot + 1 :])
                    continue
            parts.append(line)
            done, intent = (step, intent) if kind == "D" else (max(done, step - 1), step)
    return b"".join(parts), done, intent


@pytest.mark.parametrize("number", range(30))
def test_how_the_bytes_arrive_makes_no_difference(number: int) -> None:
    rng = random.Random(number)
    log, done, intent = noisy(rng)
    whole = fed(log)
    assert (whole.done, whole.intent) == (done, intent)
    cuts = sorted(rng.randrange(len(log) + 1) for _ in range(rng.randrange(1, 200)))
    pieces = [log[a:b] for a, b in pairwise([0, *cuts, len(log)])]
    assert fed(*pieces) == whole == fed(*(bytes([byte]) for byte in log))


def test_a_line_without_end_is_not_kept() -> None:
    progress = Progress(1)
    for _ in range(100):
        progress.feed(b"x" * 10_000)
    assert progress.damaged >= 10
    assert len(progress._rest) <= 1 << 16


def marked(data: bytes, stream: int) -> bytes:
    """The bytes as a process with that stream writes them."""
    return bytes(0x80 | stream << 4 | half for byte in data for half in (byte >> 4, byte & 15))


@pytest.mark.parametrize("number", range(10))
def test_streams_may_be_mixed_byte_by_byte(number: int) -> None:
    rng = random.Random(number)
    logs = [noisy(rng)[0] for _ in range(8)]
    left = [list(marked(log, stream)) for stream, log in enumerate(logs)] + [[*STREAM[1]]]
    mixed = b""
    while any(left):
        mixed += bytes([rng.choice([part for part in left if part]).pop(0)])
    streams = Streams(SEED, 3, first=2)
    for start in range(0, len(mixed), 7):
        streams.feed(mixed[start : start + 7])
    alone = [fed(log) for log in logs[2:5]]
    assert streams.reported == {
        "done": ",".join(str(part.done) for part in alone),
        "oldest": ",".join(str(part.done) for part in alone),
        "intent": ",".join(str(part.in_flight) for part in alone),
        "failed": "//",
    }
    assert streams.done == sum(part.done for part in alone)


def test_what_streams_say_together() -> None:
    streams = progress(SEED, 2)
    assert streams.feed(marked(record("I", 3) + record("E", 3, "EIO", "copy", "p0/r1"), 0))
    assert not streams.feed(marked(record("E", 9, "mismatch", "read", "p1/r1"), 2))
    assert (streams.error, streams.mismatch, streams.finished) == ("EIO copy p0/r1", False, False)
    assert streams.in_flight == 3
    assert streams.feed(marked(record("F", 5), 0)) and not streams.finished
    assert streams.feed(marked(record("E", 9, "mismatch", "read", "p1/r1") + record("F", 9), 1))
    assert (streams.mismatch, streams.finished, streams.damaged) == (True, True, 0)
    assert [error.step for error in streams.errors] == [3, 9]
    assert streams.reported["failed"] == "3:EIO/9:mismatch"


def test_seconds_are_lost_from_the_last_step_that_is_kept() -> None:
    heard = Progress(SEED)
    assert heard.seconds_lost(0) is None
    heard.feed(record("S", 0) + record("I", 1), 10.0)
    heard.feed(record("D", 1) + record("I", 2) + record("D", 2), 10.5)
    heard.feed(record("I", 3), 10.75)
    heard.feed(record("D", 3) + record("I", 4), 12.0)
    assert [heard.seconds_lost(lost) for lost in (0, 1, 2, 3)] == [0.0, 1.5, 1.5, 2.0]
    assert heard.seconds_lost(None) is None
    # In milliseconds.
    heard.feed(record("D", 4), 12.0626)
    assert heard.seconds_lost(1) == 0.063
    # What was done before the harness listened was done at no known time.
    warm = fed(*STREAM[:3])
    warm.feed(STREAM[3], 7.0)
    assert (warm.seconds_lost(0), warm.seconds_lost(1)) == (0.0, None)


def test_lines_are_kept_with_the_time_at_which_they_were_heard() -> None:
    heard = fed(record("S", 0))
    assert heard.told.text(9.0) == b""
    heard.feed(record("I", 1), 10.0)
    heard.feed(record("D", 1)[:-3], 10.5)
    heard.feed(record("D", 1)[-3:] + b"\0noise [ 1.0]\n" + record("E", 2, "EIO", "write", "tree/f1"), 11.25)
    lines = ["-0.500 I 1", "+0.750 D 1", "+0.750 ? \\x00noise \\x5b 1.0]", "+0.750 E 2 EIO write tree/f1"]
    head = "\n=== progress of the workload: seconds since injection, when it was heard ===\n"
    assert heard.told.text(10.5).decode() == head + "".join(f"progress {line}\n" for line in lines)
    # Before an injection there is no other moment to count from.
    assert b"seconds before the last line" in heard.told.text(None)
    assert b"\nprogress -1.250 I 1\n" in heard.told.text(None)
    heard.feed(record("D", 2), 12.0)
    assert b"\nprogress -2.000 I 1\n" in heard.told.text(None)


def test_of_many_lines_the_last_are_kept_and_the_first_errors() -> None:
    heard = Progress(SEED)
    for number in range(1, 2001):
        failed = number % 10 == 7 and record("E", number, "EIO", "read", "x" * 1000)
        heard.feed(record("I", number) + (failed or record("D", number)), float(number))
    text = heard.told.text(0.0)
    _, head, *lines = text.decode().splitlines()
    assert head.startswith("=== progress") and len(lines) == 331 and len(text) < 100_000
    assert lines[0] == "progress +7.000 " + "E 7 EIO read ".ljust(200, "x")
    assert lines[30] == f"progress {4000 - 330} lines left out"
    assert lines[31:33] == ["progress +1851.000 I 1851", "progress +1851.000 D 1851"]
    assert lines[-1] == "progress +2000.000 D 2000"


def test_lines_of_streams_have_their_number() -> None:
    assert Streams(SEED, 1).feed(marked(record("I", 5), 0))
    streams = Streams(SEED, 2, first=3)
    streams.feed(marked(record("I", 5), 4) + marked(record("E", 9, "EIO", "copy", "p0"), 3), 1.0)
    assert streams.told.text(1.0).decode().splitlines()[2:] == [
        "progress +0.000 3: E 9 EIO copy p0",
        "progress +0.000 4: I 5",
    ]
