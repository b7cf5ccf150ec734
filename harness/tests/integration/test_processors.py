# SPDX-License-Identifier: Apache-2.0
"""Trials in guests of several processors with two workloads, in the mode whose windows are on all of them."""

from collections.abc import Iterator

import pytest
from riobed.faults import Fault
from riobed.guest.guest import Guest
from riobed.guest.settings.config import BesideSpec, MachineSpec, WorkloadSpec
from riobed.guest.settings.modes import cache_mode
from riobed.guest.setup import guest_setup
from riobed.plan.spec import CampaignSpec
from riobed.products import CHECKOUT
from riobed.soak.kernel import counters, mismatches
from riobed.trial.record import TrialRecord

from .conftest import MEMTEST, UD2, FaultIn, compiled, extended, opened, trial
from .test_kernel import run_kunit
from .test_open_pages import check_closed


@pytest.fixture(scope="module", params=[2, extended(4)])
def guest(request: pytest.FixtureRequest) -> Iterator[Guest]:
    andrew = BesideSpec(path=MEMTEST.parent / "andrew")
    workload = WorkloadSpec(path=MEMTEST, beside=(andrew,))
    setup = guest_setup(MachineSpec(vcpus=request.param), None, workload)
    with opened(setup, cache_mode("rio-protected"), f"test-{request.param}-processors") as made:
        yield made


def trial_here(guest: Guest, spec: CampaignSpec, number: int, *faults: Fault) -> TrialRecord:
    planned = {"mode": "rio-protected", "warmup_s": 0.5 + number * 0.3}
    return trial(guest, spec, f"processors/{number}", *faults, **planned)


def test_no_fault_loses_nothing(guest: Guest, spec: CampaignSpec) -> None:
    record = trial_here(guest, spec, 0)
    assert record.check is not None and record.check.all_equal
    assert [report.workload for report in record.check.beside] == ["andrew", "outside"]
    assert record.recovery is not None and record.recovery.data.pages > 10


def test_activation_is_proven_on_each_processor(guest: Guest, spec: CampaignSpec, fault_in: FaultIn) -> None:
    # The breakpoint is hit, removed and gone over while all processors run.
    record = trial_here(guest, spec, 4, fault_in("ext4_file_write_iter", UD2))
    assert record.verdict is not None and record.verdict.crash_kind == "oops"
    assert record.evidence.activated.keys() == {0}
    assert record.verdict.corruption == "none"


def test_a_window_ends_for_other_processors_too(guest: Guest) -> None:
    results = run_kunit(guest)
    assert {verdict for verdict, _, _ in results} == {"ok"}
    assert ("ok", "rio_test_other_cpu", "") in results


@pytest.mark.extended
def test_mappings_of_a_page_come_and_go_on_all_processors(guest: Guest) -> None:
    """While the page is stored into and written out, until the program's time is up."""
    guest.ready()
    source = CHECKOUT / "workloads/stress/src/remapped/remapped.c"
    guest.machine.write_file("/run/remapped", compiled(guest, source, "-O1 -D_GNU_SOURCE"))
    run = "chmod 755 /run/remapped; cd /mnt/test; exec /run/remapped 20 7 4"
    pid = guest.machine.spawn(["/bin/sh", "-c", run])
    while not (ended := guest.machine.status(pid)):
        assert mismatches(counters(guest.machine, "verify")) == 0
    assert ended.status == 0, ended.stdout + ended.stderr
    assert ended.stdout.count(b" mappings\n") == 4, ended.stdout
    check_closed(guest)
