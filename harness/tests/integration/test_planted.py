# SPDX-License-Identifier: Apache-2.0
"""The control `planted`: what is changed behind the workload's back is found, and called by its name."""

import pytest
from riobed.guest.guest import Guest
from riobed.guest.layout import PAGE
from riobed.plan.spec import CampaignSpec
from riobed.trial.planting import PLANTED
from riobed.trial.record import TrialRecord
from riobed.trial.rows import trial_row
from riobed_results.tables.planted import expected

from .conftest import GuestIn, trial

# Corruption, pages with a wrong checksum, entries that were not followed.
MEMORY = {"stray": ("direct", 1, 0), "entry": ("direct", 0, 1), "written": ("indirect", 0, 0)}


def planted_trial(guest: Guest, spec: CampaignSpec, mode: str, number: int) -> TrialRecord:
    planned = {"position": number, "mode": mode, "fault_class": PLANTED, "warmup_s": 0.4}
    record = trial(guest, spec, f"test/{number}", **planned)
    assert record.plant and record.check
    # Nothing else differs, and it differs there; of a page whose entry is lost, anywhere in it.
    assert len(record.check.differences) == 1, (record.plant, record.check, record.recovery)
    (difference,) = record.check.differences
    unit = PAGE if record.plant.kind == "entry" else 1
    assert difference.offset // unit == record.plant.offset // unit
    return record


@pytest.mark.parametrize("mode", ["rio", "rio-protected"])
def test_planted_in_memory(guest_in: GuestIn, spec: CampaignSpec, mode: str) -> None:
    kinds = set()
    for number in range(len(MEMORY)):
        record = planted_trial(guest_in(mode), spec, mode, number)
        assert record.plant and record.verdict and record.recovery
        found = record.recovery.checksum_mismatches, record.recovery.unused_entries
        assert (record.verdict.corruption, *found) == MEMORY[record.plant.kind]
        row = trial_row(record, 1, 1, "2026-01-02T03:04:05.000+00:00", "")
        assert (row.requested, row.injected, row.faults[0].params) == (1, 1, record.plant.as_stored())
        assert expected(row) == record.verdict.corruption
        kinds.add(record.plant.kind)
    assert kinds == set(MEMORY)


def test_planted_on_disk(guest_in: GuestIn, spec: CampaignSpec) -> None:
    kinds = set()
    for number in range(3):
        record = planted_trial(guest_in("write-through"), spec, "write-through", number)
        assert record.plant and record.verdict
        assert record.verdict.corruption == "unclassified"
        kinds.add(record.plant.kind)
    assert kinds == {"block", "written"}
