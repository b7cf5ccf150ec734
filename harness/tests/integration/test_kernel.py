# SPDX-License-Identifier: Apache-2.0
"""The kernel series in the real production guest: its KUnit tests, and what it promises users."""

import re
import subprocess
from pathlib import Path

import pytest
from riobed.guest.assembly import GuestSetup
from riobed.guest.boot import wait_until
from riobed.guest.guest import Guest
from riobed.guest.settings.modes import cache_mode
from riobed.products import CHECKOUT

from .conftest import GuestIn, opened, reset, shell

# Tests for one mode. What other processors see is tested in test_processors.py.
ONLY = {
    "rio_test_switch": "rio-protected-pks",
    "rio_test_assembly": "rio-protected-code",
    "rio_test_other_cpu": "",
}
SUITES = {"rio_change", "rio_entry", "rio_log", "rio_policy", "rio_registry", "rio_reserve", "rio_trap"}


def run_kunit(guest: Guest) -> list[tuple[str, str, str]]:
    """Each result's verdict, name and the rest of its line."""
    guest.ready()
    shell(guest, "dmesg -C; insmod /lib/riobed/kunit.ko; insmod /lib/riobed/rio-test.ko")
    log = shell(guest, "dmesg -t").decode()
    # Shown if the test fails.
    print(log)
    return re.findall(r"^ *(ok|not ok) \d+ (\w+)(.*)$", log, re.MULTILINE)


@pytest.mark.parametrize("mode", ["rio", "rio-protected", "rio-protected-pks", "rio-protected-code"])
def test_kunit(guest_in: GuestIn, mode: str) -> None:
    results = run_kunit(guest_in(mode))
    assert {name for _, name, _ in results} >= SUITES
    assert len(results) >= len(SUITES) + 35
    bad = [result for result in results if result[0] != "ok" or "SKIP" in result[2]]
    skipped = [name for name, only in ONLY.items() if mode != only]
    assert [name for _, name, _ in bad] == skipped and all("SKIP" in rest for *_, rest in bad)


@pytest.mark.parametrize("mode", ["rio", "rio-protected"])
def test_the_selftest_of_the_series(guest_in: GuestIn, tmp_path: Path, mode: str) -> None:
    file = Path("tools/testing/selftests/rio/rio.sh")
    (patch,) = (CHECKOUT / "guest-kernel-patches").glob("*-selftests-rio-*.patch")
    subprocess.run(["git", "apply", f"--include={file}", patch], cwd=tmp_path, check=True)
    guest = guest_in(mode)
    guest.ready()
    guest.machine.write_file("/run/rio.sh", (tmp_path / file).read_bytes())
    said = shell(guest, "sh /run/rio.sh").decode().splitlines()
    assert said[:2] == ["TAP version 13", "1..4"] and [line[:2] for line in said[2:]] == ["ok"] * 4


def written(guest: Guest) -> int:
    """Sectors written to the file system under test so far."""
    return int(shell(guest, "awk '$3 == \"vdb\" {print $10}' /proc/diskstats"))


def test_reliability_writes_are_off_and_can_be_turned_on(rio: Guest) -> None:
    before = written(rio)
    shell(rio, "cd /mnt/test && head -c 400000 /dev/urandom >file && sync && sync -d file && sync -f file")
    shell(rio, "dd if=/dev/zero of=/mnt/test/osync bs=4k count=10 oflag=sync 2>/dev/null")
    assert written(rio) - before < 16
    shell(rio, "echo 1 >/sys/module/rio/parameters/reliability_writes; sync")
    assert (written(rio) - before) * 512 >= 400000
    shell(rio, "echo 0 >/sys/module/rio/parameters/reliability_writes")


def records(guest: Guest) -> int:
    """Bytes of metadata that operations have recorded so far, in records."""
    return int(shell(guest, "awk '$1 == \"records\" {print $2}' /sys/kernel/debug/rio/stats"))


def test_a_file_that_grows_takes_no_record_for_each_page(rio: Guest) -> None:
    shell(rio, "head -c 4096 /dev/zero >/mnt/test/file")
    before = records(rio)
    shell(rio, "dd if=/dev/zero of=/mnt/test/file bs=4k seek=1 count=200 conv=notrunc 2>/dev/null")
    assert records(rio) - before < 100


def test_unmounting_writes_everything(rio: Guest) -> None:
    shell(rio, "head -c 100000 /dev/urandom >/mnt/test/file")
    before = written(rio)
    digest = shell(rio, "sha256sum </mnt/test/file; umount /mnt/test")
    assert (written(rio) - before) * 512 >= 100000
    assert shell(rio, "mount -t ext4 /dev/vdb /mnt/test && sha256sum </mnt/test/file") == digest


def test_memory_pressure_writes_back_and_nothing_is_lost(rio: Guest) -> None:
    """More dirty data than the limit: some is written, the rest restored, all is equal."""
    before = written(rio)
    shell(
        rio,
        "echo 5 >/proc/sys/vm/dirty_background_ratio; echo 10 >/proc/sys/vm/dirty_ratio; cd /mnt/test;"
        "for i in 1 2 3 4 5 6 7 8; do head -c 8000001 /dev/urandom >big$i; done;"
        "rm big2; head -c 5 /dev/zero >big3",
    )
    hashes = shell(rio, "cd /mnt/test && sha256sum big*")
    assert written(rio) - before > 1000
    reset(rio)
    assert shell(rio, "cd /mnt/test && sha256sum big*") == hashes


# What mke2fs of mode rio leaves out, and makes all that Rio needs.
PLAIN = "^has_journal,^metadata_csum,^uninit_bg,^orphan_file"


def refused(rio: Guest, mkfs: str, options: str, disk: str = "/dev/vdb", then: str = ":") -> str:
    """What the kernel says of a mount that it refuses; `then` is run between mke2fs and mount."""
    script = (
        "if mountpoint -q /mnt/test; then umount /mnt/test; fi; mke2fs -q -F -t ext4 "
        f"{mkfs} {disk} 32M && {then} && dmesg -C;"
        f" mount -t ext4 -o {options} {disk} /mnt/test && exit 9; dmesg"
    )
    return shell(rio, script).decode()


def test_mounts_that_rio_cannot_protect_are_refused(rio: Guest) -> None:
    for mkfs, options, why in (
        ("-b 4096", "rio,nodelalloc", "journal"),
        (f"-b 4096 -O {PLAIN}", "rio", "nodelalloc"),
        (f"-b 1024 -O {PLAIN}", "rio,nodelalloc", "block size"),
        (f"-b 4096 -O {PLAIN},^extents,^64bit", "rio,nodelalloc", "rio needs extents"),
        (f"-b 4096 -O {PLAIN}", "rio,nodelalloc,discard", "discard"),
        (f"-b 4096 -O {PLAIN}", "rio,nodelalloc,lazytime", "lazytime"),
    ):
        assert why in refused(rio, mkfs, options)


@pytest.mark.parametrize("feature", [
    "inline_data", "mmp", "metadata_csum", "uninit_bg", "bigalloc", "ea_inode", "encrypt", "verity",
])  # fmt: skip
def test_features_that_rio_cannot_protect_are_refused(rio: Guest, feature: str) -> None:
    options = PLAIN.replace(f"^{feature}", feature)
    if feature not in PLAIN:
        options += f",{feature}"
    assert "rio cannot do with" in refused(rio, f"-b 4096 -O {options}", "rio,nodelalloc")


@pytest.mark.parametrize("feature", ["quota", "project"])
def test_features_that_the_kernel_knows_read_only_are_refused(rio: Guest, feature: str) -> None:
    """The guest's kernel has no quotas: it would mount such a file system only to read."""
    why = refused(rio, f"-b 4096 -O {PLAIN},{feature}", "ro,rio,nodelalloc")
    assert f"rio cannot do with {feature}" in why


def test_an_orphan_file_is_refused(rio: Guest) -> None:
    """mke2fs makes none without a journal."""
    feature = "debugfs -w -R 'feature orphan_file' /dev/vdb"
    why = refused(rio, f"-b 4096 -O {PLAIN}", "rio,nodelalloc", then=feature)
    assert "rio cannot do with orphan_file" in why


# A table with one partition of 32 MiB.
_PARTITION = 'print pack("x450 C x3 V V x48 v", 0x83, 2048, 65536, 0xaa55)'


def test_a_partition_is_refused(rio: Guest) -> None:
    shell(rio, f"umount /mnt/test; perl -e '{_PARTITION}' >/dev/vdb; blockdev --rereadpt /dev/vdb")
    assert "not a whole disk" in refused(rio, f"-b 4096 -O {PLAIN}", "rio,nodelalloc", "/dev/vdb1")


# Beside the file system under test; the fifth has no place in the registry.
_MORE_FILE_SYSTEMS = (
    "cd /run; for n in 2 3 4 5; do mkdir on$n; truncate -s 2M disk$n;"
    f"mke2fs -q -F -t ext4 -b 4096 -O {PLAIN} disk$n; done;"
    "put() { mount -t ext4 -o loop,rio,nodelalloc disk$1 on$1; };"
)


def test_a_fifth_file_system_is_refused_until_one_has_gone(rio: Guest) -> None:
    script = "put 2; put 3; put 4; dmesg -C; if put 5; then exit 9; fi; dmesg; umount on2; put 5"
    assert b"4 file systems are listed already" in shell(rio, _MORE_FILE_SYSTEMS + script)


# A disk that fails: a file in a tmpfs that has no room for all of it. The loop device takes a write that was
# cut short for a good one, so each is of one block.
_FAILING_DISK = (
    "mkdir /run/small /run/failing; mount -t tmpfs -o size=8m none /run/small;"
    "truncate -s 32M /run/small/disk;"
    f"mke2fs -q -F -t ext4 -b 4096 -O {PLAIN} /run/small/disk;"
    "mount -t ext4 -o loop,rio,nodelalloc /run/small/disk /run/failing;"
    "echo 4 >/sys/block/loop0/queue/max_sectors_kb"
)


def test_what_a_disk_refused_stays_in_memory_and_is_written_again(rio: Guest) -> None:
    shell(rio, _FAILING_DISK)
    digest = shell(rio, "cd /run/failing; head -c 12000000 /dev/urandom >file; sha256sum file")
    write = "echo 1 >/sys/module/rio/parameters/reliability_writes"
    assert b"No space left on device" in shell(rio, f"{write}; sync /run/failing/file 2>&1 || :")
    shell(rio, "echo 3 >/proc/sys/vm/drop_caches")
    assert shell(rio, "cd /run/failing; sha256sum file") == digest
    shell(rio, "mount -o remount,size=40m /run/small; umount /run/failing; echo 3 >/proc/sys/vm/drop_caches")
    shell(rio, "mount -t ext4 -o loop /run/small/disk /run/failing")
    assert shell(rio, "cd /run/failing; sha256sum file") == digest


def test_what_rio_needs_cannot_be_taken_away(rio: Guest) -> None:
    for option in ("delalloc", "discard", "lazytime"):
        script = f"dmesg -C; if mount -o remount,{option} /mnt/test; then exit 9; fi; dmesg"
        assert re.search(f"rio (needs|cannot do with).*{option}".encode(), shell(rio, script))
    # The same, and it goes on working.
    shell(rio, "mount -o remount,noatime /mnt/test && echo still >/mnt/test/file")


def test_rio_cannot_come_on_remount(rio: Guest) -> None:
    mount = "umount /mnt/test; mount -t ext4 -o nodelalloc /dev/vdb /mnt/test"
    remount = "if mount -o remount,rio /mnt/test; then exit 9; fi"
    assert b"Cannot change rio on remount" in shell(rio, f"{mount}; {remount}; dmesg")


def test_without_rio_dirty_data_is_written_by_age_again(rio: Guest) -> None:
    """The device whose flusher was held back is an ordinary one after umount."""
    script = (
        "umount /mnt/test; mount -t ext4 -o nodelalloc /dev/vdb /mnt/test;"
        "echo 100 >/proc/sys/vm/dirty_expire_centisecs; echo 100 >/proc/sys/vm/dirty_writeback_centisecs;"
        "head -c 400000 /dev/urandom >/mnt/test/file"
    )
    shell(rio, script)
    before = written(rio)
    assert wait_until(rio.machine, lambda: (written(rio) - before) * 512 >= 400000, 240)


# As a user whose limit of processes is reached: a fork fails, and then its parent goes on writing.
_FAILED_FORK = """
open(F, ">", "/mnt/test/file") or die; syswrite(F, "begun\\n");
$( = 65534; $) = "65534 65534"; $< = 65534; $> = 65534;
$limit = pack("QQ", 0, 0);
syscall(160, 6, $limit) and die "setrlimit: $!";
die "it has forked" if defined(fork);
syswrite(F, "goes on\\n") for 1 .. 100;
print "done";
"""


@pytest.mark.extended
def test_a_fork_that_fails_takes_nothing_from_its_parent(setup: GuestSetup) -> None:
    """With the slab allocator's poison, what is freed and used all the same is noticed."""
    rio = cache_mode("rio")
    parameters = (*rio.kernel_parameters, "slab_debug=P,kmalloc-*")
    with opened(setup, rio.model_copy(update={"kernel_parameters": parameters}), "poisoned") as guest:
        guest.ready()
        assert shell(guest, "perl -", _FAILED_FORK.encode()) == b"done"
        assert shell(guest, "wc -l </mnt/test/file") == b"101\n"
