# SPDX-License-Identifier: Apache-2.0
"""The host compares the bytes of files after recovery as the guest does."""

from collections.abc import Iterator

import pytest
from riobed.guest.assembly import GuestSetup
from riobed.guest.guest import Guest
from riobed.guest.settings.config import BesideSpec, MachineSpec, WorkloadSpec
from riobed.guest.settings.modes import cache_mode
from riobed.guest.setup import guest_setup
from riobed.plan.spec import CampaignSpec
from riobed.products import CHECKOUT
from riobed.trial.control.plant import PLANTED

from .conftest import MEMTEST, UD2, FaultIn, extended, opened, trial


@pytest.fixture(scope="module", params=["rio-protected", extended("write-through")])
def guest(request: pytest.FixtureRequest) -> Iterator[Guest]:
    beside = (BesideSpec(path=CHECKOUT / "workloads/andrew"),)
    workload = WorkloadSpec(path=MEMTEST, options={"twins": 100, "xattrs": 300}, beside=beside)
    setup: GuestSetup = guest_setup(MachineSpec(), None, workload, parked=True)
    with opened(setup, cache_mode(request.param), "test-host-check") as made:
        yield made


def test_both_find_the_same(guest: Guest, spec: CampaignSpec, fault_in: FaultIn) -> None:
    for number, fault_class in enumerate(("none", "kernel_text", PLANTED)):
        faults = [fault_in("ext4_file_write_iter", UD2)] if fault_class == "kernel_text" else []
        planned = {"fault_class": fault_class, "position": number, "warmup_s": 1.0, "restart": "parked"}
        record = trial(guest, spec, f"host-check/{number}", *faults, check="both", **planned)
        # Any disagreement is an infra error.
        assert record.check is not None and record.check.all_equal is (fault_class != PLANTED)
        assert "recheck" in record.phases and ("compare" in record.phases or fault_class == PLANTED)
    record = trial(guest, spec, "host-check/alone", fault_class="none", warmup_s=1.0, check="host")
    assert record.check is not None and record.check.all_equal and "recheck" not in record.phases
