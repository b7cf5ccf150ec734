# SPDX-License-Identifier: Apache-2.0
"""The parked stage 0 recovers what a reset does, from a copy of the same crash."""

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from riobed.guest.assembly import GuestSetup
from riobed.guest.guest import Guest
from riobed.guest.settings.modes import cache_mode
from riobed.plan.spec import CampaignSpec
from riobed.trial.control.plant import PLANTED

from .conftest import UD2, FaultIn, extended, opened, trial


@pytest.fixture(scope="module", params=["rio-protected", extended("write-through")])
def guest(request: pytest.FixtureRequest, setup: GuestSetup) -> Iterator[Guest]:
    with opened(replace(setup, parked=True), cache_mode(request.param), "test-parked") as made:
        yield made


def test_both_recover_the_same(guest: Guest, spec: CampaignSpec, fault_in: FaultIn) -> None:
    for number, fault_class in enumerate(("none", PLANTED, "kernel_text")):
        faults = [fault_in("ext4_file_write_iter", UD2)] if fault_class == "kernel_text" else []
        planned = {"fault_class": fault_class, "position": number, "warmup_s": 0.5, "restart": "both"}
        record = trial(guest, spec, f"parked/{number}", *faults, **planned)
        assert (record.restart, record.restart_differs) == ("both", "")
        assert record.check is not None and record.check.equal is (fault_class != PLANTED)


def test_it_recovers_alone(guest: Guest, spec: CampaignSpec) -> None:
    before = round(time.time())
    record = trial(guest, spec, "parked/alone", fault_class="none", warmup_s=0.5, restart="parked")
    assert record.restart == "parked" and record.check is not None and record.check.equal
    # Its clock stood still; the guest's and the host's agree as they do after a boot.
    assert int(guest.machine.run(["/bin/date", "+%s"]).stdout) >= before
