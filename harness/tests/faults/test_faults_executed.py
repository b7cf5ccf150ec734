# SPDX-License-Identifier: Apache-2.0
"""From a record of executed bytes to the only instructions that faults may change."""

import random
import zlib
from base64 import b64encode
from pathlib import Path

import pytest
from riobed.commands.executed import joined, ranges_in
from riobed.errors import UsageError
from riobed.faults import CLASSES, Catalogue, SiteFilter
from riobed.faults.classes.rules import RULES
from riobed.faults.sites.instructions import from_text, overlaps, packed, to_text, union, unpacked

TEXT_CLASSES = ["kernel_text", *RULES]


def test_a_record_becomes_ranges() -> None:
    assert ranges_in(b"\0\1\1\0\0\1", 0x1000) == [(0x1001, 0x1003), (0x1005, 0x1006)]
    assert ranges_in(b"\1\1", 0x1000) == [(0x1000, 0x1002)]
    assert ranges_in(bytes(9), 0x1000) == []


def test_ranges_survive_a_file_and_the_store() -> None:
    rng = random.Random(5)
    places = sorted(rng.sample(range(0xFFFFFFFF81000000, 0xFFFFFFFF81500000), 2000))
    ranges = list(zip(places[::2], places[1::2], strict=True))
    text = (
        "# two kernels\n" + to_text("ab12", ranges) + "\n" + to_text("cd34", [(0x10, 0x13)]) + "20 1 # more\n"
    )
    assert from_text(text, "file") == {"ab12": ranges, "cd34": [(0x10, 0x13), (0x20, 0x21)]}
    assert (unpacked(packed(ranges)), unpacked(packed([]))) == (ranges, [])


def test_ranges_of_several_runs_are_one_list() -> None:
    assert union([(20, 30), (1, 3), (22, 24), (3, 5), (40, 41)]) == [(1, 5), (20, 30), (40, 41)]


def test_what_all_modes_execute_is_less_than_what_any_does() -> None:
    left, right = [(1, 5), (20, 30)], [(3, 7), (29, 31), (40, 41)]
    assert joined(left, right, common=False) == [(1, 7), (20, 31), (40, 41)]
    assert joined(left, right, common=True) == [(3, 5), (29, 30)]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("10 2\n", "line 1 is neither"),
        ("kernel xy\n", "line 1 is neither"),
        ("kernel ab\n10\n", "line 2 is neither"),
        ("kernel ab\n10 a\n", "line 2 is neither"),
        ("kernel ab\n10 2\n11 1\n", "line 3 is not in order"),
    ],
)
def test_a_wrong_line_is_named(text: str, wrong: str) -> None:
    with pytest.raises(UsageError, match=f"the file: {wrong}"):
        from_text(text, "the file")


@pytest.mark.parametrize("word", ["", "!", packed([(1, 2)])[:-4], b64encode(zlib.compress(b"1")).decode()])
def test_a_damaged_word_is_told(word: str) -> None:
    with pytest.raises(UsageError, match="damaged"):
        unpacked(word)


def test_overlaps() -> None:
    left = [(0, 10), (20, 30), (40, 50)]
    assert list(overlaps(left, [(5, 25), (29, 45), (60, 70)])) == [(5, 10), (20, 25), (29, 30), (40, 45)]
    assert list(overlaps(left, [(0, 99)])) == left == list(overlaps([(0, 99)], left))
    assert list(overlaps(left, [])) == list(overlaps([(10, 20)], left)) == []


def narrowed(catalogue: Catalogue, folder: Path, *spans: tuple[int, int]) -> Catalogue:
    (folder / "list").write_text(to_text(catalogue.build_id, sorted(spans)))
    return catalogue.filtered(SiteFilter(instructions_file=Path("list")).with_list(folder))


@pytest.mark.parametrize("name", TEXT_CLASSES)
def test_faults_are_in_the_listed_instructions_only(catalogue: Catalogue, name: str, tmp_path: Path) -> None:
    fault_class = CLASSES[name]
    assert fault_class.sites is not None
    drawn = [fault.address or 0 for fault in fault_class.draw(catalogue, random.Random(3), 3)]
    found = {catalogue.instruction_at(address) for address in drawn}
    sizes = {address: len(code) for address, code in found}
    narrow = narrowed(catalogue, tmp_path, *((address, address + size) for address, size in sizes.items()))
    again = {fault_class.draw(narrow, random.Random(seed), 1)[0].address for seed in range(20)}
    assert again == sizes.keys()
    assert fault_class.sites(narrow).count == (sum(sizes.values()) if name == "kernel_text" else len(sizes))


def test_a_list_of_another_kernel_is_refused(catalogue: Catalogue, tmp_path: Path) -> None:
    (tmp_path / "list").write_text("kernel ab12\n10 2\n")
    other = SiteFilter(instructions_file=Path("list")).with_list(tmp_path)
    with pytest.raises(UsageError, match=f"nothing of kernel build {catalogue.build_id[:12]}; add what "):
        catalogue.filtered(other)


def test_a_file_that_is_missing_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^sites.instructions_file .*: No such file or directory; `riobed"):
        SiteFilter(instructions_file=Path("none")).with_list(tmp_path)


def test_addresses_outside_the_functions_are_passed_over(catalogue: Catalogue) -> None:
    inside = catalogue.site("off_by_one", 0).instruction.address
    far = [0, 0x7F12A0B3C4D5, 0xFFFFFFFF80000000, 2**64 - 1]
    assert catalogue.functions_at([inside, inside, *far]) == {catalogue.function_at(inside)}
    assert catalogue.functions_at([]) == catalogue.functions_at(far) == set()


def test_a_return_address_is_named_by_the_call_before_it(catalogue: Catalogue) -> None:
    called = catalogue.site("off_by_one", 0).instruction
    symbol = catalogue.symbol(called.end)
    name, _, offset = (symbol or "").partition("+")
    assert name == catalogue.function_at(called.address)
    assert catalogue.symbol(called.end + 1) == f"{name}+{int(offset, 16) + 1:#x}"
    assert [catalogue.symbol(at) for at in (0, 1, 0xFFFF888012345678, 2**64 - 1)] == [None] * 4
