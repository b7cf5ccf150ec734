# SPDX-License-Identifier: Apache-2.0
"""The cached site index: used when good, replaced when not, never followed when damaged."""

import hashlib
import json
import zlib
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
from riobed.errors import EnvironmentFault
from riobed.faults import Catalogue, cachefile
from riobed.faults import catalogue as catalogue_module
from riobed.faults.cachefile import read_index, write_index
from riobed.faults.sites import SiteIndex, index_sites
from riobed.faults.vmlinux import Vmlinux


@pytest.fixture
def kernel(vmlinux: Path) -> Vmlinux:
    return Vmlinux(vmlinux)


@pytest.fixture
def written(kernel: Vmlinux, tmp_path: Path) -> Path:
    path = tmp_path / "index"
    write_index(path, kernel.build_id, index_sites(kernel))
    return path


def read(path: Path, kernel: Vmlinux) -> SiteIndex:
    return read_index(path, kernel.build_id, len(kernel.text))


def test_round_trip(kernel: Vmlinux, written: Path) -> None:
    assert read(written, kernel) == index_sites(kernel)


def test_second_opening_does_not_sweep(
    vmlinux: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Catalogue.open(vmlinux, tmp_path)
    monkeypatch.setattr(catalogue_module, "index_sites", None)
    second = Catalogue.open(vmlinux, tmp_path)
    assert second.byte_count == first.byte_count
    assert second.excluded_bytes == first.excluded_bytes


def test_any_flipped_byte_is_refused(kernel: Vmlinux, written: Path) -> None:
    good = written.read_bytes()
    for place in range(0, len(good), 7):
        written.write_bytes(good[:place] + bytes([good[place] ^ 0x10]) + good[place + 1 :])
        with pytest.raises(EnvironmentFault, match=str(written)):
            read(written, kernel)


def test_any_cut_is_refused(kernel: Vmlinux, written: Path) -> None:
    good = written.read_bytes()
    for length in range(0, len(good), 101):
        written.write_bytes(good[:length])
        with pytest.raises(EnvironmentFault):
            read(written, kernel)


def test_another_build_is_named(kernel: Vmlinux, written: Path) -> None:
    with pytest.raises(EnvironmentFault, match=f"made for build {kernel.build_id}, not 1234"):
        read_index(written, "1234", len(kernel.text))


@pytest.mark.parametrize(
    "change",
    [
        {"spans": [[-1, 4]]},
        {"spans": [[0, 1 << 40]]},
        {"spans": [[0, 0]]},
        {"spans": [[8, 4], [4, 4]]},
        {"functions": [["x", 4, "f"]]},
        {"functions": [[0, 4]]},
        {"branches": [1 << 40]},
        {"branches": "abc"},
        {"unprobeable": None},
        {"excluded_bytes": []},
    ],
)
def test_content_of_another_shape_is_refused(
    change: dict[str, object], kernel: Vmlinux, written: Path
) -> None:
    """Even when the digest is right."""
    raw = asdict(index_sites(kernel)) | change
    content = zlib.compress(json.dumps(raw).encode())
    header = cachefile._header(kernel.build_id, hashlib.sha256(content).hexdigest())
    written.write_bytes(header.encode() + content)
    with pytest.raises(EnvironmentFault, match="damaged"):
        read(written, kernel)


def test_content_that_unpacks_to_too_much_is_refused(
    kernel: Vmlinux, written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cachefile, "_LARGEST", 100)
    with pytest.raises(EnvironmentFault, match="too large"):
        read(written, kernel)


def test_damaged_or_foreign_index_is_replaced(
    vmlinux: Path, link: Callable[..., Path], tmp_path: Path
) -> None:
    first = Catalogue.open(vmlinux, tmp_path)
    (path,) = (tmp_path / "fault-sites").iterdir()
    good = path.read_bytes()
    other = Catalogue.open(link("-Wl,-Ttext=0xffffffff82000000"), tmp_path)
    foreign = (tmp_path / "fault-sites" / other.build_id).read_bytes()
    assert other.build_id != first.build_id
    for bad in (b"", b"junk", good[:-1], foreign):
        path.write_bytes(bad)
        assert Catalogue.open(vmlinux, tmp_path).byte_count == first.byte_count
        assert path.read_bytes() == good


def test_failed_write_leaves_nothing_behind(
    kernel: Vmlinux, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", no_room)
    with pytest.raises(EnvironmentFault, match="No space left"):
        write_index(tmp_path / "index", kernel.build_id, SiteIndex())
    assert list(tmp_path.iterdir()) == []


def test_unwritable_place_is_one_clear_line(kernel: Vmlinux, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentFault, match="cannot write the fault-site cache") as caught:
        write_index(tmp_path / "file" / "index", kernel.build_id, SiteIndex())
    assert "\n" not in str(caught.value)
