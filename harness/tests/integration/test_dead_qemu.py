# SPDX-License-Identifier: Apache-2.0
"""A QEMU that does not answer is killed, and of one that died it is said what it wrote last."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from riobed.errors import InfraError
from riobed.guest.assembly import GuestSetup
from riobed.guest.memory.layout import MIB
from riobed.guest.settings.modes import cache_mode
from riobed.guest.workload.images import make_empty_disk
from riobed.vm.host.process import qemus_with
from riobed.vm.qemu import libvirt
from riobed.vm.qemu.libvirt import LibvirtMachine

from .conftest import opened

PATIENCE_S = 2.0


@pytest.fixture
def machine(setup: GuestSetup) -> Iterator[LibvirtMachine]:
    """On its way into stage 0, which is not waited for."""
    with opened(setup, cache_mode("rio"), "dead") as guest:
        assert isinstance(guest.machine, LibvirtMachine)
        make_empty_disk(guest.machine.config.test_disk, 32 * MIB)
        yield guest.machine


@contextmanager
def impatience() -> Iterator[None]:
    """Only around a call that hangs: on a busy host a good one may take longer."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(libvirt, "_CALL_S", PATIENCE_S)
        yield


def qemu_of(machine: LibvirtMachine) -> int:
    (pid,) = qemus_with(f"guest={machine.config.name},".encode())
    return pid


@pytest.mark.extended
@pytest.mark.parametrize(
    ("call", "what"),
    [
        (LibvirtMachine.pause, "pause"),
        (LibvirtMachine.reset, "reset"),
        (LibvirtMachine.nmi, "NMI"),
        (lambda machine: machine.save("x"), "info chardev"),
        (lambda machine: machine.load("x"), "pause"),
    ],
)
def test_a_call_that_hangs(machine: LibvirtMachine, call: Callable, what: str) -> None:
    machine.start()
    pid = qemu_of(machine)
    os.kill(pid, signal.SIGSTOP)
    start = time.monotonic()
    with impatience(), pytest.raises(InfraError) as caught:
        call(machine)
    assert PATIENCE_S - 0.1 < time.monotonic() - start < PATIENCE_S + 10
    assert f": {what}: no answer within 2 s, QEMU was killed" in str(caught.value)
    machine.destroy()
    machine.start()
    assert qemu_of(machine) != pid


def test_a_start_that_hangs(machine: LibvirtMachine) -> None:
    """QEMU reads its kernel before it answers anything; nobody writes into this one."""
    good = machine.config
    fifo = good.folder / "kernel"
    os.mkfifo(fifo)
    machine.config = replace(good, kernel=fifo)
    killed = r"QEMU does not start: no answer within 2 s, QEMU was killed$"
    with impatience(), pytest.raises(InfraError, match=killed):
        machine.start()
    assert not qemus_with(f"guest={good.name},".encode())
    machine.config = good
    machine.start()


@pytest.mark.extended
def test_a_machine_whose_qemu_hangs_can_be_powered_off(machine: LibvirtMachine) -> None:
    machine.start()
    os.kill(qemu_of(machine), signal.SIGSTOP)
    with impatience():
        machine.destroy()
    assert not qemus_with(f"guest={machine.config.name},".encode())


def ended(machine: LibvirtMachine) -> None:
    deadline = time.monotonic() + 120
    while machine.alive():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_failure_is_told_when_there_is_one(machine: LibvirtMachine) -> None:
    machine.start()
    assert machine.failure() == ""
    machine.pause()
    assert machine.failure() == ""
    os.kill(qemu_of(machine), signal.SIGKILL)
    ended(machine)
    assert machine.failure() == "QEMU is not running"


def test_a_qemu_that_does_not_start_says_why(machine: LibvirtMachine) -> None:
    machine.config.test_disk.write_bytes(b"no qcow2")
    with pytest.raises(InfraError, match=r"QEMU does not start: .*Image is not in qcow2 format") as caught:
        machine.start()
    assert "\n" not in str(caught.value)
