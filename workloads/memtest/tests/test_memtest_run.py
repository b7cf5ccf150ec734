# SPDX-License-Identifier: Apache-2.0
"""What run says of its progress, when it is killed, when a call fails and when a read does not match."""

import array
import errno
import fcntl
import os
import random
import shutil
import signal
import subprocess
import termios
import time
from dataclasses import dataclass
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
    process.communicate(timeout=120)
    assert process.returncode == 0
    *_, done, end = parse_progress(log.read_bytes(), SEED)
    assert (done.letter, end.letter, end.step) == ("D", "F", done.step)
    assert 0 < done.step < 20_000


def test_after_kill_9_at_any_moment_verify_says_equal(memtest: Memtest, tmp_path: Path, longer: int) -> None:
    rng = random.Random(20)
    reached = []
    for trial in range(20 * longer):
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


def failures(records: list[Record]) -> str:
    """The steps that failed, as verify takes them."""
    failed = (record for record in records if record.letter == "E")
    return ",".join(f"{record.step}:{record.text.split()[0]}" for record in failed)


def judged(memtest: Memtest, root: Path, records: list[Record]) -> dict[str, Any]:
    return memtest.verify(root, SEED, records[-1].step, failed=failures(records))


@pytest.mark.parametrize("damage", ["offset", "size"])
def test_a_damaged_file_is_frozen_and_judged_and_the_rest_runs_on(
    memtest: Memtest, tmp_path: Path, damage: str
) -> None:
    process, read = stopped_in_mid_run(memtest, tmp_path / "dir")
    for path in (tmp_path / "dir/tree").rglob("f*"):
        data = path.read_bytes()
        path.write_bytes(bytes(byte ^ 0xFF for byte in data) if damage == "offset" else data + b"x")
    records, said = go_on(process, read)
    errors = [record for record in records if record.letter == "E"]
    assert (process.returncode, said, records[-1].text) == (3, "", "")
    assert records[-1].step > errors[-1].step + 1000
    report = judged(memtest, tmp_path / "dir", records)
    frozen = {entry["path"]: entry for entry in report["frozen"]}
    for error, path in zip(errors, frozen, strict=True):
        assert error.text.startswith(f"mismatch read {path} {damage}")
        assert frozen[path] == frozen[path] | {"step": error.step, "how": "mismatch", "found": "differs"}
    differences = {entry["path"]: entry.get("frozen_at") for entry in report["differences"]}
    assert frozen.keys() <= differences.keys()
    for path, step in differences.items():
        assert step == frozen.get(path, {}).get("step")


def test_a_file_that_is_gone_is_frozen_and_missing(memtest: Memtest, tmp_path: Path) -> None:
    process, read = stopped_in_mid_run(memtest, tmp_path / "dir")
    for path in (tmp_path / "dir/tree").rglob("f*"):
        path.unlink()
    records, said = go_on(process, read)
    assert (process.returncode, said, records[-1].letter, records[-1].text) == (4, "", "F", "")
    report = judged(memtest, tmp_path / "dir", records)
    found = {entry["path"]: (entry["how"], entry["operation"], entry["found"]) for entry in report["frozen"]}
    for how, operation, state in found.values():
        # After it a file that was to be removed is gone, as it must be.
        assert (how, state) == ("ENOENT", "equal" if operation == "unlink" else "differs")
    assert len(found) > 3


def test_a_folder_in_which_a_name_failed_takes_no_more(memtest: Memtest, tmp_path: Path) -> None:
    """A file stands where a directory was, and is a difference; what is right elsewhere stays right."""
    process, read = stopped_in_mid_run(memtest, tmp_path / "dir")
    folder = next(path for path in (tmp_path / "dir/tree").rglob("d*") if any(path.iterdir()))
    folder.rename(tmp_path / "outside")
    folder.touch()
    records, _ = go_on(process, read)
    failed = [record.text.split()[:3] for record in records if record.letter == "E"]
    parents = [str(Path(path).parent) for _, kind, path in failed if kind in ("create", "mkdir")]
    assert parents and len(parents) == len(set(parents))
    report = judged(memtest, tmp_path / "dir", records)
    others = [difference for difference in report["differences"] if "frozen_at" not in difference]
    assert [difference["kind"] for difference in others] == ["type"]
    assert "not reached" in {entry["found"] for entry in report["frozen"]}


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.extended) for seed in (2, 3))])
def test_a_symlink_is_not_written_through(memtest: Memtest, tmp_path: Path, seed: int) -> None:
    """The seeds differ in the step that comes next; a change would be seen outside."""
    process, read = stopped_in_mid_run(memtest, tmp_path / "dir", seed)
    outside = {}
    for path in (tmp_path / "dir/tree").rglob("f*"):
        moved = path.rename(tmp_path / path.name)
        path.symlink_to(moved)
        outside[moved] = moved.read_bytes()
    errors = [record for record in go_on(process, read, seed)[0] if record.letter == "E"]
    assert {error.text.split()[0] for error in errors} == {"ELOOP"} and process.returncode == 4
    assert {path: path.read_bytes() for path in outside} == outside


@dataclass
class Failing:
    """Runs in which calls fail at random, done or not."""

    memtest: Memtest
    library: Path

    def __call__(
        self, root: Path, seed: int, error: int = errno.EIO, one_in: int = 60
    ) -> tuple[list[Record], int, str]:
        """All records of a run of at most 400 steps, its exit status and what it said on standard error."""
        self.memtest.prepare(root)
        log = root.with_suffix(".log")
        env = {**QUICK, "LD_PRELOAD": str(self.library), "PRELOAD_SEED": str(seed)}
        env |= {"PRELOAD_ERRNO": str(error), "PRELOAD_ONE_IN": str(one_in), "PRELOAD_UNDER": "tree/"}
        env["ASAN_OPTIONS"] += ":verify_asan_link_order=0"
        options = ["--dir", root, "--seed", seed, "--steps", 400, "--fsync", "--progress", log]
        result = self.memtest("run", *options, *self.memtest.limit, env=env)
        return parse_progress(log.read_bytes(), seed), result.returncode, result.stderr


@pytest.fixture(scope="session")
def failing(memtest: Memtest, tmp_path_factory: pytest.TempPathFactory) -> Failing:
    return Failing(memtest, preloaded("preload_fail.c", tmp_path_factory.mktemp("preload")))


def test_steps_that_fail_are_judged_as_if_in_flight(
    memtest: Memtest, failing: Failing, tmp_path: Path, longer: int
) -> None:
    """Whatever a failed call has done, nothing is wrong, even if its step was not reported as over."""
    kinds = set()
    for seed in range(10 if longer == 1 else 40):
        root = tmp_path / f"dir{seed}"
        records, _, _ = failing(root, seed)
        errors = [record for record in records if record.letter == "E"]
        failed, done = failures(records), records[-1].step
        report = memtest.verify(root, seed, done, failed=failed)
        assert report["differences"] == [], seed
        assert memtest.verify(root, seed, done, failed=failed, oldest=0, every=1)["steps_lost"] == 0
        assert [(entry["step"], entry["found"]) for entry in report["frozen"]] == [
            (error.step, "equal") for error in errors
        ]
        if errors and errors[-1].step == done:
            assert memtest.differences(root, seed, done - 1, done, failed=failed) == []
        kinds |= {error.text.split()[1] for error in errors}
    assert len(kinds) == 9


def test_without_the_failures_verify_finds_differences(
    memtest: Memtest, failing: Failing, tmp_path: Path
) -> None:
    records, _, _ = failing(tmp_path / "dir", 3)
    assert failures(records) and memtest.differences(tmp_path / "dir", 3, records[-1].step)


@pytest.mark.parametrize(
    ("error", "one_in", "end", "failed"), [(errno.EROFS, 30, "read-only", 1), (errno.EIO, 1, "frozen", 1)]
)
def test_a_run_that_cannot_go_on_says_why(
    failing: Failing, tmp_path: Path, error: int, one_in: int, end: str, failed: int
) -> None:
    records, status, said = failing(tmp_path / "dir", 5, error, one_in)
    *_, last_error, done, finish = records
    assert [record.letter for record in records].count("E") == failed
    assert (last_error.letter, done.letter, finish.letter, finish.text) == ("E", "D", "F", end)
    assert finish.step == done.step == last_error.step < 400
    assert status == 4 and said.count("\n") == 1 and end in said


def preloaded(source: str, folder: Path) -> Path:
    library = folder / Path(source).with_suffix(".so").name
    flags = ["-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run(["cc", *flags, "-o", library, Path(__file__).with_name(source)], check=True)
    return library


@pytest.fixture(scope="session")
def preload(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return preloaded("preload_log.c", tmp_path_factory.mktemp("preload"))


def syncs_of(step: dict[str, Any]) -> list[str]:
    """What must be durable after the step, in order."""
    path, parent = step["path"], str(Path(step["path"]).parent)
    if step["kind"] == "rename":
        parents = list(dict.fromkeys([str(Path(step["to"]).parent), parent]))
        return [*parents, step["to"]] if step["type"] == "dir" else parents
    of = {"create": [path, parent], "unlink": [parent], "write": [path], "read": []}
    of |= {"mkdir": of["create"], "rmdir": of["unlink"], "append": of["write"], "truncate": of["write"]}
    return of[step["kind"]]


@pytest.mark.parametrize("every", [0, 1, 5])
def test_what_is_synced_and_sent_between_the_steps(
    memtest: Memtest, preload: Path, tmp_path: Path, every: int
) -> None:
    """With --fsync a step is durable before it is done; an intent goes out with the done before it.

    With --fsync-every each of so many is.
    """
    root, log = tmp_path / "dir", tmp_path / "log"
    memtest.prepare(root)
    log.touch()
    env = {**QUICK, "PRELOAD_LOG": str(log), "LD_PRELOAD": str(preload)}
    env["ASAN_OPTIONS"] += ":verify_asan_link_order=0"
    command = ["run", "--dir", root, "--seed", SEED, "--steps", 200, "--progress", log, *memtest.limit]
    result = memtest(*command, *(["--fsync"] if every == 1 else ["--fsync-every", every]), env=env)
    assert result.returncode == 0, result.stderr
    expected = ["write", "S 0"]
    for step in memtest.steps(SEED, 200):
        synced = every and step["step"] % every == 0
        expected += [f"I {step['step']}", *(f"fsync {path}" for path in syncs_of(step) if synced)]
        expected += ["write", f"D {step['step']}"]
    lines = [line.replace(f"fsync {root}/", "fsync ").split() for line in log.read_text().splitlines()]
    assert [" ".join(line[:2]) for line in lines] == [*expected, "F 200"]
    log.write_bytes(b"")
    shutil.rmtree(root)
    memtest.prepare(root)
    assert memtest(*command, "--fsync-every", every, "--bug", "missing-fsync", env=env).returncode == 0
    assert "fsync" not in log.read_text()
