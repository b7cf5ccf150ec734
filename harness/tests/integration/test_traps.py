# SPDX-License-Identifier: Apache-2.0
"""A stray store of the kernel into the file cache: trapped and named, or found by its checksum.

The store is a real one, in the place of a function's first instructions, through the kernel's
direct map.
"""

from collections.abc import Callable

import pytest
from riobed.faults import Fault
from riobed.guest import registry
from riobed.guest.boot import wait_stage0
from riobed.guest.guest import Guest
from riobed.guest.layout import Layout
from riobed.plan.rounds import PlannedTrial
from riobed.plan.spec import CampaignSpec
from riobed.trial.record import TrialRecord
from riobed.trial.recover import read_recovery
from riobed.trial.trial import inject
from riobed.trial.watch import Watcher

from .conftest import UD2
from .test_warm_reboot import shell

# Runs when somebody reads /proc/uptime, and only then.
VICTIM = "uptime_proc_show"
# Without KASLR (arch/x86/include/asm/page_64_types.h, __PAGE_OFFSET_BASE_L4).
DIRECT_MAP = 0xFFFF888000000000
# Clean file data needs a write-out; then some that is newer than the disk.
FILES = """
cd /mnt/test; head -c 20000 /dev/urandom >clean
echo 1 >/sys/module/rio/parameters/reliability_writes
echo 0 >/sys/module/rio/parameters/reliability_writes
head -c 20000 /dev/urandom >dirty; stat -c %i clean dirty
"""


def store_to(address: int) -> bytes:
    """mov $address, %rax; mov %al, (%rax); ud2: ends the kernel if it gets that far."""
    return b"\x48\xb8" + (DIRECT_MAP + address).to_bytes(8, "little") + b"\x88\x00" + UD2


def victim_page(guest: Guest, kind: str) -> registry.Listed:
    clean, dirty = (int(ino) for ino in shell(guest, FILES).split())
    layout = Layout(guest.machine.config.memory)
    guest.machine.pause()
    with registry.mapped(guest.machine.ram_path()) as memory:
        pages = registry.listed(memory, layout)
    guest.machine.resume()
    match = {
        "clean": lambda p: p.ino == clean and p.state == 1,
        "metadata": lambda p: p.state == registry.DIRTY | registry.METADATA,
    }.get(kind, lambda p: p.ino == dirty and p.state == registry.DIRTY)
    return next(page for page in pages if match(page))


def crash_by_store(
    guest: Guest, spec: CampaignSpec, fault_in: Callable[[str, bytes], Fault], kind: str
) -> tuple[TrialRecord, registry.Listed]:
    """The crash by one stray store, and the recovery from it."""
    guest.ready()
    page = victim_page(guest, kind)
    at = page.entry if kind == "registry" else page.address + 123
    fault = fault_in(VICTIM, store_to(at))
    record = TrialRecord(PlannedTrial(0, "rio", "kernel_text", "trap", 0.5, False), [fault])
    inject(guest, record)
    pid = guest.machine.spawn(["/bin/cat", "/proc/uptime"])
    record.observation = Watcher(guest.machine, spec, record.progress, pid, False).watch()
    record.console = guest.machine.console.text()
    guest.machine.console.clear()
    guest.machine.reset()
    wait_stage0(guest.machine)
    record.recovery = read_recovery(guest)
    return record, page


@pytest.mark.parametrize("mode", ["rio-protected", "rio-protected-pks"])
@pytest.mark.parametrize("kind", ["clean", "dirty", "metadata", "registry"])
def test_a_stray_store_is_trapped_and_named(
    guest_in: Callable[[str], Guest], spec: CampaignSpec, fault_in: Callable, mode: str, kind: str
) -> None:
    record, page = crash_by_store(guest_in(mode), spec, fault_in, kind)
    assert record.observation is not None and record.observation.crash is not None
    crash = record.observation.crash
    assert (crash.kind, crash.title) == ("trap", f"protection trap in {VICTIM}")
    what = {
        "registry": "the registry",
        "metadata": f"metadata of block {page.index} of device 254:16, dirty",
    }.get(kind, f"page {page.index} of inode {page.ino} of device 254:16, {kind}")
    assert what.encode() in record.console
    assert record.recovery is not None and record.recovery.entries.fallback == 0
    sums = record.recovery.checksums
    assert sums and sums.corrupt == 0 < sums.intact


@pytest.mark.parametrize("kind", ["clean", "dirty", "metadata", "registry"])
def test_without_protection_a_checksum_finds_it(
    guest_in: Callable[[str], Guest], spec: CampaignSpec, fault_in: Callable, kind: str
) -> None:
    record, page = crash_by_store(guest_in("rio"), spec, fault_in, kind)
    assert record.observation is not None and record.observation.crash is not None
    assert record.observation.crash.title == f"invalid opcode in {VICTIM}"
    assert record.recovery is not None
    if kind == "registry":
        assert record.recovery.entries.fallback == 1
        return
    (found,) = record.recovery.checksums.mismatches if record.recovery.checksums else []
    assert (found.ino, found.index) == (page.ino, page.index)
    assert (found.dirty, found.metadata) == (kind != "clean", kind == "metadata")
