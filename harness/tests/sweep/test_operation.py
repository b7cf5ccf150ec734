# SPDX-License-Identifier: Apache-2.0
"""The program that carries out operations and lists trees, built with sanitizers."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from riobed.errors import InfraError
from riobed.products import CHECKOUT
from riobed.sweep.operations import BESIDE, OPERATIONS, Operation, load_operations
from riobed.sweep.tree import parse_tree

SANITIZE = "-O1 -g -Wall -Wextra -Werror -fsanitize=address,undefined -fno-sanitize-recover=all"
SOURCES = CHECKOUT / "workloads/sweep"


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("operation") / "operation"
    sources = sorted(map(str, SOURCES.glob("*.c")))
    subprocess.run(["cc", "-D_GNU_SOURCE", *SANITIZE.split(), "-o", built, *sources], check=True)
    return built


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """An ext4 of its own: not every file system has all that fallocate() can do."""
    if os.geteuid():
        pytest.skip("this host lacks root")
    image, mount = tmp_path / "image", tmp_path / "mount"
    mount.mkdir()
    path = {"PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
    subprocess.run(["mke2fs", "-q", "-F", "-b", "4096", "-t", "ext4", image, "32M"], check=True, env=path)
    subprocess.run(["mount", "-o", "loop", image, mount], check=True, env=path)
    yield mount
    subprocess.run(["umount", mount], check=True, env=path)


def run(program: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([program, *words], capture_output=True)


def do(program: Path, folder: Path, steps: str) -> None:
    done = run(program, "do", str(folder), *steps.split())
    assert (done.returncode, done.stderr) == (0, b"")


def test_each_operation_can_be_carried_out(program: Path, folder: Path) -> None:
    for name, operation in load_operations().items():
        changed(program, folder, name, operation)


def changed(program: Path, folder: Path, name: str, operation: Operation) -> None:
    place = folder / name
    place.mkdir()
    do(program, place, " , ".join(step for step in ("mkdir it", operation.prepare, "renew it") if step))
    before = parse_tree(run(program, "tree", str(place)).stdout)
    do(program, place, operation.act)
    after = parse_tree(run(program, "tree", str(place)).stdout)
    # What changes nothing that is compared shows nothing, but for times and what is synced.
    same = name in ("touch", "fsync", "fallocate-keep")
    assert (before == after) == same, name


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "wants do FOLDER STEP"),
        (("do", "/tmp", "erase", "a"), "erase: no such verb, or not with 1 operands"),
        (("do", "/tmp", "create"), "create: no such verb, or not with 0 operands"),
        (("do", "/nowhere", "create", "a"), "wants do FOLDER STEP"),
    ],
)
def test_wrong_use_is_named(program: Path, words: tuple[str, ...], says: str) -> None:
    done = run(program, *words)
    assert done.returncode == 2 and says in done.stderr.decode()


def test_a_step_that_fails_is_named(program: Path, tmp_path: Path) -> None:
    done = run(program, "do", str(tmp_path), "unlink", "a")
    assert (done.returncode, done.stderr) == (1, b"operation: unlink a: No such file or directory\n")


def test_a_listing_that_is_cut_short_is_no_tree(program: Path, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    listing = run(program, "tree", str(tmp_path)).stdout
    assert parse_tree(listing).keys() == {b"/", b"/a"}
    with pytest.raises(InfraError, match="cut short"):
        parse_tree(listing[:-1])


def test_operations_are_of_the_folder_that_is_built() -> None:
    assert OPERATIONS.parent == SOURCES


@pytest.mark.parametrize("beside", [name for name, task in BESIDE.items() if task.file])
def test_a_task_beside_leaves_what_the_operation_has_written(
    program: Path, tmp_path: Path, beside: str
) -> None:
    do(program, tmp_path, "mkdir it , write it/a 0 400000 n")
    written = (tmp_path / "it/a").read_bytes()
    do(program, tmp_path, BESIDE[beside].steps)
    assert (tmp_path / "it/a").read_bytes() == written


def test_a_task_beside_gives_a_hole_a_block(program: Path, folder: Path) -> None:
    do(program, folder, f"mkdir it , create it/a , {BESIDE['hole'].prepare}")
    assert (folder / "it/a").stat().st_blocks == 0
    do(program, folder, BESIDE["hole"].steps)
    assert (folder / "it/a").stat().st_blocks * 512 == 4096


def test_a_task_beside_ends_with_a_whole_turn(program: Path, tmp_path: Path) -> None:
    (tmp_path / "beside").mkdir()
    file = tmp_path / "beside/b"
    steps = BESIDE["truncate"].steps.split()
    with subprocess.Popen([program, "beside", tmp_path, "0", *steps]) as task:
        while not file.exists():
            assert task.poll() is None
        task.terminate()
    assert (task.returncode, file.stat().st_size) == (0, 5000)
