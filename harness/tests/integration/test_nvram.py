# SPDX-License-Identifier: Apache-2.0
"""What is in an NVDIMM survives a reset and a loss of power; damage of it is a result."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from mmap import mmap

import numpy as np
import pytest
from riobed.faults.sites.vmlinux import Vmlinux
from riobed.guest.assembly import GuestSetup
from riobed.guest.boot import boot_production, wait_stage0
from riobed.guest.guest import Guest
from riobed.guest.memory.layout import MIB, NVDIMM_START
from riobed.guest.memory.registry import mapped
from riobed.guest.settings.config import MachineSpec, WorkloadSpec
from riobed.guest.settings.modes import cache_mode
from riobed.guest.setup import check_mode, guest_setup
from riobed.plan.spec import CampaignSpec
from riobed.plan.vocabulary import vocabulary
from riobed.propagation import store_plugin, stores_report, stores_so_far
from riobed.trial.recovery.recover import read_recovery
from riobed.trial.rows import trial_row
from riobed.vm import CanaryHits, Machine
from riobed_results.rules.controls import expected, found_by
from riobed_results.store.recovery_report import ENDED, RecoveryReport, cut_short

from .conftest import MEMTEST, opened, reset, shell, trial
from .test_kernel import PLAIN, run_kunit
from .test_traps import VICTIM, crash_by, store_to

pytestmark = pytest.mark.extended
# Of a file; 123 is in it.
TOLD = vocabulary({})
BLOCK = b"a block of a file with DAX\n" * 200


@pytest.fixture(scope="module")
def nvdimm() -> GuestSetup:
    return guest_setup(MachineSpec(nvdimm_mib=80, canary_mib=16), None, WorkloadSpec(path=MEMTEST))


@pytest.fixture(scope="module", params=["dax", "nv-journal", "nv-cache"])
def guest(request: pytest.FixtureRequest, nvdimm: GuestSetup) -> Iterator[Guest]:
    mode = cache_mode(request.param)
    check_mode(request.param, mode, nvdimm)
    with opened(nvdimm, mode, f"nvram-{request.param}") as made:
        yield made


@pytest.mark.parametrize("restart", ["reset", "power"])
def test_no_step_is_lost(guest: Guest, spec: CampaignSpec, restart: str) -> None:
    record = trial(guest, spec, f"nvram/{restart}", fault_class="none", warmup_s=0.9, restart=restart)
    assert record.restart == restart and record.progress.done > 0
    assert record.recovery is not None and record.recovery.mount_error == 0
    assert record.check is not None and record.check.equal, record.check
    # Nothing that is legal leads to the canary.
    assert record.canary == CanaryHits()


def test_steps_are_lost_in_a_mode_that_writes_later(nvdimm: GuestSetup, spec: CampaignSpec) -> None:
    with opened(nvdimm, cache_mode("delayed"), "nvram-delayed") as guest:
        record = trial(guest, spec, "nvram/power", fault_class="none", warmup_s=0.9, restart="power")
    assert record.progress.done > 0 and record.check is not None
    assert record.check.steps_lost and not record.broken


def test_a_changed_bit_of_it_is_found(guest: Guest, spec: CampaignSpec) -> None:
    planned = {"fault_class": "planted", "change": "block", "warmup_s": 0.5}
    record = trial(guest, spec, "nvram/block", **planned)
    assert record.check is not None and not record.check.equal
    assert record.plant is not None and record.check.differences[0].offset == record.plant.offset


@pytest.mark.parametrize(
    ("guest", "kind"),
    [("dax", "journal"), ("nv-journal", "journal"), ("nv-cache", "journal"), ("nv-cache", "writecache")],
    indirect=["guest"],
)
def test_a_changed_bit_of_what_a_mode_keeps_there_is_found(
    guest: Guest, spec: CampaignSpec, kind: str
) -> None:
    record = trial(guest, spec, f"nvram/{kind}", fault_class="planted", change=kind, warmup_s=0.5)
    row = trial_row(record, 1, 1, "2026-01-02T03:04:05.000+00:00", "")
    assert found_by(row, TOLD) and expected(row, TOLD) == row.corruption, (record.plant, record.check)
    # Of the file system's own journal in nv-cache either may have the newest copy.
    assert record.plant is not None and record.plant.where in ("nvdimm", "disk")


def test_a_changed_bit_of_the_canary_is_found(guest: Guest, spec: CampaignSpec) -> None:
    record = trial(guest, spec, "nvram/canary", fault_class="planted", change="canary", warmup_s=0.5)
    assert record.check is not None and record.check.equal
    assert record.plant is not None and record.canary == CanaryHits(1, record.plant.offset)


def test_the_canary_is_where_the_kernel_has_its_second_device(guest: Guest) -> None:
    """What is stored there is told, at its offset in the NVDIMM, until a snapshot is restored."""
    guest.ready()
    assert shell(guest, "cat /sys/block/pmem0/size /sys/block/pmem1/size").split() == [b"131072", b"32768"]
    shell(guest, "printf x | dd of=/dev/pmem1 bs=1 seek=12345 conv=notrunc,fsync 2>/dev/null")
    assert guest.canary_hits() == CanaryHits(1, 64 * MIB + 12345)
    guest.ready()
    assert guest.canary_hits() == CanaryHits()


def test_who_stored_into_the_canary_is_named() -> None:
    mode = cache_mode("dax")
    setup = guest_setup(MachineSpec(nvdimm_mib=80, canary_mib=16), None, counts_nvdimm=True)
    with opened(setup, mode, "nvram-stores", store_plugin(setup, setup.layout(mode))) as guest:
        guest.ready()
        config = guest.machine.config
        before = stores_so_far(config)
        shell(guest, "printf x | dd of=/dev/pmem1 bs=1 seek=12345 conv=notrunc,fsync 2>/dev/null")
        vmlinux = Vmlinux(setup.products(mode).kernel.vmlinux)
        answer = stores_report(config, before, vmlinux)
    # The driver writes the whole block.
    assert answer["by"][0]["offset"] == 64 * MIB + 12288
    assert {by["function"] for by in answer["by"]} == {"__memcpy_flushcache"}, answer


def test_a_recovery_cut_short_loses_nothing(guest: Guest, spec: CampaignSpec) -> None:
    """The next one finds the same files, however far the first has come with the journal."""
    phases = set()
    for number, moment in enumerate([0.0, 0.05, 0.1, 0.15, 0.25]):
        planned = {"fault_class": "none", "warmup_s": 0.6 + number * 0.2, "recovery_reset_s": moment}
        restart = "power" if number % 2 else "reset"
        record = trial(guest, spec, f"nvram/cut/{number}", restart=restart, **planned)
        assert record.check is not None and record.check.equal, record.recovery
        phases.add(cut_short(record.recovery))
    assert phases - {ENDED}, "every reset came too late"


# Fill what memory is left, and a little more; then tell how many pages the kernel swapped out.
OUTGROW = """
kib=$(($(awk '/MemAvailable/ {print $2}' /proc/meminfo) + 16384))
head -c ${kib}K /dev/zero | tail -c ${kib}K >/dev/null && awk '/pswpout/ {print $2}' /proc/vmstat
"""


def test_memory_that_does_not_fit_goes_to_the_nvdimm(nvdimm: GuestSetup) -> None:
    mode = cache_mode("nv-swap")
    # Little memory is soon full.
    machine = nvdimm.machine.model_copy(update={"memory_mib": 256})
    with opened(replace(nvdimm, machine=machine), mode, "nvram-swap") as guest:
        guest.boot()
        assert int(shell(guest, OUTGROW)) > 1000
        guest.machine.console.clear()
        guest.machine.reset()
        wait_stage0(guest.machine)
        boot_production(guest.machine)
        # After a crash the swap space is as new, and still the only one.
        assert shell(guest, "tail -n +2 /proc/swaps").split()[::3] == [b"/dev/pmem0", b"0"]


# Fill memory with a file that never goes to a disk; then tell how much memory there is, in KiB.
FILL = """
kib=$(($(awk '/MemAvailable/ {print $2}' /proc/meminfo) - 32768))
mkdir /tmp/full && mount -t tmpfs -o size=100% full /tmp/full && head -c ${kib}K /dev/zero >/tmp/full/file
"""
HAS = "awk '/MemTotal|MemAvailable/ {print $2}' /proc/meminfo"


def unsettle(memory: mmap) -> None:
    """Change the block that says what the NVDIMM is for, so its checksum is wrong (struct nd_pfn_sb)."""
    assert memory[4096:4112] == b"NVDIMM_DAX_INFO\0"
    memory[4096 + 16] ^= 1


def damage_nvdimm(machine: Machine, damage: Callable[[mmap], None]) -> None:
    """Pause the machine, and damage what its NVDIMM has."""
    machine.pause()
    assert machine.config.nvdimm
    with mapped(machine.config.nvdimm.path) as memory:
        damage(memory)


def test_the_nvdimm_is_memory_that_is_empty_after_a_crash(nvdimm: GuestSetup) -> None:
    mode = cache_mode("nv-memory")
    machine = nvdimm.machine.model_copy(update={"nvdimm_mib": 272, "memory_mib": 256})
    with opened(replace(nvdimm, machine=machine), mode, "nvram-memory") as guest:
        guest.boot()
        total, available = map(int, shell(guest, HAS).split())
        assert total > 256 * 1024
        power_loss = partial(guest.machine.power_loss, 1)
        damages = (None, unsettle, wreck)
        for crash, damage in ((guest.machine.reset, None), *((power_loss, damage) for damage in damages)):
            shell(guest, FILL)
            assert int(shell(guest, HAS).split()[1]) < available / 4
            guest.machine.console.clear()
            if damage:
                damage_nvdimm(guest.machine, damage)
            crash()
            wait_stage0(guest.machine)
            boot_production(guest.machine)
            after = [int(kib) for kib in shell(guest, HAS).split()]
            assert after[0] == total and after[1] > 0.9 * available


def test_a_journal_is_found_by_its_device_not_by_its_number(nvdimm: GuestSetup) -> None:
    """The kernel numbers two NVDIMMs in the order in which it is done with them, another one at each boot."""
    mode = cache_mode("nv-journal")
    with opened(nvdimm, mode, "nvram-number") as guest:
        guest.boot()
        guest.machine.console.clear()
        guest.machine.reset()
        wait_stage0(guest.machine)
        # ext4 keeps the number in its superblock. No device has this one.
        shell(guest, "umount /mnt/test && debugfs -w -R 'set_super_value journal_dev 0x10203' /dev/vdb")
        boot_production(guest.machine)
        shell(guest, "echo one >/mnt/test/file; sync")


@pytest.mark.parametrize("drivers", [False, True])
def test_the_canary_counts_where_the_kernel_maps_it(nvdimm: GuestSetup, drivers: bool) -> None:
    mode = cache_mode("write-through")
    mode = mode.model_copy(update={"kernel": cache_mode("dax").kernel}) if drivers else mode
    with opened(nvdimm, mode, "nvram-canary") as guest:
        guest.boot()
        config = guest.machine.config.nvdimm
        assert config
        with mapped(config.path) as memory:
            memory[config.used + 5000] ^= 1
        assert guest.canary_hits() == (CanaryHits(1, config.used + 5000) if drivers else None)


def wreck(memory: mmap) -> None:
    memory[:] = np.random.default_rng(1).bytes(len(memory))


def erase(memory: mmap) -> None:
    memory[:] = bytes(len(memory))


def enlarge(memory: mmap) -> None:
    """Make it the cache of a larger NVDIMM: n_blocks of struct wc_memory_superblock."""
    blocks = int.from_bytes(memory[16:24], "little")
    memory[16:24] = (2 * blocks).to_bytes(8, "little")


def exchange(memory: mmap) -> None:
    """Make it the journal of another file system: s_uuid of struct ext4_super_block."""
    memory[1024 + 0x68 : 1024 + 0x78] = bytes(range(16))


# Of an NVDIMM of each kind, what can be damaged.
DAMAGES = [(mode, damage) for mode in ("dax", "nv-journal", "nv-cache") for damage in (wreck, erase)]
DAMAGES += [("nv-cache", enlarge), ("nv-journal", exchange)]


def recovered_with(guest: Guest, damage: Callable[[mmap], None]) -> RecoveryReport:
    """Write a file, lose the machine, damage the NVDIMM, and recover."""
    guest.ready()
    machine = guest.machine
    shell(guest, "echo one >/mnt/test/file; sync")
    damage_nvdimm(machine, damage)
    machine.console.clear()
    machine.reset()
    machine.resume()
    wait_stage0(machine)
    return read_recovery(guest)


@pytest.mark.parametrize(("guest", "damage"), DAMAGES, indirect=["guest"])
def test_damage_of_it_is_a_result_and_the_disk_is_not_taken_for_it(
    guest: Guest, damage: Callable[[mmap], None]
) -> None:
    report = recovered_with(guest, damage)
    # e2fsck(8): an operational error.
    assert report.mount_error and report.e2fsck_status & 8
    shell(guest, "! mountpoint -q /mnt/test")
    if guest.mode.nvdimm == "cache":
        shell(guest, "! test -e /dev/dm-0")
        assert b"riobed: no device under test" in guest.machine.console.text()


@pytest.fixture
def dax(request: pytest.FixtureRequest, nvdimm: GuestSetup) -> Iterator[Guest]:
    """A guest in a mode with DAX; its name is not that of `guest`, which may be there at the same time."""
    mode = cache_mode(request.param)
    with opened(nvdimm, mode, f"nvram-closed-{request.param}") as made:
        yield made


CLOSED = ["dax-protected", "dax-protected-pks"]


@pytest.mark.parametrize("dax", ["dax", *CLOSED], indirect=True)
def test_a_stray_store_into_a_file_is_silent_or_trapped_and_named(dax: Guest, spec: CampaignSpec) -> None:
    dax.ready()
    shell(dax, "cat >/mnt/test/file; sync", BLOCK[:4096])
    dax.machine.pause()
    assert dax.machine.config.nvdimm
    with mapped(dax.machine.config.nvdimm.path) as memory:
        place = memory.find(BLOCK[:4096])
    dax.machine.resume()
    crash = crash_by(dax, spec, store_to(NVDIMM_START + place + 123))
    wrong = bytes([*BLOCK[:123], (place + 123) % 256, *BLOCK[124:4096]])
    protected = dax.mode.kernel_parameters != ()
    title = f"protection trap in {VICTIM}" if protected else f"invalid opcode in {VICTIM}"
    assert crash.title == title
    named = b"page %d of the NVDIMM pmem0\n" % (place // 4096)
    assert (named in dax.machine.console.text().replace(b"\r", b"")) == protected
    reset(dax)
    assert shell(dax, "cat /mnt/test/file") == (BLOCK[:4096] if protected else wrong)


@pytest.mark.parametrize("dax", CLOSED, indirect=True)
def test_kunit_of_a_closed_nvdimm(dax: Guest) -> None:
    results = run_kunit(dax)
    assert ("ok", "rio_nvdimm", "") in results
    assert [name for verdict, name, rest in results if verdict != "ok"] == []


# A disk under a device, which maps it as it is.
_STACKED = (
    "truncate -s 32M /run/disk; losetup /dev/loop0 /run/disk;"
    "dmsetup create --noudevrules --noudevsync over --table '0 65536 linear /dev/loop0 0';"
    f"mke2fs -q -F -t ext4 -b 4096 -O {PLAIN} /dev/dm-0; mkdir /run/on; dmesg -C;"
    "mount -t ext4 -o rio,nodelalloc /dev/dm-0 /run/on && exit 9; dmesg"
)


@pytest.mark.parametrize("dax", CLOSED[:1], indirect=True)
def test_a_device_on_others_is_refused_by_rio(dax: Guest) -> None:
    """A recovery would see the disk below it, and not the device. This kernel has the device mapper."""
    dax.ready()
    assert b"lies on other devices" in shell(dax, _STACKED)


@pytest.mark.parametrize("dax", CLOSED, indirect=True)
def test_protection_traps_nothing_that_is_legal(dax: Guest, spec: CampaignSpec) -> None:
    record = trial(dax, spec, "nvram/closed", fault_class="none", warmup_s=0.9, restart="power")
    assert b"protection trap" not in record.console and record.progress.done > 0
    assert record.check is not None and record.check.equal, record.check
