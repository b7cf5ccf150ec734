# SPDX-License-Identifier: Apache-2.0
"""Trials that start where the warm-up of their round ended."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from riobed.crash import formats
from riobed.guest.guest import Guest
from riobed.guest.settings.config import BesideSpec, MachineSpec, WorkloadSpec
from riobed.guest.settings.modes import cache_mode
from riobed.guest.setup import guest_setup
from riobed.plan.spec import CampaignSpec
from riobed.trial.record import TrialRecord

from .conftest import MEMTEST, UD2, FaultIn, opened, trial


@pytest.fixture(scope="module")
def guest() -> Iterator[Guest]:
    workload = WorkloadSpec(path=MEMTEST, beside=(BesideSpec(path=MEMTEST.parent / "andrew"),))
    setup = guest_setup(MachineSpec(), None, workload)
    with opened(setup, cache_mode("rio-protected"), "test-shared-warm-up") as made:
        yield made


def test_a_round_warms_up_once(guest: Guest, spec: CampaignSpec, fault_in: FaultIn) -> None:
    def run(name: str, round_seed: str, *faults: Any, **planned: Any) -> TrialRecord:
        base = {"mode": "rio-protected", "warmup_s": 1.0, "run_on_s": 0.2, "round_seed": round_seed}
        record = trial(guest, spec, f"warm/{name}", *faults, **base | planned)
        assert record.check is not None and record.check.all_equal
        assert [report.workload for report in record.check.beside] == ["andrew", "outside"]
        assert record.recovery is not None and record.recovery.boot_id == record.boot == guest.known.boot_id
        return record

    first = run("first", "round 1")
    second = run("second", "round 1", check_restore=True)
    faulty = run("faulty", "round 1", fault_in("ext4_file_write_iter", UD2))
    other = run("other", "round 2")
    warmed = [record for record in (first, second, faulty, other) if "warmup" in record.phases]
    assert warmed == [first, other]
    assert second.restore_checked and first.snapshot == second.snapshot == faulty.snapshot != other.snapshot
    assert second.progress.done > 0 and faulty.steps_at_injection
    assert faulty.verdict is not None and faulty.verdict.crash_kind == "oops"
    last = faulty.log.splitlines()[-1]
    assert re.fullmatch(rb"progress [+-]\d+\.\d{3} [ID] \d+", last) and formats.recognise(faulty.log)
    assert len(first.boot) == 16 and first.boot == other.boot
