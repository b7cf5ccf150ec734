# SPDX-License-Identifier: Apache-2.0
"""One operation, carried out in a guest whose emulator logs what changes in memory."""

import mmap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from riobed.crash.formats import recognise
from riobed.errors import InfraError
from riobed.guest import Guest, Layout, copy_in, poll
from riobed.guest.memory.layout import PAGE
from riobed.guest.memory.registry import listed
from riobed.guest.workload.tree import MOUNT, Tree
from riobed.sweep.changes import Change, Interleaving, end_log, read_log, start_log
from riobed.sweep.operations import BESIDE, DATA, PLACES, Operation
from riobed.sweep.tree import parse_tree
from riobed.vm import Machine
from riobed.vm.host.tools import run_tool

_PROGRAM = "/run/operation"
_STEP_S = 600.0
_POLL_S = 0.1
# The kernel closes pages a little after the last change, which changes the registry again.
_SETTLE_S = 0.5
_NEIGHBOURS = "write other/a 0 9000 o , write beside/a 0 9000 o , mkdir other/d , symlink other/s 100"
_RELIABILITY = "/sys/module/rio/parameters/reliability_writes"
_WRITE = f"echo 1 >{_RELIABILITY}; sync; echo 0 >{_RELIABILITY}"
# With 100 ms for each processor (QEMU, accel/tcg/tcg-accel-ops-rr.c, TCG_KICK_PERIOD), the other one is next.
_YIELD_MS = 120
# A store into a range of memory of the disk's PCI function tells it of a request (Virtual I/O Device 1.2,
# section 4.1.4.4).
_DEVICE = f"cat $(readlink -f /sys/block/$(basename $(findmnt -no SOURCE {MOUNT}))/device/..)/resource"


@dataclass(frozen=True)
class Case:
    """What is recorded: an operation's name, and keys of DATA and of BESIDE."""

    operation: str
    data: str
    beside: str

    @property
    def vcpus(self) -> int:
        """How many processors the guest has."""
        return 1 if self.beside == "nothing" else 2

    def __str__(self) -> str:
        beside = "" if self.beside == "nothing" else f", {self.beside} beside"
        return f"{self.operation}, {self.data}{beside}"


@dataclass(frozen=True)
class Recording:
    """Memory before an operation, what changed, and the disks and the trees before and after it."""

    memory: Path
    disks: tuple[Path, Path]
    changes: list[Change]
    trees: tuple[Tree, Tree]
    # As Interleaving counts them
    stores: int


def record(
    guest: Guest, case: Case, operation: Operation, program: Path, every: int, folder: Path
) -> Recording:
    """Carry out an operation in a guest that is ready; InfraError if a step fails or the log is incomplete.

    With a task beside it, another processor is next after `every` stores.
    """
    machine = guest.machine
    _prepare(machine, case, operation, program)
    before = guest_tree(machine)
    device = _device(machine)
    _shell(machine, f"sleep {_SETTLE_S}")
    with _paused(machine):
        memory, disk = folder / "memory", folder / "disk"
        copy_sparse(machine.ram_path(), memory)
        _copy_disk(machine.config.test_disk, disk)
        beside = BESIDE[case.beside].steps
        interleaving = Interleaving(every, _YIELD_MS) if beside else Interleaving()
        start_log(machine.config.folder, machine.ram_path(), device, interleaving)
    _act(machine, operation.act, beside)
    with _paused(machine):
        end_log(machine.config.folder)
        changes, stores = read_log(machine.config.folder)
        after_disk = folder / "disk-after"
        _copy_disk(machine.config.test_disk, after_disk)
        check_log(memory, changes, machine.ram_path(), guest.setup.layout(guest.mode))
    return Recording(memory, (disk, after_disk), changes, (before, guest_tree(machine)), stores)


def _act(machine: Machine, act: str, beside: str) -> None:
    script = f"{_PROGRAM} do {MOUNT} {act}"
    if beside:
        task = f"taskset 2 {_PROGRAM} beside {MOUNT} {_YIELD_MS // 3} {beside}"
        script = f"{task} & task=$!; taskset 1 {script}; status=$?; kill $task; wait; [ $status = 0 ]"
        # An operation that stands at so many stores looks like a lockup.
        _shell(machine, "echo 0 >/proc/sys/kernel/watchdog")
    pid = machine.spawn(["/bin/sh", "-c", f"{script} && sleep {_SETTLE_S}"])
    deadline = time.monotonic() + _STEP_S
    while not (ended := poll(machine, pid)):
        if crash := recognise(machine.console.text()):
            raise InfraError(f"in the guest: {act}: the kernel crashed: {crash.title}")
        if time.monotonic() > deadline:
            raise InfraError(f"in the guest: {act}: still running after {_STEP_S:.0f} s")
        time.sleep(_POLL_S)
    if ended.status:
        raise InfraError(f"in the guest: {act}: status {ended.status}: {ended.error}")


def _prepare(machine: Machine, case: Case, operation: Operation, program: Path) -> None:
    copy_in(machine, program, _PROGRAM)
    data = DATA[case.data]
    places = [f"mkdir {place}" for place in PLACES]
    steps = [*places, _NEIGHBOURS, operation.prepare, BESIDE[case.beside].prepare]
    _steps(machine, " , ".join(step for step in steps if step))
    if data.written:
        _shell(machine, _WRITE)
    if data.renewed:
        _steps(machine, "renew it")


def _steps(machine: Machine, steps: str) -> None:
    _shell(machine, f"{_PROGRAM} do {MOUNT} {steps}")


def _shell(machine: Machine, script: str) -> bytes:
    result = machine.run(["/bin/sh", "-c", script], timeout=_STEP_S)
    if result.status:
        raise InfraError(f"in the guest: {script[-200:]}: status {result.status}: {result.error}")
    return result.stdout


def guest_tree(machine: Machine) -> Tree:
    """Return the file system under test as the guest sees it."""
    return parse_tree(_shell(machine, f"{_PROGRAM} tree {MOUNT}"))


def _device(machine: Machine) -> tuple[int, int]:
    found = _shell(machine, _DEVICE).decode()
    ranges = [tuple(int(word, 16) for word in line.split()) for line in found.splitlines()]
    # IORESOURCE_MEM (include/linux/ioport.h) of the device's ranges; the one of 16 KiB has the registers.
    wanted = [(start, end + 1) for start, end, flags in ranges if flags & 0x200 and end - start + 1 == 0x4000]
    if len(wanted) != 1:
        raise InfraError("in the guest: the disk under test is no virtio device as expected")
    return wanted[0]


@contextmanager
def _paused(machine: Machine) -> Iterator[None]:
    machine.pause()
    try:
        yield
    finally:
        machine.resume()


def copy_sparse(source: Path, target: Path) -> None:
    """Copy a file, without its blocks of zeros; InfraError if that fails."""
    run_tool(["cp", "--sparse=always", str(source), str(target)], f"copy of {source}")


def _copy_disk(source: Path, target: Path) -> None:
    # QEMU, which has it open, has written all of its tables when it paused (system/cpus.c, do_vm_stop()).
    run_tool(["qemu-img", "convert", "-U", "-O", "raw", str(source), str(target)], f"copy of {source}")


def check_log(memory: Path, changes: list[Change], now: Path, layout: Layout) -> None:
    """Raise InfraError unless memory with all changes is what the guest has now.

    That is so in the registry and in each page that it lists. A page that it has listed may have another use.
    """
    with (
        memory.open("rb") as first,
        now.open("rb") as last,
        mmap.mmap(first.fileno(), 0, access=mmap.ACCESS_READ) as before,
        mmap.mmap(last.fileno(), 0, access=mmap.ACCESS_READ) as after,
    ):
        pages: dict[int, bytearray] = {}
        for change in changes:
            start, offset = change.physical // PAGE * PAGE, change.physical % PAGE
            page = pages.setdefault(start, bytearray(before[start : start + PAGE]))
            page[offset : offset + len(change.content)] = change.content
        known = {each.address for each in listed(after, layout)}
        known |= set(range(layout.registry_start, layout.registry_start + layout.registry_size, PAGE))
        wrong = [start for start in pages.keys() & known if pages[start] != after[start : start + PAGE]]
    if wrong:
        raise InfraError(
            f"the log lacks changes of {len(wrong)} of {len(pages)} pages, first {min(wrong):#x}"
        )
