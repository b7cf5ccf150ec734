# SPDX-License-Identifier: Apache-2.0
"""The oracle accepts what the processes leave, however they are stopped, and finds what is damaged."""

import errno
import os
import random
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from andrew_helper import FILES, PROCESSES, QUICK, SEED, SOURCE, Andrew, Process


@pytest.fixture(scope="session")
def two_rounds(andrew: Andrew, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Process]]:
    """A directory after two rounds, which is not to be changed."""
    root = tmp_path_factory.mktemp("andrew") / "dir"
    return root, andrew.run(root, 2)


@pytest.fixture
def copied(two_rounds: tuple[Path, list[Process]], tmp_path: Path) -> tuple[Path, list[Process]]:
    return Path(shutil.copytree(two_rounds[0], tmp_path / "dir")), two_rounds[1]


def test_whole_rounds_verify_as_equal(andrew: Andrew, two_rounds: tuple[Path, list[Process]]) -> None:
    root, processes = two_rounds
    report = andrew.verify(root, processes)
    assert report["differences"] == []
    files = [path for path in root.rglob("*") if path.is_file()]
    counted = report["files"], report["bytes"], report["dirs"]
    lost = report["files_expected"], report["files_lost"], report["bytes_lost"]
    assert lost == (len(files), 0, 0)
    dirs = [path for path in root.rglob("*") if path.is_dir()]
    assert counted == (len(files), sum(path.stat().st_size for path in files), len(dirs) + 1)
    assert [path.name for path in (root / "p0").iterdir()] == ["r2"]
    assert {process.end for process in processes} == {""}


def test_the_sources_are_a_program(two_rounds: tuple[Path, list[Process]], tmp_path: Path) -> None:
    """Another compiler accepts them, and finds nothing to warn of."""
    dst = two_rounds[0] / "p1/r2/dst"
    sources = sorted(str(path) for path in dst.rglob("*.c"))
    assert len(sources) == FILES - 4 and (dst / "program").read_bytes()[:4] == b"\x7fELF"
    flags = ["-Wall", "-Wextra", "-Wno-unused-function", "-ffreestanding", "-nostdlib", "-static", "-o"]
    subprocess.run(["gcc", *flags, tmp_path / "program", *sources], check=True)


def test_no_two_files_hold_the_same_numbers(two_rounds: tuple[Path, list[Process]]) -> None:
    sources = [path.read_text().splitlines() for path in two_rounds[0].glob("p*/r2/src/*/*")]
    numbers = [line for lines in sources for line in lines if line.startswith("\t0x")]
    assert len(numbers) == len(set(numbers)) > 1000


def works(process: psutil.Process, group: int) -> bool:
    """Whether a process of a group can still make system calls; init may leave dead ones for seconds."""
    with suppress(psutil.NoSuchProcess, ProcessLookupError):
        return os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE
    return False


def killed(run: subprocess.Popen[bytes]) -> None:
    """Kill all processes of a run, and wait until the last system call of each has ended."""
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    while any(works(process, run.pid) for process in psutil.process_iter()):
        time.sleep(0.01)


def test_killed_at_any_moment_verify_says_equal(andrew: Andrew, tmp_path: Path, longer: int) -> None:
    rng, phases, least = random.Random(4), set(), 3 if longer == 1 else 8 * longer
    # Which step is cut short depends on the host.
    for trial in range(30 * longer):
        root = tmp_path / f"dir{trial}"
        run = andrew.start(root)
        andrew.wait(root, rng.randrange(1, 250))
        killed(run)
        processes = andrew.processes(root)
        report = andrew.verify(root, processes)
        assert report["differences"] == [], trial
        phases |= {process["operation"] for process in report["processes"]}
        if trial >= least - 1 and len(phases) > 3:
            return


def test_told_to_stop_all_end_after_their_step(andrew: Andrew, tmp_path: Path) -> None:
    root = tmp_path / "dir"
    run = andrew.start(root)
    andrew.wait(root, 60)
    os.killpg(run.pid, signal.SIGTERM)
    assert run.wait(240) == 0
    processes = andrew.processes(root)
    assert [(process.end, process.done == process.intent) for process in processes] == [
        ("", True)
    ] * PROCESSES
    assert andrew.differences(root, processes) == []


def change(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


@pytest.mark.parametrize(
    "name", ["src/d1/common.h", "src/d0/m004.c", "dst/d0/m004.c", "dst/d0/m004.o", "dst/program"]
)
def test_one_changed_bit_is_found(andrew: Andrew, copied: tuple[Path, list[Process]], name: str) -> None:
    root, processes = copied
    change(root / "p2/r2" / name)
    assert andrew.differences(root, processes) == [(f"p2/r2/{name}", "content")]


DAMAGE: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "longer": ("p0/r2/dst/d1/m005.o", lambda path: path.write_bytes(path.read_bytes() + b"x"), "size"),
    "shorter": ("p0/r2/src/d1/m005.c", lambda path: os.truncate(path, 100), "size"),
    "missing file": ("p0/r2/src/d1/m005.c", Path.unlink, "missing"),
    "missing folder": ("p3/r2/dst/d2", shutil.rmtree, "missing"),
    "missing round": ("p3/r2", shutil.rmtree, "missing"),
    "missing process": ("p3", shutil.rmtree, "missing"),
    "extra file": ("p1/r2/dst/core", Path.touch, "extra"),
    "extra round": ("p1/r1", Path.mkdir, "extra"),
    "extra folder": ("extra", Path.mkdir, "extra"),
    "fifo": ("p1/r2/dst/d3/m007.o", lambda path: (path.unlink(), os.mkfifo(path)), "type"),
    "symlink": ("p1/r2/dst/d3", lambda path: path.symlink_to(path.rename(path.parents[3] / "out")), "type"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_found(andrew: Andrew, copied: tuple[Path, list[Process]], damage: str) -> None:
    root, processes = copied
    name, harm, kind = DAMAGE[damage]
    harm(root / name)
    found = andrew.differences(root, processes)
    assert (name, kind) in found
    assert len(found) == (2 if damage == "symlink" else 1)  # where it was moved to is extra


def test_the_weight_of_what_is_lost(andrew: Andrew, copied: tuple[Path, list[Process]]) -> None:
    root, processes = copied
    change(root / "p2/r2/src/d1/common.h")
    wrong = 1
    for name in ("p0/r2/src/d1/m005.c", "p1/r2/dst/d2", "p3"):
        files = [path for path in (root / name, *(root / name).rglob("*")) if path.is_file()]
        wrong += sum(path.stat().st_size for path in files)
        shutil.rmtree(root / name) if not (root / name).is_file() else (root / name).unlink()
    kept = sum(path.is_file() for path in root.rglob("*"))
    report = andrew.verify(root, processes)
    assert report["files_lost"] == report["files_expected"] - kept + 1
    assert report["bytes_lost"] == wrong
    shutil.rmtree(root)
    report = andrew.verify(root, processes)
    assert report["files_lost"] == report["files_expected"] > 0


def test_a_step_reported_must_be_there(andrew: Andrew, copied: tuple[Path, list[Process]]) -> None:
    """What is there after two rounds is wrong after other steps."""
    root, processes = copied
    for done in (processes[0].done - 1, processes[0].done + 1):
        others = [Process(done, done), *processes[1:]]
        assert andrew.differences(root, others)


def test_a_compilation_in_flight_is_old_or_new(andrew: Andrew, tmp_path: Path) -> None:
    """A file that is being made may have any length, and zeros where nothing was written yet."""
    root = tmp_path / "dir"
    processes = andrew.run(root, 1)
    program = root / "p0/r1/dst/program"
    processes[0] = Process(processes[0].done - 1, processes[0].done)
    data = program.read_bytes()
    for content in (None, b"", data[:5000], data[:100] + bytes(len(data) - 100), data):
        program.unlink() if content is None else program.write_bytes(content)
        assert andrew.differences(root, processes) == []
    for content in (data + b"\0", data[:100] + b"\xff" + data[101:]):
        program.write_bytes(content)
        assert [path for path, _ in andrew.differences(root, processes)] == ["p0/r1/dst/program"]


def preloaded(tmp_path_factory: pytest.TempPathFactory, source: Path, **settings: object) -> dict[str, str]:
    """The environment of a program with that library in it."""
    library = tmp_path_factory.mktemp("preload") / f"{source.stem}.so"
    warnings = ["-Wall", "-Wextra", "-Werror"]
    subprocess.run(["cc", "-shared", "-fPIC", *warnings, "-o", library, source], check=True)
    env = {f"PRELOAD_{name.upper()}": str(value) for name, value in settings.items()}
    env["ASAN_OPTIONS"] = f"{QUICK['ASAN_OPTIONS']}:verify_asan_link_order=0"
    return {**QUICK, "LD_PRELOAD": str(library), **env}


@pytest.mark.parametrize("call", ["read", "write"])
def test_no_compilation_is_done_whose_reads_or_writes_failed(
    andrew: Andrew, tmp_path: Path, call: str
) -> None:
    """libtcc looks at neither: it would take a source for empty, and its output for written."""
    source = tmp_path / "one.c"
    if call == "read":
        source.mkdir()
    else:
        source.write_text("int one(void) { return 1; }\n")

    def no_file_grows() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    ended = andrew("cc", tmp_path / "one.o", source, preexec_fn=no_file_grows if call == "write" else None)
    assert ended.returncode == (200 if call == "read" else errno.EFBIG)


def test_the_load_goes_on_after_a_round_that_failed(
    andrew: Andrew, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    """The sources of one process are damaged in one round; that stays as it is, and is judged."""
    root = tmp_path / "dir"
    source = SOURCE / "tests/preload_shorten.c"
    env = preloaded(tmp_path_factory, source, process="p2", round=2)
    assert andrew.start(root, "--rounds", 4, env=env).wait(240) == 4
    processes = andrew.processes(root)
    assert [bool(process.failed) for process in processes] == [False, False, True, False]
    failed_at = int(processes[2].failed[0].split(":")[0])
    assert processes[2].done > failed_at + 100  # the next two rounds were done
    name, operation, path, *_ = processes[2].words[0].split()
    assert (name, operation) == ("mismatch", "copy") and path.startswith("p2/r2/")
    report = andrew.verify(root, processes)
    assert [found["kind"] for found in report["differences"]] == ["size"]
    assert report["differences"][0]["path"] == path.replace("/dst/", "/src/")
    assert "frozen_at" in report["differences"][0]
    frozen = report["processes"][2]["frozen"][0]
    assert (f"{frozen['step']}:{frozen['how']}", frozen["path"]) == (processes[2].failed[0], path)


def test_steps_that_fail_are_judged_as_if_in_flight(
    andrew: Andrew, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, longer: int
) -> None:
    """System calls fail at random, done or not."""
    source = SOURCE.parent / "memtest/tests/preload_fail.c"
    always = preloaded(tmp_path_factory, source, under="r", one_in=150, errno=errno.EIO)
    operations = set()
    for seed in range(2 if longer == 1 else 8):
        root = tmp_path / f"dir{seed}"
        env = always | {"PRELOAD_SEED": str(seed)}
        andrew.start(root, "--rounds", 8, "--fsync", env=env).wait(120)
        processes = andrew.processes(root)
        assert andrew.verify(root, processes)["differences"] == [], seed
        operations |= {words.split()[1] for process in processes for words in process.words}
    assert operations >= {"create", "copy"}


@pytest.mark.parametrize(
    "command",
    [
        "", "run", "run --dir . --processes 9", "run --dir . --stream 6", "run --dir . x",
        *(f"verify --dir . {wrong}" for wrong in (
            "--seed x", "--done 1,2", "--done 1,2,3,4 --intent 1,3,4,5", "--failed 1:EIO///",
            "--done 5,5,5,5 --failed 3:EIO,2:EIO///",
        )),
    ],
)  # fmt: skip
def test_wrong_use(andrew: Andrew, command: str) -> None:
    result = andrew(*command.split())
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert result.stderr.startswith("andrew: ")


def test_a_place_that_is_not_prepared(andrew: Andrew, tmp_path: Path) -> None:
    assert andrew("run", "--dir", tmp_path, "--seed", SEED).returncode == 1


def test_rounds_stand_for_steps(andrew: Andrew, copied: tuple[Path, list[Process]]) -> None:
    """What a measured run leaves is judged without reports."""
    root, _ = copied
    where = ["--dir", root, "--seed", SEED, "--files", FILES, "--scratch", root.parent]
    assert [andrew("verify", *where, "--rounds", rounds).returncode for rounds in (1, 2, 3)] == [3, 0, 3]
    change(root / "p2/r2/dst/program")
    assert andrew("verify", *where, "--rounds", 2).returncode == 3
