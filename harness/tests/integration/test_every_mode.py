# SPDX-License-Identifier: Apache-2.0
"""Every shipped mode keeps what it promises over a reset. Every fault class goes through a whole trial."""

import pytest
from riobed.campaign import draw_faults
from riobed.errors import InfraError
from riobed.faults import CLASSES, Fault, catalogue_of
from riobed.guest.guest import Guest
from riobed.guest.settings.config import WorkloadSpec
from riobed.guest.settings.modes import all_modes
from riobed.guest.setup import check_mode, guest_setup
from riobed.plan.spec import CampaignSpec
from riobed.products import Manifest
from riobed.trial.observe.evidence import Evidence
from riobed.trial.record import TrialRecord
from riobed_results.store import CONTROLS

from .conftest import MEMTEST, GuestIn, opened, record_of, trial


@pytest.mark.parametrize("mode", all_modes())
def test_a_mode_keeps_what_it_promises(mode: str, spec: CampaignSpec) -> None:
    of = all_modes()[mode]
    setup = guest_setup(of.default_machine(), None, WorkloadSpec(path=MEMTEST))
    check_mode(mode, of, setup)
    with opened(setup, of, f"every-{mode}") as guest:
        record = trial(guest, spec, f"every/{mode}", mode=mode, fault_class="none", warmup_s=0.6)
    assert record.progress.done > 0 and record.check and record.recovery and record.verdict
    assert record.verdict.crash_kind == "reset" and not record.recovery.mount_error
    if of.sync_writes or of.restores_memory:
        assert record.check.all_equal, record.check
    elif not of.file_system.survives:
        assert not record.check.equal


def given_tries(guest: Guest, spec: CampaignSpec, *faults: Fault) -> TrialRecord:
    """A trial that ends with a result. A fault may make QEMU abort, and a campaign tries again, too."""
    (fault_class,) = spec.fault_classes
    for left in (2, 1, 0):
        try:
            return trial(guest, spec, f"class/{fault_class}", *faults, fault_class=fault_class)
        except InfraError:
            guest.discard()
            if not left:
                raise
    raise AssertionError("the last try returns or raises")


@pytest.mark.parametrize("fault_class", [name for name in CLASSES if name not in CONTROLS])
def test_a_fault_class_goes_through_a_trial(
    guest_in: GuestIn, spec: CampaignSpec, manifest: Manifest, fault_class: str
) -> None:
    spec = spec.model_copy(update={"fault_classes": (fault_class,), "limit_s": 4.0, "hang_s": 2.0})
    planned = record_of(f"class/{fault_class}", fault_class=fault_class).planned
    faults = draw_faults(spec, planned, catalogue_of(manifest.kernel))
    record = given_tries(guest_in("rio"), spec, *faults)
    assert record.verdict and record.verdict.outcome in ("panic", "hang", "stuck", "survived")
    assert record.recovery and (record.check or record.recovery.mount_error)
    # Faults that act at run time are injected when their moment comes, which may be never.
    evidence: Evidence = record.evidence
    assert len(evidence.injected) == len(faults) > 0
