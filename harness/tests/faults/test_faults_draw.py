# SPDX-License-Identifier: Apache-2.0
"""The faults of each class: what they change, that seeds name them, that draws are fair."""

import random
from collections import Counter
from itertools import pairwise
from typing import Any

import capstone
import pytest
from pydantic import ValidationError
from riobed.errors import UsageError
from riobed.faults import CLASSES, Catalogue, Fault, SiteFilter, commands
from riobed.faults.classes.rules import RULES
from riobed.faults.sites.nops import deleted

TEXT_CLASSES = ("kernel_text", *RULES)
FAULTY = tuple(name for name in CLASSES if name not in ("none", "panic", "planted"))


def draw(catalogue: Catalogue, name: str, seed: str, count: int = 20) -> list[Fault]:
    return CLASSES[name].draw(catalogue, random.Random(seed), count)


def decode(code: bytes) -> list[capstone.CsInsn]:
    return list(capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64).disasm(code, 0))


def test_table_is_keyed_by_name() -> None:
    assert {*FAULTY, "none"} <= set(CLASSES)
    assert {name for name, c in CLASSES.items() if c.sites} == set(TEXT_CLASSES)
    assert all(name == c.name and c.summary and c.category for name, c in CLASSES.items())


@pytest.mark.parametrize("name", FAULTY)
def test_a_seed_names_its_faults(catalogue: Catalogue, name: str) -> None:
    """Nothing else does, and fewer faults are the first of more."""
    random.seed(1)
    first, before = draw(catalogue, name, "a seed"), random.getstate()
    random.seed(2)
    assert draw(catalogue, name, "a seed") == first
    assert draw(catalogue, name, "another seed") != first
    assert draw(catalogue, name, "a seed", 5) == first[:5] and draw(catalogue, name, "a seed", 0) == []
    assert [fault.index for fault in first] == list(range(20))
    assert {fault.fault_class for fault in first} == {name}
    random.seed(1)
    assert random.getstate() == before, "a draw changes the global generator"


@pytest.mark.parametrize("name", TEXT_CLASSES)
def test_two_faults_of_a_batch_never_overlap(catalogue: Catalogue, name: str) -> None:
    for seed in range(5):
        places = sorted((f.address or 0, len(f.old)) for f in draw(catalogue, name, str(seed), 50))
        assert all(low + size <= high for (low, size), (high, _) in pairwise(places))


def assert_uniform(counts: Counter[Any], places: int, draws: int) -> None:
    mean = draws / places
    assert len(counts) == places
    assert all(abs(count - mean) < 5 * mean**0.5 for count in counts.values())


def test_sites_are_drawn_uniformly(catalogue: Catalogue) -> None:
    seeds = map(str, range(3000))
    counts = Counter(draw(catalogue, "initialization", seed, 1)[0].address for seed in seeds)
    assert_uniform(counts, catalogue.site_count("initialization"), 3000)


def test_changes_of_a_site_are_drawn_uniformly(catalogue: Catalogue) -> None:
    narrow = catalogue.filtered(SiteFilter(functions=("many_7",)))
    assert narrow.site_count("destination_reg") == 1
    counts = Counter(draw(narrow, "destination_reg", str(seed), 1)[0].new for seed in range(3000))
    assert_uniform(counts, 14, 3000)  # lea with REX: any register but its own and rsp


@pytest.mark.parametrize("name", TEXT_CLASSES)
def test_text_faults_replace_whole_instructions(catalogue: Catalogue, name: str) -> None:
    for seed in range(50):
        faults = draw(catalogue, name, str(seed))
        assert len({fault.address for fault in faults}) == 20
        for fault in faults:
            assert fault.address is not None
            assert len(fault.new) == len(fault.old) <= 15
            assert fault.new != fault.old
            assert catalogue.code(fault.address, len(fault.old)) == fault.old
            assert catalogue.instruction_at(fault.address) == (fault.address, fault.old)
            (instruction,) = decode(fault.old)
            assert instruction.mnemonic == fault.old_asm.split()[0]
            assert fault.function == catalogue.function_at(fault.address)
            assert fault.source.rpartition("/")[2].startswith("victim.S:")
            assert fault.section == ".text"
            assert fault.probe == catalogue.can_probe(fault.address)


def test_kernel_text_flips_one_bit(catalogue: Catalogue) -> None:
    bits: Counter[int] = Counter()
    for seed in range(100):
        for fault in draw(catalogue, "kernel_text", str(seed)):
            flipped = int.from_bytes(fault.old, "little") ^ int.from_bytes(fault.new, "little")
            assert flipped.bit_count() == 1
            bits[(flipped.bit_length() - 1) % 8] += 1
    # 2000 draws over 8 bits: 250 each, standard deviation 15
    assert all(170 < bits[bit] < 330 for bit in range(8))


def test_kernel_text_bytes_are_drawn_uniformly(catalogue: Catalogue) -> None:
    counts = Counter(draw(catalogue, "kernel_text", str(seed), 1)[0].function for seed in range(2000))
    places = map(catalogue.byte_at, range(catalogue.byte_count))
    sizes = Counter(map(catalogue.function_at, places))
    # long_branch has about half of the victim's bytes
    share = sizes["long_branch"] / catalogue.byte_count
    assert abs(counts["long_branch"] / 2000 - share) < 4 * (share * (1 - share) / 2000) ** 0.5
    assert len(counts) > 60


def test_new_assembly_is_what_the_bytes_mean(catalogue: Catalogue) -> None:
    start = next(f.address for f in draw(catalogue, "delete_branch", "x", 63) if f.function == "short_branch")
    assert start is not None
    cases = {
        "7403": f"je {start + 5:#x}",
        "6690": "nop",
        "9090": "nop; nop",
        "06": "(bad)",
        "9006": "nop; (bad)",
        # the damaged instruction takes in the bytes behind it: mov rax, rdi; ret
        "b803": "mov eax, 0xf8894803",
    }
    for code, expected in cases.items():
        assert catalogue.assembly(start, bytes.fromhex(code)) == expected


@pytest.mark.parametrize("length", range(1, 16))
def test_an_instruction_of_any_length_is_deleted_by_at_most_two_nops(length: int) -> None:
    (new,) = deleted(bytes(length))
    nops = decode(new)
    assert [nop.mnemonic for nop in nops] == ["nop"] * (1 + (length > 9))
    assert sum(nop.size for nop in nops) == len(new) == length


def values(catalogue: Catalogue, name: str, key: str) -> list[int]:
    """A parameter of 20000 faults, which are not places in the text and are watched."""
    faults = [fault for seed in range(200) for fault in draw(catalogue, name, str(seed), 100)]
    assert all(fault.address is None and fault.probe for fault in faults)
    return [fault.params[key] for fault in faults]


@pytest.mark.parametrize(
    ("name", "key", "least", "greatest"),
    [
        ("copy_overrun", "calls", 1000, 4000),
        ("allocation", "calls", 1000, 4000),
        ("allocation", "ms", 0, 256),
        ("synchronization", "calls", 1000, 4000),
    ],
)
def test_numbers_are_drawn_uniformly_within_the_papers_bounds(
    catalogue: Catalogue, name: str, key: str, least: int, greatest: int
) -> None:
    found = values(catalogue, name, key)
    assert (min(found), max(found)) == (least, greatest)
    deviation = (greatest - least) / 12**0.5 / len(found) ** 0.5
    assert abs(sum(found) / len(found) - (least + greatest) / 2) < 4 * deviation


def test_overruns_have_the_papers_distribution(catalogue: Catalogue) -> None:
    extra = values(catalogue, "copy_overrun", "extra")
    groups = [
        (0.50, sum(e == 1 for e in extra)),
        (0.44, sum(2 <= e <= 1024 for e in extra)),
        (0.06, sum(2048 <= e <= 4096 for e in extra)),
    ]
    n = len(extra)
    assert sum(found for _, found in groups) == n
    for share, found in groups:
        assert abs(found / n - share) < 4 * (share * (1 - share) / n) ** 0.5
    assert (max(e for e in extra if e <= 1024), min(e for e in extra if e > 1)) == (1024, 2)


@pytest.mark.parametrize("name", ["kernel_heap", "kernel_stack"])
def test_the_first_flips_are_watched(catalogue: Catalogue, name: str) -> None:
    faults = draw(catalogue, name, "x")
    assert [f.probe for f in faults] == [True] * 4 + [False] * 16
    seeds = {f.params["seed"] for f in faults}
    assert len(seeds) == 20 and min(seeds) >= 0 and max(seeds) < 2**32


@pytest.mark.parametrize(
    ("name", "given", "key", "expected"),
    [
        ("allocation", {"ms": (7, 7)}, "ms", {7}),
        ("copy_overrun", {"extra": [[1.0, [9, 10]]]}, "extra", {9, 10}),
        ("synchronization", {"calls": [5, 6]}, "calls", {5, 6}),
        ("synchronization", {"seconds": [15, 15]}, "wait_ms", {15000}),
        ("allocation", {"seconds": [0.001, 0.003]}, "wait_ms", {1, 2, 3}),
        ("kernel_heap", {"kinds": ["percpu", "slab"]}, "kind", {"percpu", "slab"}),
    ],
)
def test_parameters_can_be_set(
    catalogue: Catalogue, name: str, given: dict[str, object], key: str, expected: set[int]
) -> None:
    faults = CLASSES[name].with_parameters(given).draw(catalogue, random.Random(1), 50)
    assert {f.params[key] for f in faults} == expected
    same = CLASSES[name].with_parameters({}).draw(catalogue, random.Random("1"), 20)
    assert draw(catalogue, name, "1") == same


@pytest.mark.parametrize(
    ("name", "given"),
    [
        *(("allocation", {"calls": calls}) for calls in ((4, 3), (0, 3))),
        *(("allocation", ms) for ms in ({"ms": (0, 60001)}, {"milliseconds": (0, 1)})),
        *(("copy_overrun", {"extra": extra}) for extra in ([[0.5, [1, 1]]], [[1.0, [0, 1]]], [])),
        ("synchronization", {"calls": 5}),
        *(("kernel_heap", {"kinds": kinds}) for kinds in ([], ["stack"])),
        *(("copy_overrun", {"seconds": seconds}) for seconds in ((0, 1), (2, 1), (1, 3601))),
    ],
)
def test_parameters_that_make_no_sense_are_refused(name: str, given: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        CLASSES[name].with_parameters(given)


def test_a_class_without_parameters_takes_none() -> None:
    with pytest.raises(UsageError, match="kernel_stack: this fault class has no parameters"):
        CLASSES["kernel_stack"].with_parameters({"calls": (1, 2)})


@pytest.mark.parametrize("name", FAULTY)
@pytest.mark.parametrize("count", [-1, 10**7])
def test_impossible_counts_are_refused(catalogue: Catalogue, name: str, count: int) -> None:
    with pytest.raises(UsageError, match=f"{name}: {count} faults asked for") as caught:
        draw(catalogue, name, "x", count)
    assert "\n" not in str(caught.value)


def test_commands_of_a_batch() -> None:
    faults = [
        Fault(0, "delete_branch", 0xFFFFFFFF81000003, "f", "", ".text", b"\x74\x03", b"\x66\x90"),
        Fault(1, "kernel_text", 0xFFFFFFFF81000010, "f", "", ".text", b"\x90", b"\x91", probe=False),
        Fault(2, "copy_overrun", params={"calls": 1234, "extra": 5}),
        Fault(3, "kernel_heap", params={"seed": 77}),
        Fault(4, "kernel_stack", params={"seed": 78}),
        Fault(5, "allocation", params={"calls": 1000, "ms": 0}),
        Fault(6, "synchronization", params={"calls": 4000}),
        Fault(7, "allocation", params={"wait_ms": 15000, "ms": 9}),
        Fault(8, "kernel_heap", params={"seed": 79, "kind": "page_table"}),
    ]
    assert commands(faults).splitlines() == [
        "text 0 ffffffff81000003 7403 6690 1",
        "text 1 ffffffff81000010 90 91 0",
        "copy_overrun 2 1234 5",
        "heap 3 77",
        "stack 4 78",
        "allocation 5 1000 0",
        "synchronization 6 4000",
        "allocation 7 15000ms 9",
        "heap 8 79 page_table",
        "go",
    ]


def test_the_control_has_no_faults_whatever_is_asked_for(catalogue: Catalogue) -> None:
    assert draw(catalogue, "none", 1, 20) == []
    assert commands([]) == "go\n"
