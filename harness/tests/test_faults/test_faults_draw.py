# SPDX-License-Identifier: Apache-2.0
"""The faults of each class: what they change, that seeds name them, that draws are fair."""

import random
from collections import Counter
from itertools import pairwise

import capstone
import pytest
from pydantic import ValidationError
from riobed.errors import UsageError
from riobed.faults import CLASSES, Catalogue, Fault, SiteFilter, commands
from riobed.faults.classes.rules import RULES
from riobed.faults.sites.nops import NOPS, deleted
from riobed.guest.config import MachineSpec
from riobed.guest.modes import all_modes
from riobed.plan.rounds import plan
from riobed.plan.spec import CampaignSpec

TEXT_CLASSES = ("kernel_text", *RULES)
FAULTY = tuple(name for name in CLASSES if name not in ("none", "planted"))


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
    random.seed(1)
    first = draw(catalogue, name, "a seed")
    random.seed(2)
    assert draw(catalogue, name, "a seed") == first
    assert draw(catalogue, name, "another seed") != first
    assert [fault.index for fault in first] == list(range(20))
    assert {fault.fault_class for fault in first} == {name}


@pytest.mark.parametrize("name", FAULTY)
def test_the_same_seed_has_the_same_faults_in_every_mode(catalogue: Catalogue, name: str) -> None:
    modes = list(all_modes())
    drawn: dict[str, dict[str, list[Fault]]] = {}
    machine = MachineSpec(disk_mib=512)
    spec = CampaignSpec(name="x", modes=modes, fault_classes=[name], max_trials_per_cell=4, machine=machine)
    for trial in plan(spec):
        faults = CLASSES[name].draw(catalogue, trial.fault_rng(), 20)
        drawn.setdefault(trial.seed, {})[trial.mode] = faults
    assert len(drawn) == 4 and len(modes) > 2
    for by_mode in drawn.values():
        assert list(by_mode) == modes
        assert all(faults == by_mode[modes[0]] for faults in by_mode.values())
    firsts = [by_mode[modes[0]] for by_mode in drawn.values()]
    assert all(firsts[0] != other for other in firsts[1:])


@pytest.mark.parametrize("name", TEXT_CLASSES)
def test_two_faults_of_a_batch_never_overlap(catalogue: Catalogue, name: str) -> None:
    for seed in range(5):
        places = sorted((f.address or 0, len(f.old)) for f in draw(catalogue, name, str(seed), 50))
        assert all(low + size <= high for (low, size), (high, _) in pairwise(places))


def test_sites_are_drawn_uniformly(catalogue: Catalogue) -> None:
    sites, draws = catalogue.site_count("initialization"), 3000
    counts = Counter(draw(catalogue, "initialization", str(seed), 1)[0].address for seed in range(draws))
    mean = draws / sites
    assert len(counts) == sites
    assert all(abs(count - mean) < 5 * mean**0.5 for count in counts.values())


def test_changes_of_a_site_are_drawn_uniformly(catalogue: Catalogue) -> None:
    narrow = catalogue.filtered(SiteFilter(functions=("many_7",)))
    sites, draws = narrow.site_count("destination_reg"), 3000
    counts = Counter(draw(narrow, "destination_reg", str(seed), 1)[0].new for seed in range(draws))
    mean = draws / 14  # lea with REX: any register but its own and rsp
    assert (sites, len(counts)) == (1, 14)
    assert all(abs(count - mean) < 5 * mean**0.5 for count in counts.values())


@pytest.mark.parametrize("name", FAULTY)
def test_a_draw_leaves_the_global_generator_alone(catalogue: Catalogue, name: str) -> None:
    before = random.getstate()
    draw(catalogue, name, "x")
    assert random.getstate() == before


@pytest.mark.parametrize("name", FAULTY)
def test_fewer_faults_are_the_first_of_more(catalogue: Catalogue, name: str) -> None:
    assert draw(catalogue, name, "x", 5) == draw(catalogue, name, "x", 20)[:5]
    assert draw(catalogue, name, "x", 0) == []


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
    counts: Counter[str] = Counter()
    for seed in range(2000):
        (fault,) = draw(catalogue, "kernel_text", str(seed), 1)
        counts[fault.function] += 1
    sizes: Counter[str] = Counter()
    for rank in range(catalogue.byte_count):
        sizes[catalogue.function_at(catalogue.byte_at(rank))] += 1
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


def test_delete_branch_falls_through(catalogue: Catalogue) -> None:
    lengths = set()
    for fault in draw(catalogue, "delete_branch", "all", catalogue.site_count("delete_branch")):
        old, new = decode(fault.old), decode(fault.new)
        assert old[0].mnemonic.startswith("j") and old[0].mnemonic != "jmp"
        assert [i.mnemonic for i in new] == ["nop"]
        assert new[0].size == len(fault.old)
        assert fault.new_asm.startswith("nop")
        lengths.add(len(fault.old))
    assert lengths == {2, 6}


def test_every_nop_is_one_nop_of_its_length() -> None:
    for length, code in enumerate(NOPS, 1):
        (nop,) = decode(code)
        assert (nop.mnemonic, nop.size) == ("nop", length)


@pytest.mark.parametrize("length", range(1, 16))
def test_an_instruction_of_any_length_is_deleted_by_at_most_two_nops(length: int) -> None:
    (new,) = deleted(bytes(length))
    nops = decode(new)
    assert [nop.mnemonic for nop in nops] == ["nop"] * (1 + (length > 9))
    assert sum(nop.size for nop in nops) == len(new) == length


def test_overruns_have_the_papers_distribution(catalogue: Catalogue) -> None:
    faults = [f for seed in range(200) for f in draw(catalogue, "copy_overrun", str(seed), 100)]
    extra = [f.params["extra"] for f in faults]
    calls = [f.params["calls"] for f in faults]
    groups = [
        (0.50, sum(e == 1 for e in extra)),
        (0.44, sum(2 <= e <= 1024 for e in extra)),
        (0.06, sum(2048 <= e <= 4096 for e in extra)),
    ]
    n = len(faults)
    assert sum(found for _, found in groups) == n == 20000
    for share, found in groups:
        assert abs(found / n - share) < 4 * (share * (1 - share) / n) ** 0.5
    assert (min(calls), max(calls)) == (1000, 4000)
    assert abs(sum(calls) / n - 2500) < 4 * 866 / n**0.5
    assert (max(e for e in extra if e <= 1024), min(e for e in extra if e > 1)) == (1024, 2)
    assert all(f.address is None and f.probe for f in faults)


def test_early_frees_have_the_papers_numbers(catalogue: Catalogue) -> None:
    faults = [f for seed in range(200) for f in draw(catalogue, "allocation", str(seed), 100)]
    for key, least, greatest in (("calls", 1000, 4000), ("ms", 0, 256)):
        values = [f.params[key] for f in faults]
        assert (min(values), max(values)) == (least, greatest)
        deviation = (greatest - least) / 12**0.5
        assert abs(sum(values) / len(values) - (least + greatest) / 2) < 4 * deviation / len(values) ** 0.5
    assert all(f.address is None and f.probe for f in faults)


def test_skipped_procedures_are_drawn_within_their_bounds(catalogue: Catalogue) -> None:
    calls = [f.params["calls"] for f in draw(catalogue, "synchronization", "x", 1000)]
    assert 1000 <= min(calls) < 1050 and 3950 < max(calls) <= 4000


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
    ],
)
def test_parameters_can_be_set(
    catalogue: Catalogue, name: str, given: dict[str, object], key: str, expected: set[int]
) -> None:
    faults = CLASSES[name].with_parameters(given).draw(catalogue, random.Random(1), 50)
    assert {f.params[key] for f in faults} == expected
    assert draw(catalogue, name, "1") == CLASSES[name].with_parameters({}).draw(
        catalogue, random.Random("1"), 20
    )


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("allocation", {"calls": (4, 3)}),
        ("allocation", {"calls": (0, 3)}),
        ("allocation", {"ms": (0, 60001)}),
        ("allocation", {"milliseconds": (0, 1)}),
        ("copy_overrun", {"extra": [[0.5, [1, 1]]]}),
        ("copy_overrun", {"extra": [[1.0, [0, 1]]]}),
        ("copy_overrun", {"extra": []}),
        ("synchronization", {"calls": 5}),
    ],
)
def test_parameters_that_make_no_sense_are_refused(name: str, given: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        CLASSES[name].with_parameters(given)


def test_a_class_without_parameters_takes_none() -> None:
    with pytest.raises(UsageError, match="kernel_heap: this fault class has no parameters"):
        CLASSES["kernel_heap"].with_parameters({"calls": (1, 2)})


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
    ]
    assert commands(faults).splitlines() == [
        "text 0 ffffffff81000003 7403 6690 1",
        "text 1 ffffffff81000010 90 91 0",
        "copy_overrun 2 1234 5",
        "heap 3 77",
        "stack 4 78",
        "allocation 5 1000 0",
        "synchronization 6 4000",
        "go",
    ]


def test_the_control_has_no_faults_whatever_is_asked_for(catalogue: Catalogue) -> None:
    assert draw(catalogue, "none", 1, 20) == []
    assert commands([]) == "go\n"
