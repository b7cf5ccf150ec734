# SPDX-License-Identifier: Apache-2.0
"""Listing of a tree and its comparison: every kind of change is found, and no other."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from riobed.errors import InfraError
from riobed.guest.workload import tree
from riobed.guest.workload.tree import Entry, Tree, differences, parse


def listing_of(folder: Path) -> bytes:
    """What the guest's shell prints, printed by this host's."""
    script = tree.script().replace("cd /mnt/test", f"cd '{folder}'")
    return subprocess.run(["/bin/sh", "-c", script], capture_output=True, check=True).stdout


ODD = "two\nlines  and 'quote'"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "mount"
    (folder / "lost+found").mkdir(parents=True)
    (folder / "lost+found" / "#12").write_text("not ours")
    (folder / "d" / "e").mkdir(parents=True)
    (folder / "d" / "file").write_bytes(b"abc")
    (folder / "empty").touch()
    (folder / ODD).write_bytes(b"x")
    (folder / "link").symlink_to("d/file")
    os.link(folder / "d" / "file", folder / "hard")
    os.mkfifo(folder / "pipe")
    with (folder / os.fsdecode(b"\xff")).open("wb") as file:
        file.truncate(1 << 20)
    return folder


def test_the_listing_has_every_entry(folder: Path) -> None:
    found = parse(listing_of(folder))
    assert set(found) == {
        b".", b"./d", b"./d/e", b"./d/file", b"./empty", b"./hard", b"./link", b"./pipe",
        b"./two\nlines  and 'quote'", b"./\xff",
    }  # fmt: skip
    # The test vector of FIPS 180-2, appendix B.1.
    abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    owner = f"{os.getuid()}:{os.getgid()}"
    assert found[b"./d/file"] == found[b"./hard"] == Entry("f", f"644 2 {owner} 3", abc)
    assert found[b"./link"] == Entry("l", f"777 1 {owner} 6", "d/file")
    assert found[b"./d"].kind == "d" and found[b"./pipe"].kind == "p"


CHANGES: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "nothing": (lambda f: (f / "lost+found/#13").touch(), []),
    "time": (lambda f: os.utime(f / "empty", (1, 1)), []),
    "content": (lambda f: (f / "d/file").write_bytes(b"abd"), ["'./d/file': content ", "'./hard': content "]),
    "size": (lambda f: (f / "empty").write_bytes(b"\0"), ["'./empty': attributes 644 1 "]),
    "hole": (lambda f: os.truncate(f / os.fsdecode(b"\xff"), 1 << 19), ["'./\\udcff': attributes "]),
    "mode": (lambda f: (f / "d/e").chmod(0o700), ["'./d/e': attributes 755 2 "]),
    "removed": (lambda f: (f / ODD).unlink(), ["\"./two\\nlines  and 'quote'\": missing"]),
    "added": (lambda f: (f / "new").touch(), ["'./new': extra"]),
    "target": (lambda f: ((f / "link").unlink(), (f / "link").symlink_to("d/fils")), ["'./link': con"]),
    "type": (lambda f: ((f / "pipe").unlink(), (f / "pipe").touch()), ["'./pipe': type p became f"]),
    "unlinked": (lambda f: (f / "hard").unlink(), ["'./d/file': attributes 644 2 ", "'./hard': missing"]),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_a_difference(folder: Path, change: str) -> None:
    act, expected = CHANGES[change]
    before = parse(listing_of(folder))
    assert list(differences(before, before)) == []
    act(folder)
    found = list(differences(before, parse(listing_of(folder))))
    assert len(found) == len(expected)
    for line, begins in zip(found, expected, strict=True):
        assert line.startswith(begins), line


def test_a_listing_cut_short_is_refused(folder: Path) -> None:
    whole = listing_of(folder)
    for length in range(0, len(whole), 7):
        with pytest.raises(InfraError, match="cut short"):
            parse(whole[:length])
    with pytest.raises(InfraError, match="malformed"):
        parse(b"./name" + tree._END)


def test_an_empty_tree() -> None:
    entry = Entry("d", "755 2 0:0", "")
    before: Tree = {b".": entry, b"./a": entry}
    assert list(differences(before, {b".": entry})) == ["'./a': missing"]
