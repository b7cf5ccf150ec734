# SPDX-License-Identifier: Apache-2.0
"""Logs are found as files and as members of an archive, and nothing else is."""

import gzip
import io
import lzma
import tarfile
from pathlib import Path

import pytest
from results_builders import Invoke, fill
from riobed_results.errors import StoreError, StoreUsageError
from riobed_results.store import logs as module
from riobed_results.store.logs import ARCHIVE, Logs, pack
from riobed_results.store.store import Store

TEXTS = {f"logs/{n}.log.gz": b"console %d \x1b[2J\n" % n * 900 for n in (2, 10, 1)}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "run" / "logs").mkdir(parents=True)
    for name, text in TEXTS.items():
        (tmp_path / "run" / name).write_bytes(gzip.compress(text))
    return tmp_path / "run"


def packed(files: Path, folder: Path) -> Logs:
    folder.mkdir()
    pack(Logs(files), TEXTS, folder / ARCHIVE)
    return Logs(folder)


def test_an_archive_has_the_text_of_each_log_and_is_always_the_same(files: Path, tmp_path: Path) -> None:
    first, second = packed(files, tmp_path / "first"), packed(files, tmp_path / "second")
    for name, text in TEXTS.items():
        assert name in first and first.read(name) == Logs(files).read(name) == text
    assert first.archive.read_bytes() == second.archive.read_bytes()
    with tarfile.open(first.archive) as archive:
        assert archive.getnames() == ["logs/1.log", "logs/10.log", "logs/2.log"]


@pytest.mark.parametrize(
    "name", ["../secret.gz", "/etc/passwd", "logs/none", "logs", "logs/../logs/1.log.gz"]
)
def test_no_name_leads_out_of_the_folder(files: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "secret.gz").write_bytes(gzip.compress(b"secret"))
    for found in (Logs(files), packed(files, tmp_path / "packed")):
        assert name not in found
        with pytest.raises(StoreError, match="has no log"):
            found.read(name)


def test_what_is_read_is_bounded(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = packed(files, tmp_path / "packed")
    monkeypatch.setattr(module, "MAX_LOG", 7)
    assert found.read("logs/1.log.gz") == Logs(files).read("logs/1.log.gz") == b"console"
    monkeypatch.setattr(module, "_MAX_ARCHIVE", 20_000)
    with pytest.raises(StoreError, match="more text"):
        found.read("logs/2.log.gz")


def chained() -> bytes:
    """An archive whose members are long names of long names."""
    link = tarfile.TarInfo("x")
    link.type = tarfile.GNUTYPE_LONGNAME
    link.size = 1
    return (link.tobuf(tarfile.GNU_FORMAT) + b"y".ljust(512, b"\0")) * 3000


def a_link() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        member = tarfile.TarInfo("logs/1.log")
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(member)
    return out.getvalue()


@pytest.mark.parametrize(
    "content", [b"no archive", *map(lzma.compress, [b"no tar" * 500, chained(), a_link()])]
)
def test_an_archive_of_a_stranger_is_an_error_of_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ARCHIVE).write_bytes(content)
    with pytest.raises(StoreError) as caught:
        Logs(tmp_path).read("logs/1.log.gz")
    assert "\n" not in str(caught.value)


def test_an_archive_that_was_cut_off(files: Path, tmp_path: Path) -> None:
    archive = packed(files, tmp_path / "packed").archive
    archive.write_bytes(archive.read_bytes()[:200])
    with pytest.raises(StoreError, match="restore it from a copy"):
        Logs(tmp_path / "packed").read("logs/2.log.gz")


@pytest.mark.parametrize("which", ["3", "10"])
def test_the_command_prints_a_log_by_position_or_name(
    invoke: Invoke, store: Store, files: Path, tmp_path: Path, which: str
) -> None:
    error, crash = {"outcome": "infra_error", "log": "logs/1.log.gz"}, {"log": "logs/10.log.gz"}
    fill(store, error | {"position": 3}, crash | {"position": 3, "attempt": 2})
    packed(files, tmp_path / "packed")
    for folder in (files, tmp_path / "packed"):
        result = invoke("log", which, "--store", store.location.path, "--logs", folder)
        assert result.stdout_bytes == TEXTS["logs/10.log.gz"]
    result = invoke("log", "7", "--store", store.location.path, "--logs", files)
    assert isinstance(result.exception, StoreUsageError) and "no log '7'" in str(result.exception)
