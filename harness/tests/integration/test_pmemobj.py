# SPDX-License-Identifier: Apache-2.0
"""A pool of PMDK's has each step that was reported, where the mode keeps it, and a planted bug is found."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from riobed.guest.guest import Guest
from riobed.guest.settings.config import MachineSpec, WorkloadSpec
from riobed.guest.settings.modes import cache_mode
from riobed.guest.setup import check_mode, guest_setup
from riobed.guest.workload.description import GUEST_DIR
from riobed.plan.spec import CampaignSpec
from riobed.products import CHECKOUT
from riobed_results.store import CheckReport, Restart

from .conftest import opened, shell, trial

WORKLOAD = CHECKOUT / "workloads/pmemobj"
pytestmark = pytest.mark.extended


@pytest.fixture(scope="module")
def guest(request: pytest.FixtureRequest) -> Iterator[Guest]:
    """A guest with a pool. `NAME, lines`: a loss of power takes what was not written back and fenced."""
    name, _, lines = request.param.partition(", ")
    mode = cache_mode(name)
    machine = MachineSpec(nvdimm_mib=64 if mode.nvdimm else 0)
    setup = guest_setup(machine, None, WorkloadSpec(path=WORKLOAD), loses_lines=bool(lines))
    check_mode(name, mode, setup)
    with opened(setup, mode, f"pmemobj-{name}") as made:
        made.ready()
        made.machine.save("first")
        yield made


def prepare(guest: Guest, **options: str) -> None:
    """Let trials begin with a pool that is made with these options."""
    guest.setup = replace(guest.setup, options=dict(options))
    guest.workload = guest.setup.workload_in(guest.mode)
    guest.machine.load("first")
    guest.machine.resume()
    shell(guest, f"rm -r {GUEST_DIR}; {guest.workload.command('prepare', seed=0)[-1]}; sync")
    guest.machine.save("ready")


def checked(guest: Guest, spec: CampaignSpec, restart: Restart, warmup_s: float) -> CheckReport:
    """Run the workload until the machine is lost; return what the check says of at least ten steps."""
    record = trial(guest, spec, f"pmemobj/{warmup_s}", fault_class="none", warmup_s=warmup_s, restart=restart)
    assert record.check is not None and record.progress.done >= 10, record.progress
    assert not record.progress.errors
    return record.check


@pytest.mark.parametrize(
    ("guest", "options", "restarts"),
    [
        ("rio", {}, ["reset"]),
        ("write-through", {"api": "libpmem"}, ["reset", "power"]),
        ("write-through", {"api": "hashmap_tx"}, ["power"]),
        ("dax", {"api": "atomic"}, ["reset", "power"]),
        ("dax", {}, ["power"]),
        ("dax-protected", {"api": "btree"}, ["reset", "power"]),
        ("dax, lines", {}, ["power-lines"]),
        ("dax, lines", {"api": "libpmem"}, ["power-lines"]),
    ],
    indirect=["guest"],
)
def test_no_step_is_lost(
    guest: Guest, spec: CampaignSpec, options: dict[str, str], restarts: list[Restart]
) -> None:
    prepare(guest, **options)
    for number, restart in enumerate(restarts * 2):
        check = checked(guest, spec, restart, 1.0 + number * 0.7)
        assert check.equal and check.steps_lost == 0, check


@pytest.mark.parametrize(
    ("guest", "options", "restart"),
    [
        # msync() returns at once: what memory alone has is lost with it.
        ("rio", {}, "power"),
        ("write-through", {"bug": "missing-flush"}, "power"),
        ("dax, lines", {"bug": "missing-flush"}, "power-lines"),
        ("dax, lines", {"platform": "lying"}, "power-lines"),
    ],
    indirect=["guest"],
)
def test_what_was_not_flushed_is_found_where_a_crash_costs_it(
    guest: Guest, spec: CampaignSpec, options: dict[str, str], restart: Restart
) -> None:
    prepare(guest, **options)
    assert not checked(guest, spec, restart, 3.0 if options else 1.0).equal


@pytest.mark.parametrize("change", ["block", "written"])
@pytest.mark.parametrize("guest", ["dax"], indirect=True)
def test_a_planted_bit_is_found(guest: Guest, spec: CampaignSpec, change: str) -> None:
    prepare(guest)
    planned = {"fault_class": "planted", "change": change, "warmup_s": 0.5}
    record = trial(guest, spec, f"pmemobj/{change}", **planned)
    assert record.plant and record.check is not None and not record.check.equal, record
