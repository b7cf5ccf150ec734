# SPDX-License-Identifier: Apache-2.0
"""What allocate stores it reads again, and its oracle finds what is wrong in memory and in its result."""

import os
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def allocate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("allocate-build")
    subprocess.run(["make", "-s", "-C", SOURCE, f"O={out}", "sanitize"], check=True)
    return out / "allocate-sanitize"


def run(program: Path, *arguments: object) -> tuple[int, str, str]:
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("more", [(), ("--fsync",)])
def test_a_sound_run_is_right(allocate: Path, tmp_path: Path, more: tuple[str, ...]) -> None:
    result = tmp_path / "result"
    assert run(allocate, "check", result) == (0, "", ""), "no run has ended yet"
    assert run(allocate, "grow", result, 3, 2**64 - 1, *more) == (0, "", "")
    assert result.read_text().split()[:2] == ["3", str(2**64 - 1)]
    assert run(allocate, "check", result) == (0, "", "")
    assert [path.name for path in tmp_path.iterdir()] == ["result"]


@pytest.mark.parametrize(
    "damage", ["", "3 7", "3 8 {sum}", "2 7 {sum}", "3 7 {sum}1", "-3 7 {sum}", "99999 7 {sum}"]
)
def test_a_damaged_result_is_found(allocate: Path, tmp_path: Path, damage: str) -> None:
    result = tmp_path / "result"
    assert run(allocate, "grow", result, 3, 7)[0] == 0
    result.write_text(damage.format(sum=result.read_text().split()[2]))
    status, said, _ = run(allocate, "check", result)
    assert status == 3 and '"difference_count": 1' in said


def test_memory_that_changed_is_found(tmp_path: Path) -> None:
    program, library = tmp_path / "allocate", tmp_path / "preload.so"
    flags = ["-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["cc", *flags, "-o", program, SOURCE / "allocate.c"], check=True)
    made = ["-shared", "-fPIC", "-o", library, SOURCE / "tests/preload_mmap.c", "-ldl"]
    subprocess.run(["cc", *flags, *made], check=True)

    def grow(**more: str) -> tuple[int, str]:
        done = subprocess.run(
            [program, "grow", tmp_path / "result", "3", "7"],
            env=os.environ | {"LD_PRELOAD": str(library)} | more,
            capture_output=True,
            text=True,
        )
        return done.returncode, done.stderr

    # Before it was filled, a change is overwritten.
    assert grow(DAMAGE_AT="1") == (0, "")
    (tmp_path / "result").unlink()
    assert grow(DAMAGE_AT="3") == (3, "allocate: memory differs from what was stored\n")
    assert not (tmp_path / "result").exists()


@pytest.mark.parametrize(
    "arguments", [(), ("grow",), ("grow", "x", "0", "1"), ("grow", "x", "1", "-1"), ("check", "x", "y"),
                  ("grow", "x", "1", "1", "--sync"), ("grow", "x", "65537", "1")],
)  # fmt: skip
def test_wrong_use(allocate: Path, arguments: tuple[str, ...]) -> None:
    status, said, error = run(allocate, *arguments)
    assert (status, said) == (2, "") and error.startswith("allocate: ") and error.count("\n") == 1


def test_a_file_that_cannot_be_written(allocate: Path, tmp_path: Path) -> None:
    status, _, error = run(allocate, "grow", tmp_path / "no" / "result", 1, 1)
    assert status == 1 and "No such file" in error
