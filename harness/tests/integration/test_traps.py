# SPDX-License-Identifier: Apache-2.0
"""A stray store of the kernel into the file cache: trapped and named, or found by its checksum.

The store is a real one, in the place of a function's first instructions, through the kernel's
direct map.
"""

import pytest
from riobed.guest import registry
from riobed.guest.guest import Guest
from riobed.guest.layout import Layout
from riobed.plan.spec import CampaignSpec
from riobed.trial.recover import read_recovery
from riobed.trial.trial import inject
from riobed.trial.watch import Watcher
from riobed_results.store.recovery_report import RecoveryReport

from .conftest import UD2, FaultIn, GuestIn, record_of, reset, shell

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
    guest: Guest, spec: CampaignSpec, fault_in: FaultIn, kind: str
) -> tuple[str, str, RecoveryReport, registry.Listed]:
    """Kind and title of the crash by one stray store, the report of the recovery from it, and the page."""
    guest.ready()
    page = victim_page(guest, kind)
    at = page.entry if kind == "registry" else page.address + 123
    record = record_of("trap", fault_in(VICTIM, store_to(at)))
    inject(guest, record)
    pid = guest.machine.spawn(["/bin/cat", "/proc/uptime"])
    crash = Watcher(guest.machine, spec, record.progress, pid, False).watch().crash
    assert crash is not None
    if crash.kind == "trap":
        assert told(kind, page) in guest.machine.console.text()
    reset(guest)
    return crash.kind, crash.title, read_recovery(guest), page


def told(kind: str, page: registry.Listed) -> bytes:
    """What the kernel says the store was to."""
    what = {"registry": "the registry", "metadata": f"metadata of block {page.index} of device 254:16, dirty"}
    return what.get(kind, f"page {page.index} of inode {page.ino} of device 254:16, {kind}").encode()


@pytest.mark.parametrize("mode", ["rio-protected", "rio-protected-pks"])
@pytest.mark.parametrize("kind", ["clean", "dirty", "metadata", "registry"])
def test_a_stray_store_is_trapped_and_named(
    guest_in: GuestIn, spec: CampaignSpec, fault_in: FaultIn, mode: str, kind: str
) -> None:
    *crash, recovery, _ = crash_by_store(guest_in(mode), spec, fault_in, kind)
    assert crash == ["trap", f"protection trap in {VICTIM}"]
    assert recovery.registry_damage == 0
    assert recovery.checksums and recovery.checksums.corrupt == 0 < recovery.checksums.intact


@pytest.mark.parametrize("kind", ["clean", "dirty", "metadata", "registry"])
def test_without_protection_a_checksum_finds_it(
    guest_in: GuestIn, spec: CampaignSpec, fault_in: FaultIn, kind: str
) -> None:
    _, title, recovery, page = crash_by_store(guest_in("rio"), spec, fault_in, kind)
    assert title == f"invalid opcode in {VICTIM}"
    if kind == "registry":
        assert recovery.entries.rejected == 1
        return
    (found,) = recovery.checksums.mismatches if recovery.checksums else []
    assert (found.ino, found.index) == (page.ino, page.index)
    assert (found.dirty, found.metadata) == (kind != "clean", kind == "metadata")
