# SPDX-License-Identifier: Apache-2.0
"""The canary tells of each store into it, where it was, and of nothing else."""

from dataclasses import replace
from pathlib import Path

import pytest
from riobed.errors import InfraError
from riobed.guest.memory.layout import MIB
from riobed.vm import CanaryHits, Nvdimm, canary_hits, make_nvdimm
from riobed.vm.machine import MachineConfig
from riobed.vm.nvdimm.canary import BLOCK

USED = 2 * MIB


@pytest.fixture
def nvdimm(tmp_path: Path) -> Nvdimm:
    """A new one of which nobody has used anything."""
    disk = tmp_path / "disk"
    config = MachineConfig("vm", tmp_path, 2 * MIB, 1, "", disk, disk, "", "", disk, disk)
    made = Nvdimm(tmp_path / "nvdimm", USED + 4 * MIB, 4096 * MIB, 4 * MIB)
    make_nvdimm(replace(config, nvdimm=made))
    return made


def store(nvdimm: Nvdimm, *places: int) -> None:
    content = bytearray(nvdimm.path.read_bytes())
    for place in places:
        content[place] ^= 1
    nvdimm.path.write_bytes(content)


@pytest.mark.parametrize(
    ("places", "blocks"),
    [
        ([USED], 1),
        ([USED + 4 * MIB - 1], 1),
        ([USED + 7, USED + BLOCK - 1], 1),
        ([USED + BLOCK, USED + BLOCK - 1], 2),
        ([USED + MIB, USED + MIB - 1, USED + 3 * MIB], 3),
    ],
)
def test_each_block_that_a_store_hit_counts(nvdimm: Nvdimm, places: list[int], blocks: int) -> None:
    store(nvdimm, *places)
    assert canary_hits(nvdimm) == CanaryHits(blocks, min(places))


def test_what_is_used_is_no_canary(nvdimm: Nvdimm) -> None:
    assert nvdimm.path.read_bytes()[:USED] == bytes(USED)
    store(nvdimm, 0, USED - 1)
    assert canary_hits(nvdimm) == CanaryHits(0, None)


@pytest.mark.parametrize("left", [USED - 1, USED + MIB + 7])
def test_an_nvdimm_that_was_cut_short_is_our_own_failure(nvdimm: Nvdimm, left: int) -> None:
    with nvdimm.path.open("r+b") as file:
        file.truncate(left)
    with pytest.raises(InfraError, match=f"has {left} bytes, want {nvdimm.size}" if left > USED else "want"):
        canary_hits(nvdimm)


def test_a_block_copied_to_another_is_seen(nvdimm: Nvdimm) -> None:
    """No two blocks are equal, and none is zeros."""
    content = nvdimm.path.read_bytes()[USED:]
    blocks = {content[at : at + BLOCK] for at in range(0, len(content), BLOCK)}
    assert len(blocks) == len(content) // BLOCK and bytes(BLOCK) not in blocks
