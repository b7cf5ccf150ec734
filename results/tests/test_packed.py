# SPDX-License-Identifier: Apache-2.0
"""Compressed stores: read like others, never written, and refused in one line if they are not whole."""

import lzma
import multiprocessing
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from results_builders import Invoke, fill
from riobed_results.errors import StoreError, StoreUsageError
from riobed_results.store import open_store, pack_store, read_results
from riobed_results.store import packed as packing
from riobed_results.store.packed import unpacked
from riobed_results.store.store import Store


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RIOBED_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def packed(store: Store, path: Path, tmp_path: Path, cache: Path) -> Path:
    """A published folder's store with two trials."""
    fill(store, {}, {"corruption": "direct"}, name="one")
    (tmp_path / "one").mkdir()
    pack_store(path, tmp_path / "one/store.sqlite.xz")
    return tmp_path / "one/store.sqlite.xz"


def refused(store: Path) -> str:
    with pytest.raises(StoreError) as caught:
        open_store(str(store))
    said = str(caught.value)
    assert "\n" not in said and said.startswith(f"store {store}: ") and caught.value.exit_code == 1
    return said


def left(cache: Path) -> list[str]:
    return sorted(path.name for path in (cache / "stores").glob("*"))


def test_it_is_read_like_another_one_by_file_and_by_folder(packed: Path, cache: Path, invoke: Invoke) -> None:
    for store in (packed, packed.parent, f"sqlite:///{packed}", packed.with_suffix("")):
        assert len(read_results(open_store(str(store))).trials) == 2
        assert invoke("table", "corruption", "--store", store).exit_code == 0
    assert len(left(cache)) == 1
    # It lies where the compressed one lies: logs and reports are looked for there.
    assert open_store(str(packed.parent)).location.folder == packed.parent


def test_it_is_never_written(packed: Path) -> None:
    before = packed.read_bytes()
    for store in (packed, packed.parent, packed.with_suffix("")):
        with pytest.raises(StoreUsageError, match="is compressed, and is only read; give another"):
            open_store(str(store), create=True)
    assert packed.read_bytes() == before and list(packed.parent.iterdir()) == [packed]


def flip(data: bytes) -> bytes:
    at = len(data) // 2
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def shortened(data: bytes) -> bytes:
    """Whole as a compressed file, but with a database in it that lacks its last byte."""
    return lzma.compress(lzma.decompress(data)[:-1])


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda data: data[: len(data) // 2],
    "cut at the end": lambda data: data[:-1],
    "changed": flip,
    "empty": lambda data: b"",
    "not compressed": lambda data: lzma.decompress(data),
    "a database that is cut": shortened,
    "more behind it": lambda data: data + data,
    "more in it": lambda data: lzma.compress(lzma.decompress(data) + bytes(1 << 22)),
    "something else": lambda data: lzma.compress(b"no database" * 1000),
    "without a checksum": lambda data: lzma.compress(lzma.decompress(data), check=lzma.CHECK_NONE),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_one_line_and_leaves_nothing(packed: Path, cache: Path, damage: str) -> None:
    packed.write_bytes(DAMAGES[damage](packed.read_bytes()))
    assert "is damaged: restore it from a copy" in refused(packed)
    assert left(cache) == []


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("update meta set value = 99 where key = 'schema_version'", "has schema version 99"),
        ("drop table meta", "is not a riobed store"),
    ],
)
def test_a_database_of_another_program_or_schema(packed: Path, path: Path, change: str, told: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(change)
        connection.commit()
    pack_store(path, packed)
    assert told in refused(packed)


def test_a_copy_that_was_damaged_in_the_cache_is_made_again(packed: Path, cache: Path) -> None:
    copy = unpacked(packed)
    for damage in (flip, lambda data: data[:100], lambda data: b""):
        copy.chmod(0o644)
        copy.write_bytes(damage(copy.read_bytes()))
        assert unpacked(packed) == copy and len(read_results(open_store(str(packed))).trials) == 2
    assert len(left(cache)) == 1


def test_each_changed_byte_is_noticed(packed: Path, cache: Path) -> None:
    whole = packed.read_bytes()
    unpacked(packed)
    for at in (*range(0, len(whole), 41), *range(len(whole) - 40, len(whole))):
        packed.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert "is damaged" in refused(packed)


def test_a_small_file_that_fills_the_disk_is_not_unpacked(packed: Path, cache: Path) -> None:
    header = bytearray(lzma.decompress(packed.read_bytes())[:100])
    header[28:32] = (1 << 20).to_bytes(4, "big")
    packed.write_bytes(lzma.compress(header + bytes(16 << 20)))
    assert "more than rows of its size do; restore it from a copy" in refused(packed)
    assert left(cache) == []


def test_a_cache_without_room(packed: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing.shutil, "disk_usage", lambda path: SimpleNamespace(free=64 << 20))
    said = refused(packed)
    assert f"{cache}/stores: 64 MiB are free, 65 MiB are needed" in said
    assert "set RIOBED_CACHE to another folder" in said
    assert left(cache) == []


def test_a_cache_that_cannot_be_written(
    packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("RIOBED_CACHE", str(tmp_path / "file"))
    assert "set RIOBED_CACHE to a folder that can be written" in refused(packed)


def test_a_folder_that_may_only_be_read(packed: Path) -> None:
    """As in a read-only checkout: nothing is written beside the store."""
    packed.parent.chmod(0o555)
    try:
        assert len(read_results(open_store(str(packed.parent))).trials) == 2
    finally:
        packed.parent.chmod(0o755)
    assert [path.name for path in packed.parent.iterdir()] == [packed.name]


def _read(packed: Path, barrier: "multiprocessing.synchronize.Barrier") -> None:
    barrier.wait(60)
    assert len(read_results(open_store(str(packed))).trials) == 2
    os._exit(0)


def test_two_commands_that_unpack_one_at_once(packed: Path, cache: Path) -> None:
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(4)
    readers = [context.Process(target=_read, args=(packed, barrier)) for _ in range(4)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join(300)
    assert [reader.exitcode for reader in readers] == [0] * 4
    assert len(left(cache)) == 1
