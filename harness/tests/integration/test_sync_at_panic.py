# SPDX-License-Identifier: Apache-2.0
"""A kernel that panics writes its dirty data where it can, says how that ended, and is reset in any case."""

from collections.abc import Callable

import pytest
from riobed.faults import Fault
from riobed.guest.guest import Guest
from riobed.plan.rounds import PlannedTrial
from riobed.plan.spec import CampaignSpec
from riobed.trial.record import TrialRecord
from riobed.trial.rows import trial_row

from .conftest import UD2, FaultIn, GuestIn, extended, trial

MODE = "rio-sync-at-panic"
LOOP = b"\xeb\xfe"
# Interrupts off, and then the same.
DEAF = b"\xfa\xeb\xfe"


@pytest.fixture
def guest(guest_in: GuestIn) -> Guest:
    return guest_in(MODE)


Run = Callable[..., TrialRecord]


@pytest.fixture
def run(guest: Guest, spec: CampaignSpec) -> Run:
    """Run a trial, and look whether its row says `how` the sync ended."""
    spec = spec.model_copy(update={"limit_s": 4.0, "hang_s": 3.0})

    def run(how: str, *faults: Fault) -> TrialRecord:
        fault_class = "kernel_text" if faults else "panic"
        record = trial(guest, spec, f"sync/{how}", *faults, mode=MODE, fault_class=fault_class, warmup_s=1.5)
        assert record.check and record.progress.done > 100
        row = trial_row(record, 1, 1, "2026-01-02T03:04:05.000+00:00", "")
        assert f"sync at panic: {how}" in row.detail.split("; "), row.detail
        return record

    return run


def kept(record: TrialRecord) -> bool:
    """Whether the file system is as after the last step that was reported."""
    assert record.check and record.check.steps_lost is not None
    assert not record.broken, record.broken
    return record.check.steps_lost == 0 and not record.check.states


@pytest.mark.parametrize(
    ("by", "how", "sound"),
    [
        ("sysrq", "done", True),
        extended("nmi", "not in this context", False),
    ],
)
def test_a_panic_without_a_fault_loses_nothing_if_it_comes_in_a_task(
    run: Run, monkeypatch: pytest.MonkeyPatch, by: str, how: str, sound: bool
) -> None:
    monkeypatch.setattr(PlannedTrial, "panic_by", by)
    assert kept(run(how)) == sound


def test_an_oops_is_a_panic_in_a_task(run: Run, fault_in: FaultIn) -> None:
    record = run("done", fault_in("ext4_file_write_iter", UD2))
    assert record.verdict and record.verdict.crash_kind == "oops" and kept(record)


@pytest.mark.extended
def test_what_survived_is_brought_down_in_a_task(run: Run, fault_in: FaultIn) -> None:
    """Nothing calls the faulty function before the sync does, which then crashes."""
    record = run("crashed", fault_in("sync_inodes_sb", UD2))
    assert record.verdict and record.verdict.outcome == "survived"


@pytest.mark.extended
def test_at_a_hang_everything_is_lost_that_was_not_written_yet(run: Run, fault_in: FaultIn) -> None:
    record = run("not in this context", fault_in("ext4_file_write_iter", DEAF))
    assert record.verdict and record.verdict.outcome == "hang" and not kept(record)


@pytest.mark.extended
@pytest.mark.parametrize(("code", "how"), [(LOOP, "timed out"), (DEAF, "did not end")])
def test_a_sync_that_does_not_end_is_ended(run: Run, fault_in: FaultIn, code: bytes, how: str) -> None:
    record = run(how, fault_in("sync_inodes_sb", code))
    assert record.verdict and record.verdict.outcome == "survived"


@pytest.mark.extended
def test_a_sync_that_waits_for_the_dead_task_is_ended(run: Run, fault_in: FaultIn) -> None:
    """The task dies with spin locks held that each writeback takes, and that is a soft lockup."""
    record = run("crashed", fault_in("inode_io_list_move_locked", UD2))
    assert record.verdict and record.verdict.crash_kind == "oops"
