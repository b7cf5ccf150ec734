# SPDX-License-Identifier: Apache-2.0
"""Wrong use ends with status 2, a wrong place with 1, and one line either way."""

from pathlib import Path

import pytest
from memtest_helper import SEED, STEPS, Memtest

WRONG = [
    "",
    "frobnicate",
    "model --seed 1 --steps 1 --colour",
    "model --seed 1 --steps 1 -x",
    "model --seed 1 --steps 1 --fsync",  # of another command
    "run --dir . --seed 1 --progress p --bug other",
    "model --steps 1 --seed",
    "model --seed 1 --steps 1 --json=yes",
    "model --seed 1 --steps 1 2",
    "model --steps 1",
    "model --seed 1",
    "verify --dir . --seed 1",
    "verify --seed 1 --done 1",
    "run --dir . --seed 1",
    *(f"model --steps 1 --seed={seed}" for seed in ("one", "-1", "1x", "", "18446744073709551616")),
    "model --seed 1 --steps 100000001",
    "model --seed 1 --steps 1 --max-bytes 10",
    "prepare --dir . --twins 100000",
    *(f"prepare --dir . --twin-bytes {size}" for size in (0, 262145)),
    *(f"verify --dir . --seed 1 --done 5 --intent {intent}" for intent in (5, 7)),
    "verify --dir . --seed 1 --done 5 --oldest 6",
    *(f"model --seed 1 --steps 9 --failed {bad}" for bad in ("3", "3:", "3:EIO,", "3:E/O", "0:EIO", "x:EIO")),
    *(f"model --seed 1 --steps 9 --failed {bad}" for bad in ("4:EIO,3:EIO", "3:EIO,3:EIO", "10:EIO")),
    "model --seed 1 --steps 9 --failed 1:EIO",  # tree takes no names any more, and nothing is in it
]


@pytest.mark.parametrize("command", WRONG)
def test_wrong_use(memtest: Memtest, command: str) -> None:
    result = memtest(*command.split())
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("memtest: ") and result.stderr.count("\n") == 1


def test_the_line_names_what_is_wrong(memtest: Memtest) -> None:
    assert "--colour" in memtest("model", "--json", "--colour", "--seed", 1).stderr
    assert "-x" in memtest("model", "--json", "-xyz", "--seed", 1).stderr
    assert "--seed" in memtest("model", "--seed", "one", "--steps", 1).stderr


@pytest.mark.parametrize("command", ["--help", "run --help"])
def test_help(memtest: Memtest, command: str) -> None:
    result = memtest(*command.split())
    assert (result.returncode, result.stderr) == (0, "")
    for word in ("prepare", "run", "verify", "model", "steps", "--max-bytes"):
        assert word in result.stdout


def assert_environment(memtest: Memtest, *command: object) -> None:
    result = memtest(*command)
    assert result.returncode == 1, result.stderr
    assert result.stderr.startswith("memtest: ") and result.stderr.count("\n") == 1


def test_prepare_wants_a_place_of_its_own(memtest: Memtest, tree: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert_environment(memtest, "prepare", "--dir", tree)
    assert_environment(memtest, "prepare", "--dir", tmp_path / "file")
    assert_environment(memtest, "prepare", "--dir", tmp_path / "no" / "such" / "place")
    assert memtest.differences(tree, SEED, STEPS) == []


def test_run_wants_a_fresh_directory(memtest: Memtest, tree: Path, tmp_path: Path) -> None:
    progress = tmp_path / "progress"
    for place in (tree, tmp_path, tmp_path / "none"):
        assert_environment(memtest, "run", "--dir", place, "--seed", 1, "--steps", 9, "--progress", progress)
    assert not progress.exists()
    assert memtest.differences(tree, SEED, STEPS) == []


def test_run_makes_its_progress_file(memtest: Memtest, tmp_path: Path) -> None:
    memtest.prepare(tmp_path / "dir")
    command = ["run", "--dir", "dir", "--seed", 1, "--steps", 0, "--progress", "log"]
    assert memtest(*command, cwd=tmp_path).returncode == 0
    assert (tmp_path / "log").read_text().startswith("S 0 ")


@pytest.mark.parametrize("path", ["no/such/place", "/dev/no-such-device", "/dev/full"])
def test_run_wants_a_progress_channel_that_works(memtest: Memtest, tmp_path: Path, path: str) -> None:
    memtest.prepare(tmp_path / "dir")
    run = ["run", "--dir", tmp_path / "dir", "--seed", 1, "--steps", 9, "--progress"]
    assert_environment(memtest, *run, path)
    assert not Path("/dev/no-such-device").exists()
    assert memtest.differences(tmp_path / "dir", 1, 0) == []


def test_an_io_port_is_a_number(memtest: Memtest, tmp_path: Path) -> None:
    memtest.prepare(tmp_path / "dir")
    run = ["run", "--dir", tmp_path / "dir", "--seed", 1, "--steps", 9, "--progress"]
    for number in ("", "0", "x", "0x403x", "65536", "-1"):
        result = memtest(*run, f"port:{number}")
        assert result.returncode == 2 and f"port:{number} is no I/O port" in result.stderr
    assert memtest.differences(tmp_path / "dir", 1, 0) == []


def test_verify_wants_a_place_to_look(memtest: Memtest, tmp_path: Path) -> None:
    assert_environment(memtest, "verify", "--dir", tmp_path / "no" / "such", "--seed", 1, "--done", 9)


def test_standard_output_that_is_full(memtest: Memtest) -> None:
    with Path("/dev/full").open("w") as full:
        result = memtest("model", "--seed", 1, "--steps", 9, capture_output=False, stdout=full, stderr=-1)
    assert result.returncode == 1
    assert "standard output" in result.stderr
