# SPDX-License-Identifier: Apache-2.0
"""One canary for each outcome, through the whole trial: real faults with a known effect."""

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest
from riobed.errors import InfraError
from riobed.faults import Fault
from riobed.guest.guest import Guest
from riobed.plan.rounds import PlannedTrial
from riobed.plan.spec import CampaignSpec
from riobed.trial.record import TrialRecord
from riobed.trial.recover import recover
from riobed.trial.trial import observe, run_trial, start_workload, warm_up
from riobed.trial.verdict import decide
from riobed.trial.watch import Observation, Watcher
from riobed.vm import libvirt
from riobed.vm.process import qemus_with

from .conftest import UD2

JUMP_TO_SELF = b"\xeb\xfe"


def trial(guest: Guest, spec: CampaignSpec, *faults: Fault) -> TrialRecord:
    record = TrialRecord(PlannedTrial(0, "rio", "kernel_text", "canary", 0.5, False), list(faults))
    run_trial(guest, spec, record)
    return record


def test_oops(guest_in: Callable, spec: CampaignSpec, fault_in: Callable) -> None:
    record = trial(guest_in("rio"), spec, fault_in("ext4_file_write_iter", UD2))
    assert record.verdict is not None
    assert (record.verdict.outcome, record.verdict.crash_kind) == ("crash", "oops")
    assert record.verdict.crash_title == "invalid opcode in ext4_file_write_iter"
    assert record.verdict.corruption == "none"
    assert record.evidence.activated.keys() == {0}
    assert 0 <= record.evidence.activated_s(0) < 5


def test_panic(guest_in: Callable, spec: CampaignSpec) -> None:
    guest = guest_in("rio")
    record = TrialRecord(PlannedTrial(0, "rio", "kernel_text", "panic", 0.5, False), [])
    guest.ready()
    pid = start_workload(guest, record)
    warm_up(guest, record, pid)
    guest.machine.spawn(["/bin/sh", "-c", "echo c >/proc/sysrq-trigger"])
    record.observation = Watcher(guest.machine, spec, record.progress, pid).watch()
    recover(guest, record)
    verdict = decide(record.observation, record.recovery, record.check)
    assert (verdict.crash_kind, verdict.crash_title) == ("panic", "panic: sysrq triggered crash")
    assert verdict.corruption == "none"


def test_hang_with_the_agent_lost(guest_in: Callable, spec: CampaignSpec, fault_in: Callable) -> None:
    # Spins with interrupts off: only a non-maskable interrupt gets through. The timer comes before a discard.
    record = trial(guest_in("rio"), spec, fault_in("hrtimer_interrupt", JUMP_TO_SELF))
    assert record.verdict is not None
    assert (record.verdict.outcome, record.verdict.crash_kind) == ("crash", "hang")
    assert record.verdict.crash_title == "hang in hrtimer_interrupt"
    assert record.observation is not None and record.observation.detail == "agent lost"
    assert record.verdict.corruption == "none"


def test_hang_with_the_agent_answering(guest_in: Callable, spec: CampaignSpec, fault_in: Callable) -> None:
    # The first write never comes back, but the kernel is preemptible.
    record = trial(guest_in("rio"), spec, fault_in("ext4_file_write_iter", JUMP_TO_SELF))
    assert record.verdict is not None and record.verdict.crash_kind == "hang"
    assert record.verdict.crash_title == "workload stuck in ext4_file_write_iter"
    assert record.observation is not None
    assert record.observation.detail == "workload stuck, agent answers"
    assert record.verdict.corruption == "none"


def test_discard(guest_in: Callable, spec: CampaignSpec, fault_in: Callable) -> None:
    short = spec.model_copy(update={"limit_s": 2.0})
    record = trial(guest_in("rio"), short, fault_in("ext4_resize_fs", UD2))
    assert record.verdict is not None and record.verdict.outcome == "discard"
    assert record.check is None and record.recovery is None
    assert record.evidence.injected.keys() == {0} and not record.evidence.activated


@pytest.mark.parametrize(
    ("number", "error"),
    [
        (signal.SIGKILL, "QEMU is not running"),
        (signal.SIGTERM, "it wrote last: qemu-system-x86_64: terminating on signal 15"),
        (signal.SIGSTOP, "NMI: no answer within 3 s, QEMU was killed"),
    ],
)
def test_qemu_that_ends_or_hangs_is_an_infra_error_and_the_guest_comes_back(
    guest_in: Callable,
    spec: CampaignSpec,
    fault_in: Callable,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    error: str,
) -> None:
    guest = guest_in("rio")
    guest.ready()
    (pid,) = qemus_with(f"guest={guest.machine.config.name},".encode())

    def struck(*trial: Any) -> Observation:
        # Only from here on: on a busy host a call that is answered may take longer.
        monkeypatch.setattr(libvirt, "_CALL_S", 3.0)
        os.kill(pid, number)
        return observe(*trial)

    monkeypatch.setattr("riobed.trial.trial.observe", struck)
    with pytest.raises(InfraError, match=error):
        trial(guest, spec, fault_in("ext4_resize_fs", UD2))
    guest.discard()
    monkeypatch.undo()
    record = trial(guest, spec, fault_in("ext4_file_write_iter", UD2))
    assert record.verdict is not None and record.verdict.outcome == "crash"


def test_a_guest_with_other_bytes_than_the_catalogue_is_an_infra_error(
    guest_in: Callable, spec: CampaignSpec, fault_in: Callable
) -> None:
    good = fault_in("ext4_file_write_iter", UD2)
    wrong = Fault(**{f: getattr(good, f) for f in good.__slots__ if f != "old"}, old=b"\xcc\xcc")
    with pytest.raises(InfraError, match="did not accept"):
        trial(guest_in("rio"), spec, wrong)
