# SPDX-License-Identifier: Apache-2.0
"""The key of a workload's image, room on disk, and tools that fail or are missing."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from riobed.errors import EnvironmentFault, UsageError
from riobed.guest.images import workload_key
from riobed.vm.host import need_room, run_tool


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "load"
    (folder / "sub").mkdir(parents=True)
    (folder / "workload.yaml").write_text("name: load\n")
    (folder / "sub" / "run").write_bytes(b"\0\xff")
    return folder


def test_the_key_is_that_of_the_content(folder: Path, tmp_path: Path) -> None:
    key = workload_key(folder, "toolchain", "make")
    assert len(key) == 16
    assert int(key, 16) >= 0
    copy = tmp_path / "elsewhere"
    (copy / "sub").mkdir(parents=True)
    # Made in another order, at another time, in another place.
    (copy / "sub" / "run").write_bytes(b"\0\xff")
    (copy / "workload.yaml").write_text("name: load\n")
    os.utime(copy / "workload.yaml", (1, 1))
    assert workload_key(copy, "toolchain", "make") == key


CHANGES: list[Callable[[Path], object]] = [
    lambda folder: (folder / "workload.yaml").write_text("name: lord\n"),
    lambda folder: (folder / "sub" / "run").write_bytes(b"\0\xff\0"),
    lambda folder: (folder / "sub" / "run").rename(folder / "sub" / "ran"),
    lambda folder: (folder / "sub" / "run").rename(folder / "run"),
    lambda folder: (folder / "sub" / "run").chmod(0o755),
    lambda folder: (folder / "sub" / "run").unlink(),
    lambda folder: (folder / "empty").touch(),
]


@pytest.mark.parametrize("change", CHANGES)
def test_any_change_of_the_files_changes_the_key(folder: Path, change: Callable[[Path], object]) -> None:
    before = workload_key(folder, "toolchain")
    change(folder)
    assert workload_key(folder, "toolchain") != before


def test_what_it_is_built_with_changes_the_key(folder: Path) -> None:
    contexts = [(), ("a",), ("b",), ("a", "make"), ("a", "make all"), ("amake",)]
    assert len({workload_key(folder, *context) for context in contexts}) == len(contexts)


@pytest.mark.parametrize("content", [b"b\x000\x00x", b"b\x000\x001\x00x"])
def test_content_cannot_pass_for_another_file(tmp_path: Path, content: bytes) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    (one / "a").write_bytes(b"")
    (one / "b").write_bytes(b"x")
    (two / "a").write_bytes(content)
    assert workload_key(one) != workload_key(two)


@pytest.mark.parametrize(
    "make", [lambda path: path.symlink_to("/etc/passwd"), os.mkfifo], ids=["link", "pipe"]
)
def test_neither_file_nor_folder(folder: Path, make: Callable[[Path], object]) -> None:
    make(folder / "sub" / "odd")
    with pytest.raises(UsageError) as caught:
        workload_key(folder)
    assert str(caught.value) == f"workload {folder}: odd is neither file nor folder; take it out"


def test_room(tmp_path: Path) -> None:
    need_room(tmp_path / "new" / "folder", 1 << 20)
    assert (tmp_path / "new" / "folder").is_dir()
    with pytest.raises(EnvironmentFault, match=rf"^{tmp_path}: \d+ MiB free, 1099511627776 MiB needed; make"):
        need_room(tmp_path, 1 << 60)


def test_a_tool_that_fails_says_its_last_line() -> None:
    assert run_tool(["echo", "fine"], "test") == "fine\n"
    with pytest.raises(EnvironmentFault) as caught:
        run_tool(["sh", "-c", "echo out; echo first >&2; echo last >&2; exit 3"], "image x")
    assert str(caught.value) == "image x: sh: last"
    with pytest.raises(EnvironmentFault, match=r"^image x: sh: status 3$"):
        run_tool(["sh", "-c", "exit 3"], "image x")
    with pytest.raises(EnvironmentFault, match="nosuchtool is not installed"):
        run_tool(["nosuchtool"], "image x")
    with pytest.raises(EnvironmentFault, match="sh: "):
        run_tool(["sh", "-c", "printf '\\377' >&2; exit 1"], "image x")
