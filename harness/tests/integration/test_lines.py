# SPDX-License-Identifier: Apache-2.0
"""A loss of power takes the lines of an NVDIMM that were not written back and fenced, and no others.

The program that stores (harness/tests/data/lines.c) is the independent count: it knows nothing of the plugin.
"""

import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from riobed.guest.boot import wait_stage0, wait_until
from riobed.guest.guest import Guest
from riobed.guest.settings.config import MachineSpec
from riobed.guest.settings.modes import cache_mode
from riobed.guest.setup import guest_setup
from riobed.vm import LostLines
from riobed.vm.nvdimm.persistence import LINE

from .conftest import compiled, opened

SOURCE = Path(__file__).parents[1] / "data/lines.c"
KIND = 40
KINDS = 8
# The kinds of lines.c, in order: of the first nothing is durable, of the last the first half.
OPEN, DURABLE, CHANGED = 0, range(1, 7), 7


@pytest.fixture(scope="module")
def guest() -> Iterator[Guest]:
    setup = guest_setup(MachineSpec(nvdimm_mib=16), None, loses_lines=True)
    with opened(setup, cache_mode("write-through"), "lines") as made:
        made.ready()
        yield made


@pytest.fixture(scope="module")
def program(guest: Guest) -> bytes:
    return compiled(guest, SOURCE, "-O1 -mclwb -mclflushopt")


def start(guest: Guest, program: bytes, how: str = "") -> None:
    machine, nvdimm = guest.machine, guest.machine.config.nvdimm
    assert nvdimm
    guest.ready()
    assert not any(nvdimm.path.read_bytes()[: KINDS * KIND * LINE])
    machine.write_file("/run/lines", program)
    machine.run(["/bin/chmod", "755", "/run/lines"])
    machine.spawn(["/bin/sh", "-c", f"/run/lines {nvdimm.address:x} {how} >/run/told"])


def lose_power(guest: Guest, seed: int) -> LostLines:
    guest.machine.pause()
    lost = guest.machine.power_loss(seed)
    assert lost is not None
    return lost


def stored(guest: Guest) -> list[tuple[int, int]]:
    nvdimm = guest.machine.config.nvdimm
    assert nvdimm
    content = nvdimm.path.read_bytes()
    return [struct.unpack_from("<QQ", content, LINE * number) for number in range(KINDS * KIND)]


def lines_after(
    guest: Guest, program: bytes, seed: int, how: str = ""
) -> tuple[LostLines, list[tuple[int, int]]]:
    """Let the program store, lose power, and return what of its lines is there."""
    start(guest, program, how)
    while not guest.machine.run(["/bin/grep", "-c", "stored", "/run/told"]).stdout.startswith(b"1"):
        time.sleep(0.1)
    lost = lose_power(guest, seed)
    found = stored(guest)
    wait_stage0(guest.machine)
    return lost, found


def test_only_what_was_written_back_and_fenced_is_sure(guest: Guest, program: bytes) -> None:
    lost, found = lines_after(guest, program, 1996)
    sound = [(number + 1, 0) for number in range(KINDS * KIND)]
    for kind in DURABLE:
        assert found[KIND * kind :][:KIND] == sound[KIND * kind :][:KIND], kind
    dropped = [number for number in range(KIND) if found[number] == (0, 0)]
    assert all(found[number] == sound[number] for number in range(KIND) if number not in dropped)
    changed = range(KIND * CHANGED, KIND * (CHANGED + 1))
    kept = [number for number in changed if found[number] == (number + 1, number + 1)]
    reverted = [number for number in changed if found[number] == (number + 1, 0)]
    assert len(kept) + len(reverted) == KIND
    assert lost == LostLines(found=2 * KIND, lost=len(dropped) + len(reverted))
    # The seed decides, so some of each are kept.
    assert 0 < len(dropped) < KIND and 0 < len(reverted) < KIND


@pytest.mark.extended
def test_equal_seeds_take_equal_lines(guest: Guest, program: bytes) -> None:
    assert lines_after(guest, program, 7) == lines_after(guest, program, 7)


def test_a_flush_of_other_memory_makes_nothing_durable(guest: Guest, program: bytes) -> None:
    lost, _ = lines_after(guest, program, 1996, "moved")
    assert lost.found == KINDS * KIND


@pytest.mark.extended
def test_a_flush_is_nothing_before_its_fence(guest: Guest, program: bytes) -> None:
    """One line may be between its store and its flush; the kernel fences now and then."""
    for seed in range(5):
        start(guest, program, "open")
        assert wait_until(guest.machine, lambda: all(first for first, _ in stored(guest)), 60)
        found = lose_power(guest, seed).found
        wait_stage0(guest.machine)
        if found > 1:
            return
    pytest.fail("each flush took effect at once")
