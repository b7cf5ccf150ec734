# SPDX-License-Identifier: Apache-2.0
"""Verify on damaged directories: each kind of damage is found, named, and harms nobody."""

import ctypes
import os
import re
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from memtest_helper import SEED, STEPS, Memtest, flip


def files(root: Path, least: int = 0) -> list[str]:
    """Files of the step tree with at least that size, by name, relative to `root`."""
    found = [path for path in (root / "tree").rglob("f*") if path.stat().st_size >= least]
    return sorted(str(path.relative_to(root)) for path in found)


def dirs(root: Path, empty: bool) -> list[str]:
    """Directories of the step tree that are empty, or are not."""
    found = [path for path in (root / "tree").rglob("d*") if path.is_dir()]
    found = [path for path in found if empty == (not list(path.iterdir()))]
    return sorted(str(path.relative_to(root)) for path in found)


def one_difference(memtest: Memtest, root: Path, **keywords: Any) -> tuple[Any, ...]:
    """Path, kind, offset, length and detail of the only one."""
    (found,) = memtest.verify(root, SEED, STEPS, **keywords)["differences"]
    assert set(found) == {"path", "kind", "offset", "length", "detail"} and found["detail"]
    return tuple(found[key] for key in ("path", "kind", "offset", "length", "detail"))


def lost(memtest: Memtest, root: Path) -> tuple[int, int]:
    """How many files and bytes verify finds lost."""
    report = memtest.verify(root, SEED, STEPS)
    return report["files_lost"], report["bytes_lost"]


def below(path: Path) -> tuple[int, int]:
    """How many files and bytes are at and below a path."""
    sizes = [each.stat().st_size for each in (path, *path.rglob("*")) if each.is_file()]
    return len(sizes), sum(sizes)


def test_what_is_expected_is_counted_and_nothing_is_lost(memtest: Memtest, tree: Path) -> None:
    report = memtest.verify(tree, SEED, STEPS)
    assert (report["files_expected"], report["bytes_expected"]) == below(tree)
    assert lost(memtest, tree) == (0, 0)


def test_lost_bytes_are_those_that_are_wrong_or_not_there(memtest: Memtest, tree: Path) -> None:
    one, two = files(tree, 5000)[:2]
    # Between them are right bytes, so they are one stretch.
    flip(tree / one, 100)
    flip(tree / one, 130)
    assert lost(memtest, tree) == (1, 2)
    os.truncate(tree / two, (tree / two).stat().st_size - 7)
    assert lost(memtest, tree) == (2, 9)
    # More than there should be is wrong, but nothing of what was expected is lost.
    (tree / "twins/000.a").open("ab").write(b"more")
    (tree / "tree" / "extra").touch()
    assert lost(memtest, tree) == (3, 9)


@pytest.mark.parametrize("what", ["file", "full dir", "tree", "twins", "."])
def test_a_missing_file_is_lost_whole_and_a_directory_with_all_below(
    memtest: Memtest, tree: Path, what: str
) -> None:
    path = {"file": files(tree, 1), "full dir": dirs(tree, False)}.get(what, [what])[0]
    gone = below(tree / path)
    shutil.rmtree(tree / path) if (tree / path).is_dir() else (tree / path).unlink()
    assert lost(memtest, tree) == gone
    # Another thing in its place brings nothing back.
    (tree / path).symlink_to("/")
    assert lost(memtest, tree) == gone


@pytest.mark.parametrize("place", [0, 0.5, 1])
def test_one_flipped_byte(memtest: Memtest, tree: Path, place: float) -> None:
    path = files(tree, 5000)[0]
    offset = int(((tree / path).stat().st_size - 1) * place)
    flip(tree / path, offset)
    assert one_difference(memtest, tree)[:4] == (path, "content", offset, 1)


def test_a_page_of_zeroes_is_one_difference_of_its_length(memtest: Memtest, tree: Path) -> None:
    sizes = {path: (tree / path).read_bytes() for path in files(tree, 8192)}
    path, data = next(pair for pair in sizes.items() if 0 not in pair[1][4096:4104] + pair[1][8184:8192])
    (tree / path).write_bytes(data[:4096] + bytes(4096) + data[8192:])
    *place, detail = one_difference(memtest, tree)
    assert place == [path, "content", 4096, 4096]
    assert "zero" in detail and data[4096:4104].hex() in detail


def test_wrong_bytes_far_apart_are_two_differences(memtest: Memtest, tree: Path) -> None:
    path = files(tree, 5000)[0]
    flip(tree / path, 100)
    flip(tree / path, 4000)
    found = memtest.verify(tree, SEED, STEPS)["differences"]
    assert [(one["offset"], one["length"]) for one in found] == [(100, 1), (4000, 1)]


@pytest.mark.parametrize("new", [-7, 1 << 40], ids=["shortened", "of monstrous size"])
def test_a_file_of_another_size(memtest: Memtest, tree: Path, new: int) -> None:
    path = files(tree, 5000)[0]
    old = (tree / path).stat().st_size
    new = old + new if new < 0 else new
    os.truncate(tree / path, new)
    place = one_difference(memtest, tree)[:4]
    assert place == (path, "size", min(old, new), abs(old - new))


@pytest.mark.parametrize("what", ["file", "empty dir", "full dir", "tree", "twins", "twins/000.a"])
def test_something_is_missing(memtest: Memtest, tree: Path, what: str) -> None:
    found = {"file": files(tree), "empty dir": dirs(tree, True), "full dir": dirs(tree, False)}
    path = found.get(what, [what])[0]
    shutil.rmtree(tree / path) if (tree / path).is_dir() else (tree / path).unlink()
    assert one_difference(memtest, tree)[:2] == (path, "missing")


@pytest.mark.parametrize("folder", [".", "tree", "twins", "deep"])
def test_an_extra_entry(memtest: Memtest, tree: Path, folder: str) -> None:
    place = Path(dirs(tree, False)[0] if folder == "deep" else folder)
    (tree / place / "extra-file").write_bytes(b"x")
    (tree / place / "extra-dir" / "below").mkdir(parents=True)
    expected = {(str(place / "extra-file"), "extra"), (str(place / "extra-dir"), "extra")}
    assert set(memtest.differences(tree, SEED, STEPS)) == expected


def test_names_of_any_bytes_come_out_as_json(memtest: Memtest, tree: Path) -> None:
    name = b'\xff\x01"\\\n\xc3\xa9'
    Path(os.fsdecode(os.fsencode(tree / "tree") + b"/" + name)).write_bytes(b"")
    assert one_difference(memtest, tree)[:2] == ("tree/" + name.decode("latin-1"), "extra")


def test_many_differences_are_all_counted_and_100_listed(memtest: Memtest, tree: Path) -> None:
    for number in range(250):
        (tree / "tree" / f"extra{number}").touch()
    report = memtest.verify(tree, SEED, STEPS)
    assert report["difference_count"] == 250
    assert report["truncated"]
    assert {difference["kind"] for difference in report["differences"]} == {"extra"}


def bind(path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path.parent)  # the name of a socket is short
        socket.socket(socket.AF_UNIX).bind(path.name)


def make_wrong(path: Path, kind: str, outside: Path) -> None:
    {
        "symlink": lambda: path.symlink_to(outside),
        "fifo": lambda: os.mkfifo(path),
        "socket": lambda: bind(path),
        "dir": path.mkdir,
        "file": path.touch,
    }[kind]()


@pytest.mark.parametrize(
    ("which", "kind"),
    [("file", kind) for kind in ("symlink", "fifo", "socket", "dir")]
    + [(which, kind) for which in ("deep", "tree", "twins") for kind in ("symlink", "fifo", "file")],
)
def test_something_else(memtest: Memtest, tree: Path, tmp_path: Path, which: str, kind: str) -> None:
    """A symlink leads to what should be there, and is still wrong."""
    path = {"file": files(tree, 1)[0], "deep": dirs(tree, False)[0]}.get(which, which)
    make_wrong(tree / path, kind, (tree / path).rename(tmp_path / "outside"))
    *place, detail = one_difference(memtest, tree)
    assert place[:2] == [path, "type"] and kind in detail


@pytest.mark.parametrize("keep", [-1, -5, 0], ids=["last byte", "shorter", "empty"])
def test_a_changed_twin(memtest: Memtest, tree: Path, keep: int) -> None:
    path = tree / "twins" / "003.b"
    stat = path.stat()
    size = stat.st_size
    at = size + keep if keep else 0
    flip(path, at) if keep == -1 else os.truncate(path, at)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    place = one_difference(memtest, tree)[:4]
    assert place == ("twins/003.b", "twin", at, size - at)


def drop_capabilities() -> None:
    """Root obeys permissions, too; for others this does nothing. Numbers from linux/capability.h."""
    prctl = ctypes.CDLL(None).prctl
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


@pytest.mark.parametrize("kind", ["file", "dir"])
def test_unreadable(memtest: Memtest, tree: Path, kind: str) -> None:
    path = files(tree, 1)[0] if kind == "file" else dirs(tree, False)[0]
    mode = (tree / path).stat().st_mode
    (tree / path).chmod(0)
    try:
        *place, detail = one_difference(memtest, tree, preexec_fn=drop_capabilities)
    finally:
        (tree / path).chmod(mode)
    assert place[:2] == [path, "unreadable"] and "Permission denied" in detail


METADATA: dict[str, tuple[Callable[[Path], object], str]] = {
    "mode": (lambda path: path.chmod(0o4755 if path.is_file() else 0o777), "mode 4755|mode 0777"),
    "owner": (lambda path: os.chown(path, 7, -1), "owner 7:"),
    "group": (lambda path: os.chown(path, -1, 8), "owner [0-9]+:8"),
    "attribute": (lambda path: os.setxattr(path, "user.stray", b"x"), "extended attributes"),
}


@pytest.mark.parametrize("what", METADATA)
@pytest.mark.parametrize("kind", ["file", "dir"])
def test_wrong_metadata(memtest: Memtest, tree: Path, kind: str, what: str) -> None:
    if what in ("owner", "group") and os.geteuid():
        pytest.skip("needs root")
    path = files(tree, 1)[0] if kind == "file" else dirs(tree, True)[0]
    change, says = METADATA[what]
    try:
        change(tree / path)
    except OSError as error:
        pytest.skip(f"the file system of the tests has none: {error}")
    *place, detail = one_difference(memtest, tree)
    assert place == [path, "metadata", 0, 0] and re.match(says, detail)
    # No byte of it is lost.
    assert lost(memtest, tree) == (int(kind == "file"), 0)


def test_attributes_of_twins(memtest: Memtest, tmp_path: Path) -> None:
    tree, most = tmp_path / "dir", 300
    if memtest("prepare", "--dir", tree, "--xattrs", most).returncode:
        pytest.skip("the file system of the tests has no extended attributes")
    verify = ["verify", "--dir", tree, "--seed", SEED, "--done", 0]
    assert memtest(*verify, "--xattrs", most).returncode == 0
    values = [os.getxattr(path, "user.memtest") for path in (tree / "twins").iterdir()]
    assert len(set(values)) == 16 and 1 <= min(map(len, values)) < 150 < max(map(len, values)) <= most
    assert memtest(*verify).stdout.count("attributes, should have none") == 16
    path, value = tree / "twins/003.b", bytearray(os.getxattr(tree / "twins/003.b", "user.memtest"))
    for wrong in (bytes([value[0] ^ 1, *value[1:]]), bytes(value[:-1]), bytes([*value, 0])):
        os.setxattr(path, "user.memtest", wrong)
        said = memtest(*verify, "--xattrs", most)
        assert said.stdout.startswith('metadata "twins/003.b"') and ": 1 differences" in said.stdout
    os.removexattr(path, "user.memtest")
    assert memtest(*verify, "--xattrs", most).returncode == 3


def test_the_time_of_a_twin(memtest: Memtest, tree: Path) -> None:
    (tree / "twins/003.b").touch()
    *place, detail = one_difference(memtest, tree)
    assert place == ["twins/003.b", "metadata", 0, 0] and re.match(
        "mtime [0-9]{10}, should be 100000000", detail
    )


def test_a_link_from_somewhere_else(memtest: Memtest, tree: Path) -> None:
    path = files(tree, 1)[0]
    (tree.parent / "elsewhere").hardlink_to(tree / path)
    assert one_difference(memtest, tree) == (path, "metadata", 0, 0, "2 links, should be 1")


@pytest.mark.parametrize("slash", ["", "/"])
@pytest.mark.parametrize("kind", ["missing", "type"])
def test_the_test_directory_itself(memtest: Memtest, tree: Path, kind: str, slash: str) -> None:
    place = tree.with_name("place")
    if kind == "type":
        place.symlink_to(tree)
    result = memtest("verify", "--dir", f"{place}{slash}", "--seed", SEED, "--done", STEPS)
    assert result.returncode == 3
    assert result.stdout.startswith(f'{kind} "." ')


def test_text_names_the_same_differences(memtest: Memtest, tree: Path) -> None:
    path = files(tree, 100)[0]
    flip(tree / path, 3)
    (tree / "tree" / "odd\nname").touch()
    result = memtest("verify", "--dir", tree, "--seed", SEED, "--done", STEPS, *memtest.limit)
    extra, content, summary = result.stdout.splitlines()
    assert result.returncode == 3
    assert extra.startswith('extra "tree/odd\\u000aname" ')
    assert content.startswith(f'content "{path}" offset 3 length 1: ')
    assert summary.startswith(f"differs after step {STEPS}: 2 differences")
