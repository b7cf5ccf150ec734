# SPDX-License-Identifier: Apache-2.0
"""The cached site index: used when good, replaced when not, never followed when damaged."""

import hashlib
import json
import zlib
from array import array
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from unittest.mock import Mock

import pytest
from riobed.errors import EnvironmentFault
from riobed.faults import Catalogue
from riobed.faults.classes.rules import RULES
from riobed.faults.sites import catalogue as catalogue_module
from riobed.faults.sites import index_file
from riobed.faults.sites.index import SiteIndex, index_sites
from riobed.faults.sites.index_file import read_index, write_index
from riobed.faults.sites.vmlinux import Vmlinux


@pytest.fixture
def kernel(vmlinux: Path) -> Vmlinux:
    return Vmlinux(vmlinux)


@pytest.fixture
def written(kernel: Vmlinux, tmp_path: Path) -> Path:
    path = tmp_path / "index"
    write_index(path, kernel.build_id, index_sites(kernel, RULES))
    return path


def read(path: Path, kernel: Vmlinux) -> SiteIndex:
    return read_index(path, kernel.build_id, len(kernel.text), RULES)


def test_round_trip(kernel: Vmlinux, written: Path) -> None:
    assert read(written, kernel) == index_sites(kernel, RULES)


def test_second_opening_does_not_sweep(
    vmlinux: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Catalogue.open(vmlinux, tmp_path, RULES)
    monkeypatch.setattr(catalogue_module, "index_sites", None)
    second = Catalogue.open(vmlinux, tmp_path, RULES)
    assert (second.byte_count, second.excluded_bytes) == (first.byte_count, first.excluded_bytes)
    for name in RULES:
        assert second.site_count(name) == first.site_count(name) > 0
        assert second.excluded_sites(name) == first.excluded_sites(name)


def test_any_flipped_byte_and_any_cut_is_refused(kernel: Vmlinux, written: Path) -> None:
    good = written.read_bytes()
    flipped = (good[:at] + bytes([good[at] ^ 0x10]) + good[at + 1 :] for at in range(0, len(good), 7))
    for bad in (*flipped, *(good[:length] for length in range(0, len(good), 101))):
        written.write_bytes(bad)
        with pytest.raises(EnvironmentFault, match=str(written)):
            read(written, kernel)


def test_an_index_of_something_else_is_refused(kernel: Vmlinux, written: Path) -> None:
    with pytest.raises(EnvironmentFault, match=f"made for build {kernel.build_id}, not 1234"):
        read_index(written, "1234", len(kernel.text), RULES)
    with pytest.raises(EnvironmentFault, match="made for the classes"):
        read_index(written, kernel.build_id, len(kernel.text), [name for name in RULES if name != "pointer"])


OF_ANOTHER_SHAPE: dict[str, list[object]] = {
    "spans": [[[-1, 4]], [[0, 1 << 40]], [[0, 0]], [[8, 4], [4, 4]]],
    "functions": [[["x", 4, "f", 0]], [[0, 4]], [[0, 4, "f", 1 << 20]], [[0, 4, "f", -1]]],
    "unprobeable": [None],
    "excluded_bytes": [[]],
    "excluded_sites": [{}],
    "entries": [-1, 1 << 40],
    "sites": [dict.fromkeys(RULES, 0), [1, 2]],
}


@pytest.mark.parametrize(
    ("part", "content"), [(k, v) for k, values in OF_ANOTHER_SHAPE.items() for v in values]
)
def test_content_of_another_shape_is_refused(
    part: str, content: object, kernel: Vmlinux, written: Path
) -> None:
    """Even when the digest is right."""
    head, _, lists = unpacked(written).partition(b"\n")
    pack(written, kernel, json.dumps(json.loads(head) | {part: content}).encode() + b"\n" + lists)
    with pytest.raises(EnvironmentFault, match="damaged"):
        read(written, kernel)


def unpacked(path: Path) -> bytes:
    return zlib.decompress(path.read_bytes().partition(b"\n")[2])


def pack(path: Path, kernel: Vmlinux, content: bytes) -> None:
    packed = zlib.compress(content)
    header = index_file._header(kernel.build_id, hashlib.sha256(packed).hexdigest())
    path.write_bytes(header.encode() + packed)


@pytest.mark.parametrize(
    "offsets", [[5, 5], [1 << 31], [4, 0xFFFFFFFF]], ids=["twice", "outside", "backwards"]
)
def test_offsets_that_no_text_has_are_refused(offsets: list[int], kernel: Vmlinux, written: Path) -> None:
    last = list(RULES)[-1]
    deltas = [offsets[0], *((b - a) % (1 << 32) for a, b in pairwise(offsets))]
    index = index_sites(kernel, RULES)
    write_index(written, kernel.build_id, replace(index, sites=index.sites | {last: array("I")}))
    head, _, lists = unpacked(written).partition(b"\n")
    raw = json.loads(head)
    raw["sites"][last] = len(offsets)
    pack(written, kernel, json.dumps(raw).encode() + b"\n" + lists + array("I", deltas).tobytes())
    with pytest.raises(EnvironmentFault, match="damaged"):
        read(written, kernel)


@pytest.mark.parametrize("name", RULES)
def test_an_offset_that_is_no_site_is_never_drawn(
    name: str, kernel: Vmlinux, vmlinux: Path, tmp_path: Path
) -> None:
    """Even where digest and shape are right: the rule is asked again."""
    index = index_sites(kernel, RULES)
    beyond = array("I", [index.sites[name][0] + 1])
    damaged = replace(index, sites=index.sites | {name: beyond})
    write_index(tmp_path / "fault-sites" / kernel.build_id, kernel.build_id, damaged)
    catalogue = Catalogue.open(vmlinux, tmp_path, RULES)
    with pytest.raises(EnvironmentFault, match=f"is no site of {name}; the fault-site cache is damaged"):
        catalogue.site(name, 0)


def test_content_that_unpacks_to_too_much_is_refused(
    kernel: Vmlinux, written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_file, "_LARGEST", 100)
    with pytest.raises(EnvironmentFault, match="too large"):
        read(written, kernel)


def test_damaged_or_foreign_index_is_replaced(
    vmlinux: Path, link: Callable[..., Path], tmp_path: Path
) -> None:
    first = Catalogue.open(vmlinux, tmp_path, RULES)
    (path,) = (tmp_path / "fault-sites").iterdir()
    good = path.read_bytes()
    other = Catalogue.open(link("-Wl,-Ttext=0xffffffff82000000"), tmp_path, RULES)
    foreign = (tmp_path / "fault-sites" / other.build_id).read_bytes()
    assert other.build_id != first.build_id
    for bad in (b"", b"junk", good[:-1], foreign):
        path.write_bytes(bad)
        assert Catalogue.open(vmlinux, tmp_path, RULES).byte_count == first.byte_count
        assert path.read_bytes() == good


def test_a_failed_write_is_one_line_and_leaves_nothing_behind(
    kernel: Vmlinux, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(path: Path) -> str:
        with pytest.raises(EnvironmentFault, match="cannot write the fault-site cache") as caught:
            write_index(path, kernel.build_id, SiteIndex())
        return str(caught.value)

    (tmp_path / "file").touch()
    assert "\n" not in write(tmp_path / "file" / "index")
    monkeypatch.setattr(Path, "replace", Mock(side_effect=OSError(28, "No space left on device")))
    assert "No space left" in write(tmp_path / "index")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
