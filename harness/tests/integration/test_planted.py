# SPDX-License-Identifier: Apache-2.0
"""The control `planted`: what is changed behind the workload's back is found, and called by its name."""

from collections.abc import Callable

import pytest
from riobed.guest import Guest
from riobed.plan import PlannedTrial
from riobed.planted import PLANTED
from riobed.rows import trial_row
from riobed.spec import CampaignSpec
from riobed.trial import TrialRecord, run_trial
from riobed_results.recovery import checksum_mismatches

MEMORY = {"stray": ("direct", 1), "written": ("indirect", 0)}


def planted_trial(guest: Guest, spec: CampaignSpec, mode: str, number: int) -> TrialRecord:
    record = TrialRecord(PlannedTrial(number, mode, PLANTED, f"test/{number}", 0.4, False), [])
    run_trial(guest, spec, record)
    return record


@pytest.mark.parametrize("mode", ["rio", "rio-protected"])
def test_planted_in_memory(guest_in: Callable[[str], Guest], spec: CampaignSpec, mode: str) -> None:
    kinds = set()
    for number in range(6):
        record = planted_trial(guest_in(mode), spec, mode, number)
        assert record.plant and record.verdict and record.check and record.recovery
        assert (record.verdict.corruption, checksum_mismatches(record.recovery)) == MEMORY[record.plant.kind]
        assert record.check["difference_count"] == 1
        assert record.check["differences"][0]["offset"] == record.plant.offset
        row = trial_row(record, 1, 1, "2026-01-02T03:04:05.000+00:00", "")
        assert (row.requested, row.injected, row.faults[0].params) == (1, 1, record.plant.as_stored())
        kinds.add(record.plant.kind)
    assert kinds == set(MEMORY)


def test_planted_on_disk(guest_in: Callable[[str], Guest], spec: CampaignSpec) -> None:
    for number in range(3):
        record = planted_trial(guest_in("write-through"), spec, "write-through", number)
        assert record.plant and record.verdict and record.check
        assert (record.plant.kind, record.verdict.corruption) == ("written", "unclassified")
        assert record.check["difference_count"] == 1
