# SPDX-License-Identifier: Apache-2.0
"""What is read of an image, by where its bytes lie in the file, is what QEMU reads."""

import os
import subprocess
from pathlib import Path

import pytest
from riobed.errors import InfraError
from riobed.vm import Qcow2

SIZE = 3 << 20


def run(*argv: object) -> None:
    subprocess.run([*map(str, argv)], check=True, capture_output=True)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """An image with a snapshot, written before and after it, with zeros and holes."""
    path = tmp_path / "disk.qcow2"
    run("qemu-img", "create", "-q", "-f", "qcow2", path, SIZE)
    run("qemu-io", "-c", "write -P 1 100000 300000", "-c", "write -P 2 2000000 5000", path)
    run("qemu-img", "snapshot", "-c", "ready", path)
    run("qemu-io", "-c", "write -P 3 200000 70000", "-c", "write -z 131072 65536", path)
    return path


def read(image: Qcow2, start: int, length: int) -> bytes:
    pieces = image.pieces(start, length)
    return b"".join(bytes(size) if at is None else os.pread(image.fd, size, at) for at, size in pieces)


def test_it_reads_what_qemu_reads(image: Path, tmp_path: Path) -> None:
    run("qemu-img", "convert", "-O", "raw", image, tmp_path / "raw")
    right = (tmp_path / "raw").read_bytes()
    with Qcow2(image) as opened:
        assert opened.size == SIZE
        for start, length in ((0, SIZE), (99999, 3), (131071, 70000), (199000, 80000), (2000000, 5001)):
            assert read(opened, start, length) == right[start : start + length]
        with pytest.raises(InfraError, match="not on it"):
            list(opened.pieces(SIZE - 1, 2))


@pytest.mark.parametrize(("at", "byte", "why"), [
    (0, 0, "is not a qcow2 image"), (7, 9, "is not a qcow2 image"), (23, 60, "is not a qcow2 image"),
    (36, 255, "is not a qcow2 image"), (15, 8, "cannot be read here"), (35, 1, "cannot be read here"),
    (79, 4, "cannot be read here"), (40, 255, "is cut short"), (41, 255, "is cut short"),
])  # fmt: skip
def test_what_is_damaged_or_of_another_kind_is_refused(image: Path, at: int, byte: int, why: str) -> None:
    data = bytearray(image.read_bytes())
    data[at] = byte
    image.write_bytes(data)
    with pytest.raises(InfraError, match=why):
        Qcow2(image)
