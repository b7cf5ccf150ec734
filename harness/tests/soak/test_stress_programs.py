# SPDX-License-Identifier: Apache-2.0
"""The stress suite's own programs, on the host: `steps check` accepts what was done and nothing else."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from riobed.products import CHECKOUT

STRICT = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", "-pthread"]
SEED = "7"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    folder = tmp_path_factory.mktemp("programs")

    def build(name: str) -> str:
        sources = sorted((CHECKOUT / "workloads/stress/src" / name).glob("*.c"))
        subprocess.run(["gcc", *STRICT, *map(str, sources), "-o", str(folder / name)], check=True)
        return str(folder / name)

    return build


@pytest.fixture(scope="module")
def steps(program: Callable[[str], str]) -> str:
    return program("steps")


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Path]:
    tree = tmp_path / "tree"
    tree.mkdir()
    yield tree
    subprocess.run(["chattr", "-R", "-f", "-i", "-a", str(tree)], check=False)


def run(steps: str, tree: Path, count: int) -> Path:
    log = tree.parent / "log"
    done = subprocess.run(
        [steps, "run", str(tree), SEED, str(log), str(count)], capture_output=True, text=True
    )
    if done.returncode == 69:
        pytest.skip(f"{done.stderr.strip()}: needs ext4")
    assert done.returncode == 0, done.stderr
    return log


def check(steps: str, tree: Path, log: Path) -> tuple[int, str]:
    done = subprocess.run([steps, "check", str(tree), SEED, str(log)], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="changes owners and flags")


def test_what_was_done_is_right_with_or_without_its_last_report(steps: str, tree: Path) -> None:
    log = run(steps, tree, 3000)
    assert check(steps, tree, log)[0] == 0
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:-1]) + lines[-1][:2])
    assert check(steps, tree, log)[0] == 0
    log.write_bytes(b"".join(lines[:-9]))
    assert check(steps, tree, log)[0] == 1
    log.write_bytes(b"".join(lines[:5] + lines[6:]))
    assert check(steps, tree, log)[0] == 69


def test_a_run_that_was_killed(steps: str, tree: Path) -> None:
    run(steps, tree, 0)
    log = tree.parent / "log"
    process = subprocess.Popen([steps, "run", str(tree), SEED, str(log)])
    while log.stat().st_size < 4000:
        assert process.poll() is None
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    status, said = check(steps, tree, log)
    assert status == 0 and log.stat().st_size, said


def first(tree: Path, kind: Callable[[Path], bool]) -> Path:
    return next(path for path in sorted(tree.rglob("*")) if kind(path))


def spoil(path: Path) -> None:
    with path.open("r+b") as file:
        byte = file.read(1)
        file.seek(0)
        file.write(bytes([byte[0] ^ 1]))


def change(path: Path) -> None:
    """As recovery would that writes a file anew."""
    status = path.stat()
    spoil(path)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def has_content(path: Path) -> bool:
    return path.is_file() and not path.is_symlink() and path.stat().st_size > 0


def attributes(path: Path, kind: str) -> list[str]:
    return [name for name in os.listxattr(path, follow_symlinks=False) if name.startswith(kind)]


def remove_attribute(tree: Path, kind: str) -> None:
    path = first(tree, lambda path: bool(attributes(path, kind)))
    os.removexattr(path, attributes(path, kind)[0])


DAMAGE: dict[str, Callable[[Path], object]] = {
    "content differs from byte 0": lambda tree: change(first(tree, has_content)),
    "modified at": lambda tree: os.utime(first(tree, Path.is_dir), (1, 1)),
    "mode 7": lambda tree: first(tree, Path.is_dir).chmod(0o7),
    "owner": lambda tree: os.chown(first(tree, Path.is_dir), 7, 7),
    "attribute": lambda tree: remove_attribute(tree, "user."),
    "another ACL": lambda tree: remove_attribute(tree, "system.posix_acl"),
    "missing": lambda tree: first(tree, Path.is_fifo).unlink(),
    "extra": lambda tree: (tree / "new").touch(),
    "links instead of": lambda tree: os.link(first(tree, has_content), tree / "link"),
    "leads elsewhere": lambda tree: (
        (path := first(tree, Path.is_symlink)).unlink(), path.symlink_to("nowhere")
    ),
}  # fmt: skip


@pytest.mark.parametrize("word", DAMAGE)
def test_damage_is_found(steps: str, tree: Path, word: str) -> None:
    log = run(steps, tree, 800)
    subprocess.run(["chattr", "-R", "-f", "-i", "-a", str(tree)], check=False)
    DAMAGE[word](tree)
    status, said = check(steps, tree, log)
    assert status == 1 and word in said, said


def test_stores_through_pinned_pages(program: Callable[[str], str], tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(os.urandom(1 << 19))
    done = subprocess.run(
        [program("pinned"), "1", SEED, str(source)], cwd=tmp_path, capture_output=True, text=True
    )
    if done.returncode == 69:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list(tmp_path.glob("pinned.*"))) == 4


def contents(tree: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in tree.rglob("*") if has_content(path)}


def test_a_write_in_flight_may_have_changed_a_file_and_not_yet_its_size(steps: str, tree: Path) -> None:
    """The reset came when the part of the file that was there before was written."""
    before: dict[Path, bytes] = {}
    for count in range(190, 400):
        subprocess.run(["chattr", "-R", "-f", "-i", "-a", str(tree)], check=False)
        shutil.rmtree(tree)
        tree.mkdir()
        log = run(steps, tree, count)
        after = contents(tree)
        changed = [path for path in after if after[path] != before.get(path)]
        if before.keys() == after.keys() and len(changed) == 1:
            old, new = before[changed[0]], after[changed[0]]
            # One that inserts keeps the end.
            if len(old) < len(new) and not new.startswith(old) and not new.endswith(old[-64:]):
                break
        before = after
        log.unlink()
    else:
        raise AssertionError("no step of that kind")
    os.truncate(changed[0], len(before[changed[0]]))
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))
    status, said = check(steps, tree, log)
    assert status == 0 and "one in flight" in said, said


@pytest.mark.parametrize("damage", [b"", os.urandom(8 * 4096)], ids=["right", "overwritten"])
def test_mappings_that_come_and_go(program: Callable[[str], str], tmp_path: Path, damage: bytes) -> None:
    process = subprocess.Popen(
        [program("remapped"), "1", SEED, "3"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    while damage and process.poll() is None:
        with suppress(FileNotFoundError), (tmp_path / "remapped").open("r+b") as file:
            file.write(damage)
    said = process.communicate()[0]
    if damage:
        assert process.returncode == 1 and "differs" in said, said
    else:
        assert (process.returncode, said.count(" mappings\n")) == (0, 3)
