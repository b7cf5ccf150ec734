# SPDX-License-Identifier: Apache-2.0
"""From what oracles say to pages: whatever a check prints, and whatever a guest answers."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from harness_builders import recovery, spec
from riobed.errors import InfraError
from riobed.guest.guest import Guest
from riobed.guest.settings.modes import cache_mode
from riobed.plan import plan
from riobed.propagation.damage import Damage, damages
from riobed.propagation.follower import BlockRef
from riobed.trial.record import TrialRecord
from riobed.vm.agent import ExecResult
from riobed_results.store import CheckReport, RecoveryReport


class Asked:
    """A guest whose files have these inodes, and whose pages lie there; anything else it does not know."""

    def __init__(self, inodes: dict[str, int], blocks: dict[str, str]) -> None:
        self.inodes = inodes
        self.blocks = blocks
        self.questions = 0

    def run(self, argv: list[str], stdin: bytes = b"", timeout: float = 60) -> ExecResult:
        self.questions += 1
        if b"\n" in stdin:
            answers = [self.blocks.get(line, "") for line in stdin.decode().splitlines()]
        else:
            answers = [str(self.inodes.get(path, "")) for path in argv[4:]]
        return ExecResult(0, "".join(f"{answer}\n" for answer in answers).encode(), b"")


def of(machine: Any, check: Any = None, report: RecoveryReport | None = None) -> list[Damage]:
    said = None if check is None else CheckReport.model_validate({"equal": False} | check)
    record = TrialRecord(next(plan(spec())), [], check=said, recovery=report)
    return damages(cast(Guest, SimpleNamespace(machine=machine, mode=cache_mode("rio"))), record)


def difference(**words: Any) -> dict[str, Any]:
    return {"path": "tree/f", "kind": "content", "offset": 0, "length": 1, "detail": ""} | words


def mismatch(ino: int, index: int, metadata: bool = False) -> dict[str, Any]:
    return {"ino": ino, "index": index, "dirty": True, "metadata": metadata}


def checksums(*mismatches: dict[str, Any]) -> RecoveryReport:
    return recovery(checksums={"intact": 1, "corrupt": len(mismatches), "mismatches": list(mismatches)})


def test_both_oracles_name_one_page() -> None:
    machine = Asked({"tree/f": 75}, {"75 2": "2232"})
    check = {"differences": [difference(offset=8200, length=17)]}
    place = BlockRef(75, 2, 2232)
    assert of(machine, check, checksums(mismatch(75, 2))) == [
        Damage("tree/f: content, 17 bytes from 8200", (place,)),
        Damage("checksum of page 2 of inode 75", (place,)),
    ]


def test_a_block_of_metadata_is_where_it_says() -> None:
    machine = Asked({}, {})
    assert of(machine, None, checksums(mismatch(0, 49, metadata=True))) == [
        Damage("checksum of block 49 of the device", (BlockRef(0, 49, 49),))
    ]
    assert machine.questions == 0


@pytest.mark.parametrize(
    ("offset", "length", "pages"),
    [(4095, 1, [0]), (4095, 2, [0, 1]), (4096, 0, [1]), (0, 1 << 40, [0, 1, 2, 3])],
)
def test_the_pages_of_a_difference(offset: int, length: int, pages: list[int]) -> None:
    (found,) = of(Asked({"tree/f": 75}, {}), {"differences": [difference(offset=offset, length=length)]})
    assert found.places == tuple(BlockRef(75, page) for page in pages)


def test_what_is_gone_has_no_page_nor_have_attributes_and_a_hole_has_no_block() -> None:
    machine = Asked({"tree/g": 80}, {"80 0": "0", "80 1": "17 (uninit)"})
    seen = [difference(), difference(path="tree/g", kind="metadata", length=0)]
    gone, attributes, hole = of(machine, {"differences": [*seen, difference(path="tree/g", length=8192)]})
    assert gone.places == attributes.places == ()
    assert hole.places == (BlockRef(80, 0), BlockRef(80, 1, 17))


NO_PLACES = [None, {}, *({"differences": said} for said in (None, {"path": "x"}, ["x", None, {}]))]
SENSELESS = [{"path": 7}, {"offset": -1}, {"offset": "0"}, {"length": True}]


@pytest.mark.parametrize("check", [*NO_PLACES, *({"differences": [difference(**w)]} for w in SENSELESS)])
def test_another_workloads_check_need_not_name_places(check: Any) -> None:
    assert of(Asked({}, {}), check, recovery(mount_error=5)) == []


def test_so_many_are_looked_for() -> None:
    check = {"differences": [difference() for _ in range(100)]}
    found = of(Asked({"tree/f": 75}, {}), check, checksums(*(mismatch(75, n) for n in range(100))))
    assert len(found) == 64


def test_a_guest_that_does_not_answer() -> None:
    machine = SimpleNamespace(run=lambda argv, stdin=b"": ExecResult(1, b"", b"out of memory"))
    with pytest.raises(InfraError, match="does not say where"):
        of(machine, {"differences": [difference()]})
