# SPDX-License-Identifier: Apache-2.0
"""Each fault class on a module that was made to be hit: what changes is what the class says, and no more.

`injectors/riobed_victim` has functions, objects, stacks, blocks, copies and locks whose behaviour with a
fault is known. Faults of the text are those of its compiled code. Where a fault goes is drawn in the guest
or depends on what else runs there, so a few may miss the victim: then it is done again.
"""

import errno
import io
import os
import random
from collections import Counter
from collections.abc import Callable
from itertools import chain, count, pairwise
from typing import NamedTuple, TypeVar

import capstone
import pytest
from elftools.elf.elffile import ELFFile
from riobed.faults.classes.rules import RULES
from riobed.faults.sites.disassembly import Instruction, sweep
from riobed.faults.sites.flow import Function, target
from riobed.guest.boot import wait_until
from riobed.guest.guest import Guest
from riobed.guest.memory import registry
from riobed.trial.observe.evidence import Evidence, read_evidence
from riobed.vm.agent import AgentLost

from .conftest import GuestIn, shell
from .test_traps import DIRECT_MAP

MODULE = "/lib/riobed/riobed_victim.ko"
FILES = "/sys/kernel/debug/riobed_victim"
INJECT = "cat >/run/faults; cat /run/faults >/dev/riobed-inject"
PATTERN = 0x5A
STACK = 16384  # THREAD_SIZE
# Six flips all hit the victim in about half of the tries: so many miss once in some thousand runs.
TRIES = 12
# The guest is the same in each try: with the same seeds, the same flips would miss again.
SEEDS = count(100)
Seen = TypeVar("Seen")
FLIPS = 1000


@pytest.fixture
def guest(guest_in: GuestIn) -> Guest:
    return guest_in("rio")


def ready(guest: Guest) -> None:
    guest.ready()
    shell(guest, f"insmod {MODULE}")


def victim(guest: Guest) -> range:
    """The victim's addresses."""
    size, start = shell(guest, "awk '$1 == \"riobed_victim\" {print $2, $6}' /proc/modules").split()
    return range(int(start, 16), int(start, 16) + int(size))


def look(guest: Guest, name: str) -> list[list[str]]:
    """The words of each line of a file of the victim."""
    return [line.split() for line in shell(guest, f"cat {FILES}/{name}").decode().splitlines()]


def inject(guest: Guest, *commands: str) -> None:
    shell(guest, INJECT, "\n".join([*commands, "go\n"]).encode())


def evidence(guest: Guest) -> Evidence:
    return read_evidence(guest.machine.evidence.text())


def until_all_hit(
    guest: Guest, experiment: Callable[[], Seen], is_victim: Callable[[dict], bool]
) -> tuple[Seen, Evidence]:
    """Do it again while a fault hits something else or ends the guest."""
    for _ in range(TRIES):
        ready(guest)
        try:
            seen = experiment()
        except AgentLost:
            continue
        except AssertionError:
            if all(is_victim(hit) for hit in evidence(guest).hits.values()):
                raise
            continue
        found = evidence(guest)
        if all(is_victim(hit) for hit in found.hits.values()):
            return seen, found
    raise AssertionError(f"in {TRIES} tries a fault always hit something else")


def refused(guest: Guest, *commands: str) -> bytes:
    """What the injector says of a batch that it does not take."""
    batch = "\n".join([*commands, "go\n"]).encode()
    result = guest.machine.run(["/bin/sh", "-c", "cat >/dev/riobed-inject"], stdin=batch)
    assert result.status != 0
    return result.stderr


# --- text ---


class Change(NamedTuple):
    """An instruction of the victim's function, what it becomes, and what the function then returns."""

    old: str
    new_code: str
    new: str
    intact: int
    faulty: int


CHANGES = {
    "kernel_text": Change("inc eax", "ffc8", "dec eax", 6, 4),
    "destination_reg": Change("mov ecx, 7", "ba07000000", "mov edx, 7", 23, 1 + 7 * 8),
    "source_reg": Change("mov eax, ecx", "89d0", "mov eax, edx", 3, 4),
    "delete_branch": Change("je", "6690", "nop", 1, 2),
    "delete_random_inst": Change("add eax, 2", "0f1f00", "nop dword ptr [rax]", 42, 40),
    "initialization": Change("mov dword ptr [rsp + 8], 0", "0f1f840000000000", "nop dword", 0, 0x5EED),
    "pointer": Change("mov rax, rsi", "0f1f00", "nop dword ptr [rax]", 22, 11),
    "off_by_one": Change("jl", "7e", "jle", 5, 6),
}


def read_function(module: bytes, name: str) -> Function:
    """A function of a compiled module as the fault classes see it; its addresses are offsets in it."""
    elf = ELFFile(io.BytesIO(module))
    (symbol,) = elf.get_section_by_name(".symtab").get_symbol_by_name(name)
    start = symbol["st_value"]
    code = elf.get_section(symbol["st_shndx"]).data()[start : start + symbol["st_size"]]
    instructions = list(sweep(code, 0))
    jumps = {target(instruction) for instruction in instructions} - {None}
    return Function(name, instructions, jumps | {0})


def may_become(name: str, function: Function, old: Instruction) -> list[bytes]:
    """What an instruction becomes by a fault of the class, if it is one of its sites."""
    if name == "kernel_text":
        bits = range(8 * len(old.code))
        return [(int.from_bytes(old.code) ^ 1 << bit).to_bytes(len(old.code)) for bit in bits]
    rule = RULES[name]
    assert old in [site.instruction for site in rule.find(function)], f"{old.text}: no site of {name}"
    return list(rule.changes(old.code))


def assembly(code: bytes, address: int = 0) -> str:
    (instruction,) = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64).disasm(code, address)
    return f"{instruction.mnemonic} {instruction.op_str}".strip()


def text_command(guest: Guest, name: str, change: Change) -> str:
    module = shell(guest, f"cat {MODULE}")
    function = f"victim_{name}"
    read = read_function(module, function)
    (old,) = (instruction for instruction in read.instructions if instruction.text.startswith(change.old))
    new = bytes.fromhex(change.new_code)
    new += old.code[len(new) :]
    assert new in may_become(name, read, old)
    assert assembly(new).startswith(change.new)
    start = int(shell(guest, f"grep ' {function}\\b' /proc/kallsyms").split()[0], 16)
    return f"text 0 {start + old.address:x} {old.code.hex()} {new.hex()} 1"


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_instruction_does_what_its_new_bytes_say(guest: Guest, name: str) -> None:
    ready(guest)
    intact = {key: change.intact for key, change in CHANGES.items()}
    assert {key: int(value) for key, value in look(guest, "text")} == intact
    inject(guest, text_command(guest, name, CHANGES[name]))
    assert (evidence(guest).injected.keys(), evidence(guest).activated) == ({0}, {})
    assert {key: int(value) for key, value in look(guest, "text")} == intact | {name: CHANGES[name].faulty}
    assert evidence(guest).activated.keys() == {0}


def test_loaded_faults_wait_for_an_interrupt_and_the_next_one_brings_the_guest_down(guest: Guest) -> None:
    ready(guest)
    change = CHANGES["off_by_one"]
    shell(guest, INJECT, f"{text_command(guest, 'off_by_one', change)}\ngo nmi\n".encode())
    assert int(dict(look(guest, "text"))["off_by_one"]) == change.intact
    assert (evidence(guest).ready, evidence(guest).injected) == (1, {})
    guest.machine.nmi()
    assert wait_until(guest.machine, lambda: 0 in evidence(guest).injected, 240)
    words = shell(guest, f"cat {FILES}/text; echo looked >/dev/kmsg; dmesg | grep looked").split()
    assert int(words[words.index(b"off_by_one") + 1]) == change.faulty
    assert evidence(guest).activated.keys() == {0}
    # The two clocks agree up to a tick.
    stamp = float(words[-2].strip(b"[]"))
    assert -0.01 < evidence(guest).of_log(stamp) - evidence(guest).activated[0] / 1e9 < 1
    guest.machine.nmi()
    assert wait_until(guest.machine, lambda: b"NMI: Not continuing" in guest.machine.console.text(), 240)


def test_bytes_that_are_not_those_of_the_catalogue_are_refused_before_anything_is_changed(
    guest: Guest,
) -> None:
    ready(guest)
    intact = look(guest, "text")
    good = text_command(guest, "off_by_one", CHANGES["off_by_one"])
    words = text_command(guest, "delete_branch", CHANGES["delete_branch"]).split()
    words[1], words[3] = "1", "7503"
    assert os.strerror(errno.EILSEQ).encode() in refused(guest, good, " ".join(words))
    log = shell(guest, "dmesg | tail -n 1").decode()
    assert "riobed_inject: " in log and words[2] in log
    assert (look(guest, "text"), evidence(guest)) == (intact, Evidence())


def test_the_injector_does_not_change_itself(guest: Guest) -> None:
    ready(guest)
    address = int(shell(guest, "grep ' evidence_injected' /proc/kallsyms").split()[0], 16)
    assert b"Bad address" in refused(guest, f"text 0 {address:x} 90 91 1")
    assert evidence(guest).injected == {}


# --- heap and stacks ---


def flipped(hits: dict[int, dict]) -> set:
    """Address and flipped bit of each hit, as the victim tells them."""
    return {(int(str(hit["address"]), 16), 1 << int(hit["bit"])) for hit in hits.values()}


def changes(guest: Guest, name: str) -> set:
    return {(int(address, 16), int(xor, 16)) for address, xor in look(guest, name)}


def test_a_heap_flip_changes_one_bit_of_a_live_object(guest: Guest) -> None:
    def experiment() -> set:
        shell(guest, f"echo fill >{FILES}/heap")
        inject(guest, *(f"heap {index} {next(SEEDS)} slab" for index in range(6)))
        hits = evidence(guest).hits
        assert hits.keys() == evidence(guest).injected.keys() == set(range(6))
        guest.machine.pause()
        with registry.mapped(guest.machine.ram_path()) as memory:
            in_ram = {(at, memory[at - DIRECT_MAP] ^ PATTERN) for at, _ in flipped(hits)}
        guest.machine.resume()
        assert in_ram == flipped(hits)
        assert not evidence(guest).activated and not evidence(guest).overwritten
        return changes(guest, "heap")

    found, seen = until_all_hit(guest, experiment, lambda hit: hit["name"] == "riobed_victim_heap")
    assert found == flipped(seen.hits)
    assert all(0 <= int(hit["offset"]) < hit["size"] == 1024 for hit in seen.hits.values())
    # Looking at them is a use; of the others it is not known.
    assert (seen.activated.keys(), seen.overwritten) == ({0, 1, 2, 3}, {})


def test_a_heap_flip_changes_one_bit_of_memory_of_vmalloc(guest: Guest) -> None:
    def experiment() -> set:
        shell(guest, f"echo fill >{FILES}/vmalloc")
        inject(guest, *(f"heap {index} {next(SEEDS)} vmalloc" for index in range(6)))
        return changes(guest, "vmalloc")

    found, seen = until_all_hit(guest, experiment, lambda hit: hit["name"].startswith("vmalloc_write"))
    assert found == flipped(seen.hits)
    assert all((hit["kind"], hit["size"]) == ("vmalloc", 64 << 20) for hit in seen.hits.values())
    assert seen.activated.keys() == {0, 1, 2, 3}


def check_shares(sizes: dict[str, int], hits: Counter) -> None:
    """Each was hit by its share of the bytes; what is not among them does not count."""
    total = sum(hits[name] for name in sizes)
    for name, size in sizes.items():
        wanted = total * size / sum(sizes.values())
        # The kernel counts the free objects of the slabs that are being allocated from as live.
        assert abs(hits[name] - wanted) < 4 * wanted**0.5 + 0.1 * wanted + 3, name


def test_heap_flips_hit_kinds_and_caches_by_their_bytes(guest: Guest) -> None:
    guest.ready()
    meminfo = dict(line.split()[:2] for line in shell(guest, "cat /proc/meminfo").decode().splitlines())
    lines = [line.split() for line in shell(guest, "tail -n +3 /proc/slabinfo").decode().splitlines()]
    live = {words[0]: int(words[1]) * int(words[3]) for words in lines}
    batch = "".join(f"heap {index} {index}\n" for index in range(FLIPS)) + "go\n"
    # The guest need not outlive that.
    guest.machine.spawn(["/bin/sh", "-c", INJECT], batch.encode())
    assert wait_until(guest.machine, lambda: len(evidence(guest).hits) == FLIPS, 240)
    found = [(str(hit["kind"]), str(hit["name"])) for hit in evidence(guest).hits.values()]
    check_shares(live, Counter(name for kind, name in found if kind == "slab"))
    sizes = {
        "slab": sum(live.values()),
        "struct_page": (guest.machine.config.memory - 1024 * int(meminfo["MemFree:"])) // 64,
        "percpu": 1024 * int(meminfo["Percpu:"]),
    }
    kinds = Counter(kind for kind, _ in found)
    check_shares(sizes, kinds)
    assert kinds["page_table"]
    # Other modes do not have what Rio has allocated.
    assert not any(name.startswith("rio_") for kind, name in found if kind == "vmalloc")
    guest.discard()


def test_what_is_flipped_is_not_read_to_draw_another_flip(guest: Guest) -> None:
    """Objects are found by the descriptions of their pages; a wrong one ends the guest in the injector."""
    guest.ready()
    kinds = ["struct_page"] * (FLIPS // 2) + ["slab"] * (FLIPS // 2)
    batch = "".join(f"heap {index} {index} {kind}\n" for index, kind in enumerate(kinds)) + "go\n"
    guest.machine.spawn(["/bin/sh", "-c", INJECT], batch.encode())
    assert wait_until(guest.machine, lambda: len(evidence(guest).hits) == FLIPS, 90)
    guest.discard()


def test_a_flip_that_is_overwritten_is_not_used(guest: Guest) -> None:
    def experiment() -> None:
        shell(guest, f"echo fill >{FILES}/heap")
        inject(guest, *(f"heap {index} {next(SEEDS)} slab" for index in range(5)))
        shell(guest, f"echo fill >{FILES}/heap")

    until_all_hit(guest, experiment, lambda hit: hit["name"] == "riobed_victim_heap")
    assert changes(guest, "heap") == set()
    seen = evidence(guest)
    assert (seen.activated, seen.overwritten.keys()) == ({}, {0, 1, 2, 3})


def test_a_stack_flip_changes_one_bit_of_a_stack_in_use(guest: Guest) -> None:
    def experiment() -> set:
        shell(guest, f"echo make >{FILES}/stack")
        inject(guest, *(f"stack {index} {next(SEEDS)}" for index in range(6)))
        assert evidence(guest).hits.keys() == set(range(6)) and not evidence(guest).activated
        return changes(guest, "stack")

    found, seen = until_all_hit(guest, experiment, lambda hit: hit["task"] == "riobed_victim")
    # What is in use may be written by its owner before it is looked at.
    assert found and found <= flipped(seen.hits)
    assert all((int(str(hit["address"]), 16) + int(hit["offset"])) % STACK == 0 for hit in seen.hits.values())
    # Nobody reads the registers of a kernel thread that are kept there, nor the gaps in its frames.
    read = {index for index in range(4) if flipped({index: seen.hits[index]}) <= found}
    assert read and read <= seen.activated.keys() and not read & seen.overwritten.keys()
    assert seen.activated.keys() | seen.overwritten.keys() <= {0, 1, 2, 3}
    assert not seen.activated.keys() & seen.overwritten.keys()


# --- calls; the first one is far enough away for the victim to have begun ---


def test_a_block_that_is_freed_early_is_handed_out_again(guest: Guest) -> None:
    def experiment() -> set[str]:
        inject(guest, "allocation 0 10000 0", "allocation 1 1 100", "allocation 2 1 200")
        return {address for (address,) in look(guest, "allocation")}

    again, seen = until_all_hit(guest, experiment, lambda hit: hit["cache"] == "riobed_victim_blocks")
    assert {hit["address"] for hit in seen.hits.values()} == again
    for hit in seen.hits.values():
        assert (hit["routine"], hit["size"], hit["live"]) == ("kmem_cache_alloc_noprof", 128, 1)
    # Allocated one after the other, freed 100 ms apart.
    times = [seen.activated[index] / 1e6 for index in range(3)]
    assert all(later - earlier > 80 for earlier, later in pairwise(times))


def test_a_copy_goes_too_far_by_as_many_bytes_as_it_said(guest: Guest) -> None:
    extras = [1, 700, 4096, 33, 65]

    def experiment() -> list[tuple[str, int]]:
        pairs = enumerate(zip([20000, *[3001] * 4], extras, strict=True))
        inject(guest, *(f"copy_overrun {i} {calls} {extra}" for i, (calls, extra) in pairs))
        shell(guest, f"dd if=/dev/zero of={FILES}/copies bs=16384 count=1 2>/dev/null")
        return [(routine, int(size)) for routine, size in look(guest, "copies")]

    found, seen = until_all_hit(guest, experiment, lambda hit: hit["length"] == 777)
    assert found == [(seen.hits[i]["routine"], extras[i]) for i in range(5)]
    # Which routines are hit depends on what else the kernel copies meanwhile.
    module = victim(guest)
    for hit in seen.hits.values():
        routine = str(hit["routine"])
        # A module calls functions of the kernel for these, which call the routine.
        of_user = routine in ("rep_movs_alternative", "copy_to_nontemporal")
        assert hit["direction"] == ("from_user" if of_user else "in_kernel")
        assert (int(str(hit["caller"]), 16) in module) == (not of_user)


# As the victim's lines are ordered: which procedure takes, which frees.
LOCKS = [
    *((f"_raw_spin_lock{kind}", f"_raw_spin_unlock{kind}") for kind in ("", "_bh", "_irq")),
    ("_raw_spin_lock_irqsave", "_raw_spin_unlock_irqrestore"),
    ("mutex_lock", "mutex_unlock"),
    *((f"down_{kind}", f"up_{kind}") for kind in ("read", "write")),
    *(("inline", free) for free in ("folio_unlock", "unlock_buffer")),
]


def test_a_skipped_procedure_leaves_the_lock_as_it_was(guest: Guest) -> None:
    ready(guest)
    module = victim(guest)

    def experiment() -> Counter[str]:
        # A round has 16 calls, and each of them is as likely.
        apart = random.Random(next(SEEDS))
        spacing = [80000, *(apart.randrange(1900, 2100) for _ in range(83))]
        inject(guest, *(f"synchronization {i} {calls}" for i, calls in enumerate(spacing)))
        counts = [int(count) for words in look(guest, "locks") for count in words[:2]]
        return Counter(dict(zip(chain(*LOCKS), counts, strict=True)))

    every: Counter[str] = Counter()
    # Each of 16 is as likely, so that one experiment of a hundred misses one of the last two.
    for _ in range(TRIES):
        found, seen = until_all_hit(guest, experiment, lambda hit: int(str(hit["caller"]), 16) in module)
        assert found == Counter(str(hit["procedure"]) for hit in seen.hits.values())
        assert sum(found.values()) == len(seen.activated) == 84
        assert len(+found) >= 12
        every += found
        if len(+every) == 16:
            return
    raise AssertionError(f"in {TRIES} experiments some procedure was never skipped: {every}")
