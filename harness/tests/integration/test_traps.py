# SPDX-License-Identifier: Apache-2.0
"""A stray store of the kernel into the file cache: trapped and named, or found by its checksum.

The store is a real one, in the place of a function's first instructions, through the kernel's
direct map. Where the compiler checks stores, it is one that the compiler made, with a wrong pointer.
"""

from collections.abc import Callable
from functools import partial

import pytest
from riobed.crash.formats import Crash
from riobed.guest.guest import Guest
from riobed.guest.memory import registry
from riobed.guest.memory.layout import Layout
from riobed.plan.spec import CampaignSpec
from riobed.products import KernelPart
from riobed.trial.observe.watch import Watcher
from riobed.trial.recovery.recover import read_recovery
from riobed.trial.trial import inject, load_faults
from riobed_results.store.recovery_report import RecoveryReport

from .conftest import UD2, GuestIn, extended, faults_of, record_of, reset, shell, symbols

# Runs when somebody reads /proc/uptime, and only then.
VICTIM = "uptime_proc_show"
# Without KASLR (arch/x86/include/asm/page_64_types.h, __PAGE_OFFSET_BASE_L4).
DIRECT_MAP = 0xFFFF888000000000
CHECKED = "rio-protected-code"
KINDS = ["clean", "dirty", "metadata", "registry"]
# Clean file data needs a write-out; then some that is newer than the disk. The stray store's byte is
# the low one of an address, 0x7b, which neither file has.
FILES = """
cd /mnt/test; yes | head -c 20000 >clean
echo 1 >/sys/module/rio/parameters/reliability_writes
echo 0 >/sys/module/rio/parameters/reliability_writes
yes | head -c 20000 >dirty; stat -c %i clean dirty
"""


def store_to(address: int) -> bytes:
    """mov $address, %rax; mov %al, (%rax); ud2: ends the kernel if it gets that far."""
    return b"\x48\xb8" + (DIRECT_MAP + address).to_bytes(8, "little") + b"\x88\x00" + UD2


def init_queue_at(address: int, kernel: KernelPart) -> bytes:
    """mov $address, %rdi; jmp __init_waitqueue_head: it stores where its first argument points."""
    place = symbols(kernel)
    jump = b"\x48\xbf" + (DIRECT_MAP + address).to_bytes(8, "little") + b"\xe9"
    behind = place[VICTIM] + 5 + len(jump) + 4
    return jump + (place["__init_waitqueue_head"] - behind).to_bytes(4, "little", signed=True)


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
    guest: Guest, spec: CampaignSpec, kind: str, stores: Callable[[int], bytes] = store_to
) -> tuple[str, str, RecoveryReport, registry.Listed]:
    """Kind and title of the crash by one stray store, the report of the recovery from it, and the page."""
    guest.ready()
    page = victim_page(guest, kind)
    at = page.entry if kind == "registry" else page.address + 123
    crash = crash_by(guest, spec, stores(at))
    if crash.kind == "trap":
        assert told(kind, page) in guest.machine.console.text()
    reset(guest)
    return crash.kind, crash.title, read_recovery(guest), page


def crash_by(guest: Guest, spec: CampaignSpec, code: bytes) -> Crash:
    """The crash by that code, which the kernel is made to run."""
    record = record_of("trap", faults_of(kernel_of(guest))(VICTIM, code))
    load_faults(guest, record)
    inject(guest, record)
    pid = guest.machine.spawn(["/bin/cat", "/proc/uptime"])
    crash = Watcher(guest.machine, spec, record.progress, pid, False).watch().crash
    assert crash is not None
    return crash


def told(kind: str, page: registry.Listed) -> bytes:
    """What the kernel says the store was to."""
    what = {"registry": "the registry", "metadata": f"metadata of block {page.index} of device 254:16, dirty"}
    return what.get(kind, f"page {page.index} of inode {page.ino} of device 254:16, {kind}").encode()


def kernel_of(guest: Guest) -> KernelPart:
    return guest.setup.products(guest.mode).kernel


def check_intact(recovery: RecoveryReport) -> None:
    assert recovery.registry_damage == 0
    assert recovery.checksums and recovery.checksums.corrupt == 0 < recovery.checksums.intact


# With keys, what is mapped is the same.
@pytest.mark.parametrize(
    ("mode", "kind"),
    [
        *(("rio-protected", kind) for kind in KINDS),
        ("rio-protected-pks", KINDS[0]),
        *(extended("rio-protected-pks", kind) for kind in KINDS[1:]),
    ],
)
def test_a_stray_store_is_trapped_and_named(
    guest_in: GuestIn, spec: CampaignSpec, mode: str, kind: str
) -> None:
    *crash, recovery, _ = crash_by_store(guest_in(mode), spec, kind)
    assert crash == ["trap", f"protection trap in {VICTIM}"]
    check_intact(recovery)


@pytest.mark.extended
@pytest.mark.parametrize("kind", KINDS)
def test_a_checked_store_is_trapped_and_named(guest_in: GuestIn, spec: CampaignSpec, kind: str) -> None:
    guest = guest_in(CHECKED)
    *crash, recovery, _ = crash_by_store(guest, spec, kind, partial(init_queue_at, kernel=kernel_of(guest)))
    assert crash == ["trap", "protection trap in __init_waitqueue_head"]
    check_intact(recovery)


# Machine code that no compiler made has no checks.
@pytest.mark.parametrize("mode", ["rio", CHECKED])
@pytest.mark.parametrize("kind", [KINDS[0], *map(extended, KINDS[1:])])
def test_without_protection_a_checksum_finds_it(
    guest_in: GuestIn, spec: CampaignSpec, mode: str, kind: str
) -> None:
    _, title, recovery, page = crash_by_store(guest_in(mode), spec, kind)
    assert title == f"invalid opcode in {VICTIM}"
    if kind == "registry":
        assert recovery.entries.rejected == 1
        return
    (found,) = recovery.checksums.mismatches if recovery.checksums else []
    assert (found.ino, found.index) == (page.ino, page.index)
    assert (found.dirty, found.metadata) == (kind != "clean", kind == "metadata")
