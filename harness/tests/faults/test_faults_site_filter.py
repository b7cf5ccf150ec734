# SPDX-License-Identifier: Apache-2.0
"""SiteFilter: sites only where asked, drawn as ever, and refused in one line where there are none."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from riobed.errors import UsageError
from riobed.faults import CLASSES, Catalogue, SiteFilter, check_classes
from riobed.faults.classes.rules import RULES

TEXT_CLASSES = ["kernel_text", *RULES]


def functions(catalogue: Catalogue, name: str, count: int = 20) -> Counter[str]:
    drawn = CLASSES[name].draw(catalogue, random.Random(1), count)
    return Counter(fault.function for fault in drawn)


@pytest.mark.parametrize("name", TEXT_CLASSES)
@pytest.mark.parametrize("count", [1, 20])
def test_faults_are_in_the_functions_of_a_pattern(catalogue: Catalogue, name: str, count: int) -> None:
    narrow = catalogue.filtered(SiteFilter(functions=("many_[1-5]?", "many_7")))
    assert all(f == "many_7" or "many_10" <= f <= "many_59" for f in functions(narrow, name, count))
    assert functions(catalogue, name, count) != functions(narrow, name, count)


@pytest.mark.parametrize("name", TEXT_CLASSES)
def test_sites_of_parts_are_the_sites_of_the_whole(catalogue: Catalogue, name: str) -> None:
    fault_class = CLASSES[name]
    assert fault_class.sites is not None
    patterns = ["many_*", "[!m]*"]
    parts = [catalogue.filtered(SiteFilter(functions=(pattern,))) for pattern in patterns]
    counts = [fault_class.sites(part).count for part in parts]
    assert sum(counts) == fault_class.sites(catalogue).count
    assert counts[0] >= 60


def test_nothing_given_is_the_whole_kernel(catalogue: Catalogue) -> None:
    assert catalogue.filtered(SiteFilter()) is catalogue


def listed(folder: Path, text: str) -> SiteFilter:
    (folder / "names").write_text(text)
    return SiteFilter(functions_file=Path("names")).with_list(folder)


def test_functions_of_a_file(catalogue: Catalogue, tmp_path: Path) -> None:
    narrow = catalogue.filtered(listed(tmp_path, "# two\nmany_3\n\n  many_4  # here\nof_another_kernel\n"))
    assert set(functions(narrow, "delete_branch", 2)) == {"many_3", "many_4"}
    assert narrow.site_count("delete_branch") == 2


def test_all_that_is_given_must_hold(catalogue: Catalogue, tmp_path: Path) -> None:
    chosen = listed(tmp_path, "many_3\nshort_branch\n").model_copy(update={"functions": ("many_*",)})
    assert set(functions(catalogue.filtered(chosen), "delete_branch", 1)) == {"many_3"}
    assert catalogue.filtered(chosen).site_count("delete_branch") == 1


def test_the_list_is_kept_whatever_becomes_of_the_file(tmp_path: Path) -> None:
    chosen = listed(tmp_path, "b\na\nb\n")
    assert chosen.functions_listed == ("a", "b")
    (tmp_path / "names").unlink()
    assert SiteFilter.model_validate(chosen.model_dump(mode="json")).with_list(tmp_path) == chosen


def wanted(files: list[str], *subsystems: str) -> list[bool]:
    return SiteFilter(subsystems=subsystems).wanted([("f", file) for file in files])


def test_subsystems_are_folders_or_files_of_the_source() -> None:
    files = ["fs/ext4/inode.c", "fs/ext4.c", "fs/ext42/x.c", "mm/filemap.c", "mm/slub.c", ""]
    assert wanted(files, "fs/ext4") == [True, False, False, False, False, False]
    assert wanted(files, "fs/", "mm/slub.c") == [True, True, True, False, True, False]


def test_a_pattern_may_be_one_character() -> None:
    assert SiteFilter(functions=("*",)).wanted([("f", "")]) == [True]
    assert SiteFilter(functions=("f",)).wanted([("f", ""), ("ff", "")]) == [True, False]


def test_the_source_file_is_that_of_the_debug_information(catalogue: Catalogue) -> None:
    (name,) = catalogue._index.files
    assert name.endswith("faults/victim.S")
    assert catalogue.filtered(SiteFilter(subsystems=(name,))).byte_count == catalogue.byte_count


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"functions": ("many_*", "nosuch_*")}, "sites.functions: 'nosuch_*' fits no function"),
        ({"subsystems": ("fs/ext5",)}, "sites.subsystems: 'fs/ext5' fits no function"),
    ],
)
def test_what_fits_nothing_is_misspelt(given: dict[str, Any], says: str, catalogue: Catalogue) -> None:
    with pytest.raises(UsageError) as caught:
        catalogue.filtered(SiteFilter(**given))
    assert str(caught.value).startswith(says) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("part", "given"),
    [("subsystems", name) for name in ((), ("",), ("/fs",), ("fs//ext4",))]
    + [("functions", ()), ("functions", ("",)), ("nosuch", 1)],
)
def test_what_is_no_site_filter(part: str, given: Any) -> None:
    with pytest.raises(ValidationError):
        SiteFilter.model_validate({part: given})


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "No such file or directory"),
        (b"\xff\xfe", "not a text"),
        (b"good\nnot good\n", "line 2 is no function name"),
        (b"a\n" * (9 << 20), "larger than 16 MiB"),
    ],
    ids=["missing", "no text", "no name", "large"],
)
def test_a_file_that_cannot_be_used(content: bytes | None, says: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "names").write_bytes(content)
    with pytest.raises(UsageError, match=says) as caught:
        SiteFilter(functions_file=Path("names")).with_list(tmp_path)
    assert str(caught.value).startswith(f"sites.functions_file {tmp_path / 'names'}: ")
    assert "\n" not in str(caught.value)


def test_a_class_without_enough_sites_is_refused_before_anything_is_drawn(catalogue: Catalogue) -> None:
    narrow = catalogue.filtered(SiteFilter(functions=("short_branch",)))
    check_classes(narrow, [CLASSES[name] for name in ("delete_branch", "allocation", "none")], 1)
    for name, count, rest in [("off_by_one", 1, "0"), ("delete_branch", 2, "1"), ("kernel_text", 20, "0")]:
        with pytest.raises(UsageError, match=f"{name}: {count} faults asked for, .* has {rest} sites; "):
            check_classes(narrow, [CLASSES["allocation"], CLASSES[name]], count)


def test_runtime_classes_take_no_notice(catalogue: Catalogue) -> None:
    narrow = catalogue.filtered(SiteFilter(functions=("short_branch",)))
    for name, fault_class in CLASSES.items():
        if fault_class.sites is None:
            drawn = [fault_class.draw(c, random.Random(name), 20) for c in (catalogue, narrow)]
            assert drawn[0] == drawn[1]
