# SPDX-License-Identifier: Apache-2.0
"""A pool of PMDK's has each step that was reported, where the mode keeps it, and a planted bug is found."""

from contextlib import AbstractContextManager

import pytest
from riobed.guest.config import MachineSpec, WorkloadSpec
from riobed.guest.guest import Guest
from riobed.guest.modes import cache_mode
from riobed.guest.setup import check_mode, guest_setup
from riobed.plan.spec import CampaignSpec
from riobed.products import CHECKOUT
from riobed_results.store.check_report import CheckReport

from .conftest import opened, trial

WORKLOAD = CHECKOUT / "workloads/pmemobj"
pytestmark = pytest.mark.extended


def pool_in(name: str, lines: bool = False, **options: str) -> AbstractContextManager[Guest]:
    """A guest with a pool; with `lines` a loss of power takes what of it was not written back and fenced."""
    mode = cache_mode(name)
    setup = guest_setup(
        MachineSpec(nvdimm_mib=64 if mode.nvdimm else 0),
        None,
        WorkloadSpec(path=WORKLOAD, options=dict(options)),
        loses_lines=lines,
    )
    check_mode(name, mode, setup)
    return opened(setup, mode, f"pmemobj-{name}-{'-'.join(options.values())}")


def checked(guest: Guest, spec: CampaignSpec, restart: str, warmup_s: float) -> CheckReport:
    """Run the workload until the machine is lost; return what the check says of at least ten steps."""
    record = trial(guest, spec, f"pmemobj/{warmup_s}", fault_class="none", warmup_s=warmup_s, restart=restart)
    assert record.check is not None and record.progress.done >= 10, record.progress
    assert not record.progress.errors
    return record.check


@pytest.mark.parametrize(
    ("mode", "options", "restarts"),
    [
        ("rio", {}, ["reset"]),
        ("write-through", {"api": "libpmem"}, ["reset", "power"]),
        ("write-through", {"api": "hashmap_tx"}, ["power"]),
        ("dax", {"api": "atomic"}, ["reset", "power"]),
        ("dax-protected", {"api": "btree"}, ["reset", "power"]),
        ("dax", {}, ["power"]),
        ("dax", {}, ["power-lines"]),
        ("dax", {"api": "libpmem"}, ["power-lines"]),
    ],
)
def test_no_step_is_lost(spec: CampaignSpec, mode: str, options: dict[str, str], restarts: list[str]) -> None:
    with pool_in(mode, "power-lines" in restarts, **options) as guest:
        for number, restart in enumerate(restarts * 2):
            check = checked(guest, spec, restart, 1.0 + number * 0.7)
            assert check.equal and check.steps_lost == 0, check


def test_what_memory_alone_has_is_lost_with_it(spec: CampaignSpec) -> None:
    """In rio msync() returns at once."""
    with pool_in("rio") as guest:
        assert not checked(guest, spec, "power", 1.0).equal


@pytest.mark.parametrize(
    ("mode", "restart", "options"),
    [
        ("write-through", "power", {"bug": "missing-flush"}),
        ("dax", "power-lines", {"bug": "missing-flush"}),
        ("dax", "power-lines", {"platform": "lying"}),
    ],
)
def test_what_was_not_flushed_is_found_where_a_crash_costs_it(
    spec: CampaignSpec, mode: str, restart: str, options: dict[str, str]
) -> None:
    with pool_in(mode, restart == "power-lines", **options) as guest:
        check = checked(guest, spec, restart, 3.0)
    assert not check.equal


def test_a_planted_bit_is_found(spec: CampaignSpec) -> None:
    with pool_in("dax") as guest:
        for change in ("block", "written"):
            planned = {"fault_class": "planted", "change": change, "warmup_s": 0.5}
            record = trial(guest, spec, f"pmemobj/{change}", **planned)
            assert record.plant and record.check is not None and not record.check.equal, record
