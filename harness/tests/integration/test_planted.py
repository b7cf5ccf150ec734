# SPDX-License-Identifier: Apache-2.0
"""The control `planted`: what is changed behind the workload's back is found, and called by its name."""

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from riobed.guest.guest import Guest
from riobed.guest.memory.layout import PAGE
from riobed.guest.settings.config import MachineSpec, WorkloadSpec
from riobed.guest.settings.modes import cache_mode
from riobed.guest.setup import guest_setup
from riobed.plan.spec import CampaignSpec
from riobed.plan.vocabulary import vocabulary
from riobed.trial.control.ext4 import e2fsck_names_journal
from riobed.trial.control.plant import PLANTED
from riobed.trial.record import TrialRecord
from riobed.trial.rows import trial_row
from riobed_results.rules.controls import expected, found_by
from riobed_results.store.trial import TrialRow

from .conftest import MEMTEST, extended, opened, trial

# Corruption, pages with a wrong checksum, entries that were not followed.
TOLD = vocabulary({})
MEMORY = {
    "stray": ("direct", 1, 0),
    "entry": ("direct", 0, 1),
    "written": ("indirect", 0, 0),
    "block": ("indirect", 0, 0),
    "directory": ("direct", 1, 0),
    "inode": ("direct", 1, 0),
    "bitmap": ("none", 1, 0),
    "xattr": ("direct", 1, 0),
}
DISK = ("block", "written", "directory", "inode", "bitmap", "xattr", "journal")


def planted_trial(guest: Guest, spec: CampaignSpec, **planned: Any) -> tuple[TrialRecord, TrialRow]:
    planned |= {"fault_class": PLANTED, "warmup_s": 0.4}
    record = trial(guest, spec, f"test/{planned['change']}", **planned)
    plant = record.plant
    assert plant and record.check and record.recovery and plant.kind == planned["change"]
    assert (plant.during, bool(plant.step)) == (("step", True) if planned["in_step"] else ("rest", False))
    assert record.progress.in_flight == (plant.step or 0)
    row = trial_row(record, 1, 1, "2026-01-02T03:04:05.000+00:00", "")
    assert (row.requested, row.injected, row.faults[0].params) == (1, 1, plant.as_stored())
    assert found_by(row, TOLD) and expected(row, TOLD) == row.corruption, (
        plant,
        record.check,
        record.recovery,
    )
    return record, row


def check_place(record: TrialRecord) -> None:
    """Nothing else differs, and it differs there; of a page whose entry is lost, anywhere in it."""
    plant, check = record.plant, record.check
    assert plant and check
    # A name is missing, and another one is there; or a write also changed the time of a twin.
    most = {"directory": 2, "written": 2, "entry": PAGE}.get(plant.kind, 1)
    assert 1 <= len(check.differences) <= most, (plant, check, record.recovery)
    if plant.kind == "entry":
        # A page that is lost reads as zeros, and may have had zeros between its bytes.
        places = {(one.path, one.offset // PAGE) for one in check.differences}
        assert len(places) == 1, (plant, check)
    difference = check.differences[-1]
    if plant.block is not None:
        wanted = {"directory": {"missing", "extra"}, "xattr": {"metadata"}}
        assert difference.kind in wanted.get(plant.kind, {"metadata", "size", "twin"})
        return
    unit = PAGE if plant.kind == "entry" else 1
    assert difference.offset // unit == plant.offset // unit


@pytest.fixture(scope="module")
def guest_of(request: pytest.FixtureRequest) -> Iterator[Guest]:
    """A guest in a mode, whose twins have extended attributes."""
    workload = WorkloadSpec(path=MEMTEST, options={"xattrs": 300})
    with opened(guest_setup(MachineSpec(), None, workload), cache_mode(request.param), "planted") as guest:
        yield guest


def of_kinds(some: str, every: Iterable[str]) -> pytest.MarkDecorator:
    """Some kinds at rest, one after the other in one guest, and at full length all of them."""
    both = [
        pytest.param(some.split(), False, id="some"),
        *(extended(list(every), step, id=f"all-{step}") for step in (False, True)),
    ]
    return pytest.mark.parametrize(("kinds", "in_step"), both)


@of_kinds("stray entry bitmap", MEMORY)
@pytest.mark.parametrize("guest_of", ["rio", extended("rio-protected")], indirect=True)
def test_planted_in_memory(guest_of: Guest, spec: CampaignSpec, kinds: list[str], in_step: bool) -> None:
    for kind in kinds:
        wanted = MEMORY[kind]
        record, row = planted_trial(guest_of, spec, change=kind, in_step=in_step)
        assert record.recovery
        found = record.recovery.checksum_mismatches, record.recovery.unused_entries
        assert (row.corruption, *found) == wanted, (record.plant, record.check, record.recovery)
        if kind != "bitmap":
            check_place(record)
        else:
            # Both oracles name it, one of them by the block that lost its bit.
            assert found_by(row, TOLD) == "checksum" and row.faults[0].params["e2fsck"] is True


@of_kinds("inode journal", DISK)
@pytest.mark.parametrize("guest_of", ["write-through"], indirect=True)
def test_planted_on_disk(guest_of: Guest, spec: CampaignSpec, kinds: list[str], in_step: bool) -> None:
    found = {}
    for kind in kinds:
        record, row = planted_trial(guest_of, spec, change=kind, in_step=in_step)
        found[kind] = found_by(row, TOLD)
        log = guest_of.machine.run(["/bin/cat", "/run/e2fsck.log"]).stdout
        assert b"recovering journal" in log or kind not in ("written", "journal")
        assert e2fsck_names_journal(log) == (kind == "journal")
        if found[kind] == "check" and kind != "journal":
            check_place(record)
    assert found.pop("journal") in ("check", "e2fsck")
    assert found == {kind: "e2fsck" if kind == "bitmap" else "check" for kind in found}
