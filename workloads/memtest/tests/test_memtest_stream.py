# SPDX-License-Identifier: Apache-2.0
"""The step stream: the same for the same seed, and what the model says of it."""

import collections
import itertools
import os
import resource
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from memtest_helper import SEED, SOURCE, STEPS, Memtest, crc32c, flip, listing


def test_crc32c_is_the_standard_one() -> None:
    assert crc32c(b"123456789") == 0xE3069283  # the check value of the CRC catalogue


def test_a_run_verifies_as_equal(memtest: Memtest, original: Path) -> None:
    report = memtest.verify(original, SEED, STEPS)
    entries = memtest.model(SEED, STEPS).values()
    files = [entry["size"] for entry in entries if entry["type"] == "file"]
    assert report["differences"] == []
    counted = report["files"], report["bytes"], report["dirs"]
    assert counted == (len(files), sum(files), len(entries) - len(files) + 1)


def test_the_model_is_what_lies_on_disk(memtest: Memtest, original: Path) -> None:
    assert memtest.model(SEED, STEPS) == listing(original)


def test_the_same_seed_makes_the_same_tree_with_and_without_fsync(
    memtest: Memtest, original: Path, tmp_path: Path
) -> None:
    memtest.run(tmp_path / "again", SEED, STEPS, "--fsync")
    assert listing(tmp_path / "again") == listing(original)


def test_another_seed_makes_another_tree(memtest: Memtest, original: Path, tmp_path: Path) -> None:
    memtest.run(tmp_path / "other", SEED + 1, STEPS)
    ours, theirs = listing(original), listing(tmp_path / "other")
    of_twins = {path for path in ours if path.startswith("twins")}
    assert {path: ours[path] for path in of_twins} == {path: theirs[path] for path in of_twins}
    one, other = (
        {entry["crc32c"] for path, entry in tree.items() if path not in of_twins and entry.get("size", 0) > 8}
        for tree in (ours, theirs)
    )
    assert len(one) > 10
    assert not one & other
    assert memtest.verify(tmp_path / "other", SEED, STEPS)["difference_count"] > 0


def test_twins_are_pairs_of_equal_files(original: Path) -> None:
    names = sorted(path.name for path in (original / "twins").iterdir())
    assert names == [f"{pair:03}.{copy}" for pair in range(8) for copy in "ab"]
    contents = [(original / "twins" / name).read_bytes() for name in names]
    assert contents[0::2] == contents[1::2]
    assert len(set(contents)) == 8


def test_twins_may_be_large(memtest: Memtest, tmp_path: Path) -> None:
    memtest.output("prepare", "--dir", tmp_path / "d", "--twins", 3, "--twin-bytes", 262144)
    sizes = {path.stat().st_size for path in (tmp_path / "d/twins").iterdir()}
    assert len(sizes) == 3 and 65536 < max(sizes) <= 262144
    of_twins = ("verify", "--dir", tmp_path / "d", "--seed", SEED, "--done", 0, "--twins", 3)
    assert memtest(*of_twins, "--twin-bytes", 262144).returncode == 0
    assert memtest(*of_twins).returncode == 3


def test_no_eight_bytes_occur_twice(original: Path) -> None:
    """So what is stale or in the wrong place cannot pass for right."""
    contents = [path.read_bytes() for path in (original / "tree").rglob("f*")]
    words = [data[at : at + 8] for data in contents for at in range(0, len(data) - 7, 8)]
    words = [word for word in words if 0 not in word]  # a hole, or the edge of one
    assert len(set(words)) == len(words) > 10_000


def test_every_kind_of_step_occurs_often(memtest: Memtest) -> None:
    steps = Memtest(memtest.binary, 8 << 20).steps(SEED, 3000)
    kinds = collections.Counter(step["kind"] for step in steps)
    names = "create write append truncate read mkdir rmdir rename unlink"
    assert set(kinds) == set(names.split())
    assert min(kinds.values()) > 3000 * 0.02
    of = {kind: [step for step in steps if step["kind"] == kind] for kind in kinds}
    assert sum(step["offset"] > step["old_size"] for step in of["write"]) > 30
    assert sum(step["offset"] + step["length"] < step["old_size"] for step in of["write"]) > 100
    assert sum(step["size"] > step["old_size"] for step in of["truncate"]) > 30
    assert sum(step["size"] < step["old_size"] for step in of["truncate"]) > 30
    assert sum(step["replaces"] for step in of["rename"]) > 30
    assert sum(step["type"] == "dir" for step in of["rename"]) > 30


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_tree_has_a_good_size_after_some_thousand_steps(memtest: Memtest, seed: int) -> None:
    entries = Memtest(memtest.binary, 8 << 20).model(seed, 4000)
    tree = {path: entry for path, entry in entries.items() if path.startswith("tree/")}
    sizes = [entry["size"] for entry in tree.values() if entry["type"] == "file"]
    assert 50 <= len(sizes) <= 150
    assert 8 <= len(tree) - len(sizes) <= 20
    assert max(sizes) <= 256 * 1024
    assert sum(sizes) > 512 * 1024


@pytest.mark.parametrize("max_bytes", [4096, 100_000])
def test_max_bytes_is_kept_at_every_step(memtest: Memtest, tmp_path: Path, max_bytes: int) -> None:
    """Replayed here from the steps alone, and looked at on disk at the end."""
    small = Memtest(memtest.binary, max_bytes)
    sizes: dict[str, int] = {}
    totals = []
    for step in small.steps(SEED, 500):
        path = step["path"]
        if step["kind"] in ("write", "append"):
            sizes[path] = max(step["old_size"], step["offset"] + step["length"])
        elif step["kind"] == "truncate":
            sizes[path] = step["size"]
        elif step["kind"] == "unlink":
            sizes.pop(path, None)
        elif step["kind"] == "rename":
            moved = [old for old in sizes if old == path or old.startswith(path + "/")]
            sizes.update({step["to"] + old[len(path) :]: sizes.pop(old) for old in moved})
            if step["type"] == "file" and not moved:
                sizes.pop(step["to"], None)
        totals.append(sum(sizes.values()))
    assert max_bytes * 0.9 < max(totals) <= max_bytes
    small.run(tmp_path / "dir", SEED, 500)
    on_disk = sum(entry.get("size", 0) for entry in listing(tmp_path / "dir" / "tree").values())
    assert on_disk == totals[-1]
    assert small.differences(tmp_path / "dir", SEED, 500) == []


def test_steps_are_numbered_and_a_longer_list_begins_with_the_shorter(memtest: Memtest) -> None:
    long = memtest.steps(SEED, 200)
    assert [step["step"] for step in long] == list(range(1, 201))
    assert long[:100] == memtest.steps(SEED, 100)
    assert all(one != other for one, other in itertools.pairwise(long))


def test_the_text_of_the_model_says_what_its_json_says(memtest: Memtest) -> None:
    lines = memtest("model", "--seed", SEED, "--steps", STEPS, *memtest.limit).stdout.splitlines()
    entries = memtest.model(SEED, STEPS).items()
    words = [[entry.pop("type"), path, *map(str, entry.values())] for path, entry in entries]
    assert lines == [" ".join(line) for line in words]


def test_no_command_leaks_memory(memtest: Memtest, tree: Path, tmp_path: Path) -> None:
    env = {**os.environ, "ASAN_OPTIONS": "detect_leaks=1"}
    flip(next(path for path in (tree / "tree").rglob("f*") if path.stat().st_size), 0)
    common = ["--seed", SEED, *memtest.limit]
    (tmp_path / "log").touch()
    commands = {
        ("prepare", "--dir", tmp_path / "new"): 0,
        ("run", "--dir", tmp_path / "new", *common, "--steps", 200, "--progress", tmp_path / "log"): 0,
        ("verify", "--dir", tree, *common, "--done", STEPS, "--intent", STEPS + 1, "--json"): 3,
        ("model", *common, "--steps", STEPS): 0,
        ("steps", *common, "--steps", STEPS): 0,
    }
    for command, status in commands.items():
        result = memtest(*command, env=env)
        assert (result.returncode, result.stderr) == (status, "")


def test_the_release_build_is_static_and_verifies_in_32_mib(memtest: Memtest, tmp_path: Path) -> None:
    subprocess.run(["make", "-s", "-C", SOURCE, f"O={tmp_path}"], check=True)
    release = Memtest(tmp_path / "memtest", 1 << 40)
    with release.binary.open("rb") as file:
        assert "PT_INTERP" not in {segment["p_type"] for segment in ELFFile(file).iter_segments()}

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (32 << 20, 32 << 20))

    release.prepare(tmp_path / "dir")
    of_top = sum(path.count("/") == 1 for path in release.model(SEED, 200_000) if path.startswith("tree/"))
    report = release.verify(tmp_path / "dir", SEED, 200_000, preexec_fn=limit)
    assert (report["difference_count"], report["files"]) == (of_top, 16)
