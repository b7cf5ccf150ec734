# SPDX-License-Identifier: Apache-2.0
"""What run says of its progress, when it is killed, when a call fails and when a read does not match."""

import array
import fcntl
import os
import random
import resource
import signal
import subprocess
import termios
import time
from pathlib import Path
from typing import Any

import pytest
from memtest_helper import QUICK, SEED, Memtest, Record, last, parse_progress


@pytest.mark.parametrize("steps", [0, 50])
def test_progress_of_a_whole_run(memtest: Memtest, tmp_path: Path, steps: int) -> None:
    records = memtest.run(tmp_path / "dir", SEED, steps)
    expected = [(letter, step) for step in range(1, steps + 1) for letter in "ID"]
    assert [(record.letter, record.step) for record in records] == [("S", 0), *expected, ("F", steps)]


def start(
    memtest: Memtest, root: Path, progress: Path | str, seed: int = SEED, **keywords: Any
) -> subprocess.Popen[bytes]:
    """A run of more steps than any test waits for."""
    memtest.prepare(root)
    where = ["--dir", root, "--seed", seed, "--progress", progress, "--steps", 20_000]
    command = [memtest.binary, "run", *where, *memtest.limit]
    return subprocess.Popen([str(word) for word in command], stderr=subprocess.PIPE, env=QUICK, **keywords)


def running(memtest: Memtest, root: Path, least: int) -> tuple[subprocess.Popen[bytes], Path]:
    """A run that has said that many bytes of progress, and the file with them."""
    log = root.with_suffix(".log")
    log.touch()
    process = start(memtest, root, log)
    while log.stat().st_size < least:
        assert process.poll() is None
        time.sleep(0.0005)
    return process, log


def test_told_to_stop_it_ends_after_the_step(memtest: Memtest, tmp_path: Path) -> None:
    process, log = running(memtest, tmp_path / "dir", 1000)
    process.terminate()
    process.communicate(timeout=20)
    assert process.returncode == 0
    *_, done, end = parse_progress(log.read_bytes(), SEED)
    assert (done.letter, end.letter, end.step) == ("D", "F", done.step)
    assert 0 < done.step < 20_000


def test_after_kill_9_at_any_moment_verify_says_equal(memtest: Memtest, tmp_path: Path) -> None:
    rng = random.Random(20)
    reached = []
    for trial in range(20):
        root = tmp_path / f"dir{trial}"
        process, log = running(memtest, root, rng.randrange(1, 8000))  # about 30 bytes a step
        time.sleep(rng.uniform(0, 0.002))
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        records = parse_progress(log.read_bytes(), SEED)
        done, intent = last(records, "D"), last(records, "I")
        assert intent == done + 1
        assert memtest.differences(root, SEED, done, intent) == [], trial
        reached.append(done)
    assert len(set(reached)) > 10 and max(reached) > 50


def stopped_in_mid_run(memtest: Memtest, root: Path, seed: int = SEED) -> tuple[subprocess.Popen[bytes], int]:
    """A run that waits, some steps on, because nobody reads its progress; and the pipe's other end."""
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
    process = start(memtest, root, "/dev/stdout", seed, stdout=write)
    os.close(write)
    unread, stat = array.array("i", [0]), Path(f"/proc/{process.pid}/stat")
    # Asleep (proc(5)), and with a pipe too full for two records.
    while unread[0] < 4000 or stat.read_text().rpartition(") ")[2][0] != "S":
        assert process.poll() is None
        time.sleep(0.002)
        fcntl.ioctl(read, termios.FIONREAD, unread)
    return process, read


def go_on(process: subprocess.Popen[bytes], read: int, seed: int = SEED) -> tuple[list[Record], str]:
    """All progress of a run that waited, and what it said on standard error."""
    with os.fdopen(read, "rb") as pipe:
        data = pipe.read()
    _, said = process.communicate()
    return parse_progress(data, seed), said.decode()


@pytest.mark.parametrize("damage", ["offset", "size"])
def test_a_read_that_does_not_match_is_reported_and_the_run_goes_on(
    memtest: Memtest, tmp_path: Path, damage: str
) -> None:
    process, read = stopped_in_mid_run(memtest, tmp_path / "dir")
    for path in (tmp_path / "dir/tree").rglob("f*"):
        data = path.read_bytes()
        path.write_bytes(bytes(byte ^ 0xFF for byte in data) if damage == "offset" else data + b"x")
    records, said = go_on(process, read)
    errors = [record for record in records if record.letter == "E"]
    assert (process.returncode, said) == (3, "")
    assert records[-1].letter == "F" and last(records, "D") == records[-1].step
    for error in errors[:3]:
        step = memtest.steps(SEED, error.step)[-1]
        assert step["kind"] == "read"
        assert error.text.startswith(f"mismatch {step['path']} {damage}")
    assert errors


def test_a_file_that_is_gone_ends_the_run(memtest: Memtest, tmp_path: Path) -> None:
    process, read = stopped_in_mid_run(memtest, tmp_path / "dir")
    for path in (tmp_path / "dir/tree").rglob("f*"):
        path.unlink()
    *_, error = go_on(process, read)[0]
    assert (process.returncode, error.letter, error.text.split()[0]) == (4, "E", "ENOENT")


@pytest.mark.parametrize("seed", range(4))
def test_a_symlink_is_not_written_through(memtest: Memtest, tmp_path: Path, seed: int) -> None:
    """The seeds differ in the step that comes next; a change would be seen outside."""
    process, read = stopped_in_mid_run(memtest, tmp_path / "dir", seed)
    outside = {}
    for path in (tmp_path / "dir/tree").rglob("f*"):
        moved = path.rename(tmp_path / path.name)
        path.symlink_to(moved)
        outside[moved] = moved.read_bytes()
    *_, error = go_on(process, read, seed)[0]
    assert (process.returncode, error.text.split()[0]) == (4, "ELOOP")
    assert {path: path.read_bytes() for path in outside} == outside


def test_a_write_that_fails_ends_the_run_and_counts_as_in_flight(memtest: Memtest, tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    process = start(memtest, tmp_path / "dir", "/dev/stdout", stdout=subprocess.PIPE, preexec_fn=limit)
    data, said = process.communicate()
    *_, error = records = parse_progress(data, SEED)
    assert (process.returncode, error.letter, said.count(b"\n")) == (4, "E", 1)
    assert error.text.split()[:2] in (["EFBIG", kind] for kind in ("write", "append", "truncate"))
    done = last(records, "D")
    assert error.step == done + 1
    assert memtest.differences(tmp_path / "dir", SEED, done, done + 1) == []


@pytest.fixture(scope="session")
def preload(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("preload") / "preload_log.so"
    source = Path(__file__).with_name("preload_log.c")
    flags = ["-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run(["cc", *flags, "-o", library, source], check=True)
    return library


def syncs_of(step: dict[str, Any]) -> list[str]:
    """What must be durable after the step, in order."""
    path, parent = step["path"], str(Path(step["path"]).parent)
    if step["kind"] == "rename":
        parents = list(dict.fromkeys([str(Path(step["to"]).parent), parent]))
        return [*parents, step["to"]] if step["type"] == "dir" else parents
    of = {"create": [path, parent], "unlink": [parent], "write": [path], "read": []}
    of |= {"mkdir": of["create"], "rmdir": of["unlink"], "append": of["write"], "truncate": of["write"]}
    return of[step["kind"]]


@pytest.mark.parametrize("fsync", [True, False])
def test_what_is_synced_and_sent_between_the_steps(
    memtest: Memtest, preload: Path, tmp_path: Path, fsync: bool
) -> None:
    """With --fsync a step is durable before it is done; an intent goes out with the done before it."""
    root, log = tmp_path / "dir", tmp_path / "log"
    memtest.prepare(root)
    log.touch()
    env = {**QUICK, "PRELOAD_LOG": str(log), "LD_PRELOAD": str(preload)}
    env["ASAN_OPTIONS"] += ":verify_asan_link_order=0"
    command = ["run", "--dir", root, "--seed", SEED, "--steps", 200, "--progress", log, *memtest.limit]
    result = memtest(*command, *(["--fsync"] if fsync else []), env=env)
    assert result.returncode == 0, result.stderr
    expected = ["write", "S 0"]
    for step in memtest.steps(SEED, 200):
        expected += [f"I {step['step']}", *(f"fsync {path}" for path in syncs_of(step) if fsync)]
        expected += ["write", f"D {step['step']}"]
    lines = [line.replace(f"fsync {root}/", "fsync ").split() for line in log.read_text().splitlines()]
    assert [" ".join(line[:2]) for line in lines] == [*expected, "F 200"]
