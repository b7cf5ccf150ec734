# SPDX-License-Identifier: Apache-2.0
"""What block-map says of files leads to their bytes on the disk that they are on."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from riobed.trial.recovery.contents import parse_map, pieces
from riobed.vm import Qcow2, find_tool

SOURCE = Path(__file__).resolve().parents[1]


def run(name: str, *arguments: object) -> str:
    return subprocess.run(
        [find_tool(name), *map(str, arguments)], check=True, capture_output=True, text=True
    ).stdout


@pytest.fixture(scope="module")
def block_map(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("block-map")
    subprocess.run(["make", "-s", "-C", SOURCE, f"O={out}"], check=True)
    return out / "block-map"


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Path]:
    """An ext4 file system in tmp_path / disk."""
    run("mke2fs", "-q", "-t", "ext4", "-b", 4096, tmp_path / "disk", "32M")
    folder = tmp_path / "mounted"
    folder.mkdir()
    try:
        run("mount", "-o", "loop", tmp_path / "disk", folder)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"this host lacks loop devices: {error.stderr.strip()}")
    yield folder
    subprocess.run([find_tool("umount"), "-l", folder], check=True)


def said(block_map: Path, folder: Path, paths: list[str]) -> subprocess.CompletedProcess[bytes]:
    listed = folder.parent / "list"
    listed.write_text("".join(f"{path}\n" for path in paths))
    return subprocess.run([block_map, folder, listed], capture_output=True)


def test_the_bytes_are_there(block_map: Path, mounted: Path) -> None:
    right = {"small": b"a", "a b": os.urandom(300000), "many": b""}
    for name, data in right.items():
        (mounted / name).write_bytes(data)
    # More pieces than one call tells, with holes between them, one that was never written, and a short end.
    with (mounted / "many").open("r+b") as many:
        for number in range(150):
            many.seek(8192 * number)
            many.write(os.urandom(4096))
        os.posix_fallocate(many.fileno(), 8192 * 160, 4096)
        many.truncate(8192 * 170 + 5)
    right["many"] = (mounted / "many").read_bytes()
    result = said(block_map, mounted, [*right])
    assert result.returncode == 0, result.stderr
    image = mounted.parent / "disk.qcow2"
    run("qemu-img", "convert", "-O", "qcow2", mounted.parent / "disk", image)
    with Qcow2(image) as opened:
        files = parse_map(result.stdout, opened.size)
        assert {os.fsdecode(file.path): file.size for file in files} == {n: len(d) for n, d in right.items()}
        for file in files:
            found = b"".join(
                bytes(length) if at is None else os.pread(opened.fd, length, at)
                for at, length in pieces(opened, file)
            )
            assert found == right[os.fsdecode(file.path)]


def test_what_is_not_there_fails(block_map: Path, mounted: Path) -> None:
    (mounted / "link").symlink_to("small")
    for path in ("none", "link"):
        result = said(block_map, mounted, [path])
        assert result.returncode == 1 and path.encode() in result.stderr
    assert subprocess.run([block_map, mounted], capture_output=True).returncode == 2
