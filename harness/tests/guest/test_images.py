# SPDX-License-Identifier: Apache-2.0
"""The key of a workload's image, room on disk, and tools that fail or are missing."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from riobed.errors import EnvironmentFault, UsageError
from riobed.guest.workload.images import workload_key
from riobed.vm.host.tools import need_memory, need_room, run_tool


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "load"
    (folder / "sub").mkdir(parents=True)
    (folder / "workload.yaml").write_text("name: load\n")
    (folder / "sub" / "run").write_bytes(b"\0\xff")
    return folder


def test_the_key_is_that_of_the_content(folder: Path, tmp_path: Path) -> None:
    key = workload_key(folder, "toolchain", "make")
    assert len(key) == 16 and int(key, 16) >= 0
    # In another place, made at another time.
    copy = folder.rename(tmp_path / "elsewhere")
    os.utime(copy / "workload.yaml", (1, 1))
    assert workload_key(copy, "toolchain", "make") == key


@pytest.mark.parametrize("change", [
    lambda folder: (folder / "workload.yaml").write_text("name: lord\n"),
    lambda folder: (folder / "sub" / "run").write_bytes(b"\0\xff\0"),
    lambda folder: (folder / "sub" / "run").rename(folder / "sub" / "ran"),
    lambda folder: (folder / "sub" / "run").rename(folder / "run"),
    lambda folder: (folder / "sub" / "run").chmod(0o755),
    lambda folder: (folder / "sub" / "run").unlink(),
    lambda folder: (folder / "empty").touch(),
])  # fmt: skip
def test_any_change_of_the_files_changes_the_key(folder: Path, change: Callable[[Path], object]) -> None:
    before = workload_key(folder, "toolchain")
    change(folder)
    assert workload_key(folder, "toolchain") != before


def test_what_it_is_built_with_changes_the_key(folder: Path) -> None:
    contexts = [(), ("a",), ("b",), ("a", "make"), ("a", "make all"), ("amake",)]
    assert len({workload_key(folder, *context) for context in contexts}) == len(contexts)


@pytest.mark.parametrize("content", [b"b\x000\x00x", b"b\x000\x001\x00x"])
def test_content_cannot_pass_for_another_file(folder: Path, content: bytes) -> None:
    (folder / "a").touch()
    (folder / "b").write_bytes(b"x")
    before = workload_key(folder)
    (folder / "a").write_bytes(content)
    (folder / "b").unlink()
    assert workload_key(folder) != before


@pytest.mark.parametrize("make", [lambda path: path.symlink_to("/etc/passwd"), os.mkfifo])
def test_neither_file_nor_folder(folder: Path, make: Callable[[Path], object]) -> None:
    make(folder / "sub" / "odd")
    with pytest.raises(UsageError, match=f"^workload {folder}: odd is neither file nor folder"):
        workload_key(folder)


def test_room(tmp_path: Path) -> None:
    need_room(tmp_path / "new" / "folder", 1 << 20)
    assert (tmp_path / "new" / "folder").is_dir()
    with pytest.raises(EnvironmentFault, match=rf"^{tmp_path}: \d+ MiB free, 1099511627776 MiB needed; make"):
        need_room(tmp_path, 1 << 60)


def test_memory() -> None:
    need_memory(1 << 20, "a guest")
    with pytest.raises(
        EnvironmentFault, match=r"^12 guests take 1099511627776 MiB of memory, \d+ MiB are available; end"
    ):
        need_memory(1 << 60, "12 guests")


def test_a_tool_that_fails_says_its_last_line() -> None:
    assert run_tool(["echo", "fine"], "test") == "fine\n"
    for script, says in {
        "echo out; echo first >&2; echo last >&2; exit 3": "sh: last$",
        "exit 3": "sh: status 3$",
        "printf '\\377' >&2; exit 1": "sh: ",
    }.items():
        with pytest.raises(EnvironmentFault, match=rf"^image x: {says}"):
            run_tool(["sh", "-c", script], "image x")
    with pytest.raises(EnvironmentFault, match="nosuchtool is not installed"):
        run_tool(["nosuchtool"], "image x")
