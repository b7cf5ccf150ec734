# SPDX-License-Identifier: Apache-2.0
"""One canary for each outcome, through the whole trial: real faults with a known effect."""

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from riobed.crash import formats
from riobed.errors import InfraError
from riobed.faults import Fault
from riobed.guest.boot import wait_until
from riobed.guest.guest import Guest
from riobed.plan.spec import CampaignSpec
from riobed.trial.observe.watch import Observation, Watcher
from riobed.trial.record import TrialRecord
from riobed.trial.recovery.recover import recover
from riobed.trial.trial import observe, of_harness, start_workload, warm_up
from riobed.trial.verdict import broken, decide
from riobed.vm.host.process import qemus_with
from riobed.vm.qemu import libvirt
from riobed_results.store import PANICS

from .conftest import UD2, FaultIn, GuestIn, extended, panicked, record_of, trial

JUMP_TO_SELF = b"\xeb\xfe"


Canary = Callable[..., TrialRecord]


@pytest.fixture
def canary(guest_in: GuestIn, spec: CampaignSpec, fault_in: FaultIn) -> Canary:
    """A trial in mode rio with new bytes in a function, or with a fault; other words are for the spec."""

    def run(function: str = "", new: bytes = b"", fault: Fault | None = None, **changes: Any) -> TrialRecord:
        fault = fault or fault_in(function, new)
        changed = spec.model_copy(update=changes)
        return trial(guest_in("rio"), changed, "canary", fault, fault_class="kernel_text")

    return run


def assert_crash(record: TrialRecord, kind: str, title: str, outcome: str = "panic") -> None:
    assert record.verdict is not None
    found = record.verdict.outcome, record.verdict.crash_kind, record.verdict.crash_title
    assert (*found, record.verdict.corruption) == (outcome, kind, title, "none")


def test_oops(canary: Canary) -> None:
    record = canary("ext4_file_write_iter", UD2)
    assert_crash(record, "oops", "invalid opcode in ext4_file_write_iter")
    assert record.evidence.activated.keys() == {0}
    assert 0 <= record.evidence.activated_s(0) < 5


def test_panic(rio: Guest, spec: CampaignSpec) -> None:
    record = record_of("panic")
    pid = start_workload(rio, record)
    warm_up(rio, record, pid)
    rio.machine.spawn(["/bin/sh", "-c", "echo c >/proc/sysrq-trigger"])
    record.observation = Watcher(rio.machine, spec, record.progress, pid).watch()
    recover(rio, record)
    assert record.check
    record.verdict = decide(record.observation, record.recovery, broken(record.check, None, None))
    assert_crash(record, "panic", "panic: sysrq triggered crash")


def test_the_agent_is_the_harness_and_a_shell_is_not(rio: Guest) -> None:
    machine, agent = rio.machine, rio.known.agent
    assert {machine.read_file(f"/proc/{pid}/comm") for pid in agent} == {b"qemu-ga\n"}
    panicked(rio)
    shell = formats.victim(machine.console.text())
    assert shell and (shell.name, of_harness(shell.pid, agent)) == ("sh", False)
    rio.ready()
    with pytest.raises(InfraError):
        machine.write_file("/proc/sysrq-trigger", b"c")
    assert wait_until(machine, lambda: formats.ended(machine.console.text()), 240)
    asked = formats.victim(machine.console.text())
    assert asked and (asked.name, of_harness(asked.pid, agent)) == ("qemu-ga", True)


@pytest.mark.parametrize(
    ("function", "outcome", "title", "detail"),
    [
        # With interrupts off: only a non-maskable one gets through. The timer comes before the limit.
        ("hrtimer_interrupt", "hang", "hang in hrtimer_interrupt", "agent lost"),
        # The first write never comes back, but the kernel is preemptible.
        (
            *("ext4_file_write_iter", "stuck", "workload stuck in ext4_file_write_iter"),
            "workload stuck, agent answers",
        ),
    ],
)
def test_hang(canary: Canary, function: str, outcome: str, title: str, detail: str) -> None:
    record = canary(function, JUMP_TO_SELF)
    assert_crash(record, "hang", title, outcome)
    assert record.observation is not None and record.observation.detail == detail


@pytest.mark.parametrize(
    ("limit", "detail"),
    [({"survivor_steps": 400}, "steps made"), extended({"limit_s": 2.0}, "timed out")],
    ids=["steps", "time"],
)
def test_a_guest_that_survives_is_brought_down_and_checked(
    canary: Canary, limit: dict[str, Any], detail: str
) -> None:
    record = canary("ext4_resize_fs", UD2, **limit)
    assert_crash(record, "panic", PANICS["nmi"], "survived")
    assert record.observation is not None and record.observation.detail == detail
    assert record.check is not None and record.recovery is not None and record.recovery.restored_pages
    assert record.evidence.injected.keys() == {0} and not record.evidence.activated
    # The guest's clock: the panic comes that long after the injection, and a moment for the NMI.
    injected_s = record.evidence.injected[0] / 1e9
    assert record.crash_guest_s is not None and 0.0 < record.crash_guest_s - injected_s < 30
    steps = record.observation.steps_after_fault
    assert record.steps_at_injection and steps and record.steps_at_injection + steps <= record.progress.done
    assert steps >= limit.get("survivor_steps", 1)


@pytest.mark.parametrize(
    ("number", "error"),
    [
        extended(signal.SIGKILL, "QEMU is not running"),
        extended(signal.SIGTERM, "it wrote last: qemu-system-x86_64: terminating on signal 15"),
        (signal.SIGSTOP, "no answer within 3 s, QEMU was killed"),
    ],
)
def test_qemu_that_ends_or_hangs_is_an_infra_error_and_the_guest_comes_back(
    rio: Guest, canary: Canary, monkeypatch: pytest.MonkeyPatch, number: int, error: str
) -> None:
    (pid,) = qemus_with(f"guest={rio.machine.config.name},".encode())

    def struck(*trial: Any) -> Observation:
        # Only from here on: on a busy host a call that is answered may take longer.
        monkeypatch.setattr(libvirt, "_CALL_S", 3.0)
        os.kill(pid, number)
        return observe(*trial)

    monkeypatch.setattr("riobed.trial.trial.observe", struck)
    with pytest.raises(InfraError, match=error):
        canary("ext4_resize_fs", UD2)
    rio.discard()
    monkeypatch.undo()
    record = canary("ext4_file_write_iter", UD2)
    assert record.verdict is not None and record.verdict.outcome == "panic"


def test_a_guest_with_other_bytes_than_the_catalogue_is_an_infra_error(
    canary: Canary, fault_in: FaultIn
) -> None:
    wrong = replace(fault_in("ext4_file_write_iter", UD2), old=b"\xcc\xcc")
    said = r"did not load the faults; .*; riobed_inject: fault 0: bytes at \w+ are \w+, not cccc; "
    with pytest.raises(InfraError, match=said):
        canary(fault=wrong)
