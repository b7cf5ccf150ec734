# SPDX-License-Identifier: Apache-2.0
"""What is only in memory survives a crash in mode rio, and nothing else is made up."""

import errno
import hashlib
import random
import re
import time

import pytest
from riobed.errors import BootError, InfraError
from riobed.guest.boot import boot_production, wait_stage0, wait_until
from riobed.guest.guest import Guest
from riobed.guest.memory import registry
from riobed.guest.memory.layout import Layout
from riobed.products import CHECKOUT
from riobed.trial.recovery.recover import read_recovery

from .conftest import compiled, crash, reset, shell

_HASHES = "cd /mnt/test && find . -type f ! -path './lost+found*' -exec sha256sum {} + | sort -k 2"
_NAMES = (
    "cd /mnt/test && find . ! -path './lost+found*' -printf '%p %y %s %l\\n' | sed 's/ d [0-9]*/ d/' | sort"
)


def make_tree(guest: Guest) -> dict[str, bytes]:
    """Files of odd sizes, nested folders, links, holes, a file that shrank and one renamed over."""
    rng = random.Random(42)
    files = {}
    for number, size in enumerate([0, 1, 511, 4095, 4096, 4097, 12288, 65537, 300001]):
        name, data = f"d{number % 3}/e/f{number}", rng.randbytes(size)
        shell(guest, f"mkdir -p /mnt/test/d{number % 3}/e && cat >/mnt/test/{name}", data)
        files[f"./{name}"] = data
    shell(
        guest,
        "cd /mnt/test && ln -s d0/e/f0 link && ln d1/e/f7 hard && truncate -s 5000 d2/e/f8"
        " && truncate -s 20000 hole && printf x | dd of=hole bs=1 seek=9000 conv=notrunc 2>/dev/null"
        " && cp d0/e/f6 over && mv d1/e/f4 over && rm d2/e/f5 && sync",
    )
    files["./hard"] = files["./d1/e/f7"]
    files["./d2/e/f8"] = files["./d2/e/f8"][:5000]
    files["./hole"] = bytes(9000) + b"x" + bytes(10999)
    files["./over"] = files.pop("./d1/e/f4")
    del files["./d2/e/f5"]
    return files


def test_a_known_tree_comes_back_byte_for_byte(rio: Guest) -> None:
    files = make_tree(rio)
    names = shell(rio, _NAMES)
    writes = int(shell(rio, "awk '$3 == \"vdb\" {print $10}' /proc/diskstats"))
    crash(rio)
    report = read_recovery(rio)
    assert report.registry == "recovered" and report.mount_error == 0
    assert report.registry_damage == report.inconsistent == report.entries.duplicates == 0
    assert writes < 100, "the tree had been written to disk before the crash: nothing was tested"
    assert shell(rio, _NAMES) == names
    hashes = dict(reversed(line.split(maxsplit=1)) for line in shell(rio, _HASHES).decode().splitlines())
    for name, data in files.items():
        assert hashes[name] == hashlib.sha256(data).hexdigest(), name


# ioctl(EXT4_IOC_SETFSUUID) with a struct fsuuid.
_SET_UUID = """
my $uuid = pack("LLa16", 16, 0, "0123456789abcdef");
open(F, "/mnt/test/file") or die $!;
ioctl(F, 0x4008662c, $uuid) or die $!;
"""


@pytest.mark.extended
def test_a_file_system_that_got_another_uuid_is_found_by_it(rio: Guest) -> None:
    shell(rio, "echo kept >/mnt/test/file; perl", _SET_UUID.encode())
    crash(rio)
    assert read_recovery(rio).matched_by == "uuid"
    assert b"30313233-3435-3637-3839-616263646566" in shell(rio, "dumpe2fs -h /dev/vdb")
    assert shell(rio, "cat /mnt/test/file") == b"kept\n"


def test_power_off_leaves_everything_on_the_disk(rio: Guest) -> None:
    shell(rio, "cat >/mnt/test/file; sync", b"only in memory\n")
    # reboot(LINUX_REBOOT_CMD_POWER_OFF), without umount and sync before it
    rio.machine.spawn(["/usr/bin/perl", "-e", "syscall(169, 0xfee1dead, 672274793, 0x4321fedc, 0)"])
    deadline = time.monotonic() + 240
    while rio.machine.alive() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not rio.machine.alive()
    rio.machine.start()
    wait_stage0(rio.machine)
    assert read_recovery(rio).registry == "cold"
    assert shell(rio, "cat /mnt/test/file") == b"only in memory\n"
    rio.discard()


# ioctl(EXT4_IOC_SWAP_BOOT); the number of its error.
_SWAP_BOOT = """
open(F, "+<", "/mnt/test/file") or die $!;
print ioctl(F, 0x6611, 0) ? "swapped" : $! + 0;
"""


def test_what_recovery_finds_a_file_by_cannot_be_changed(rio: Guest) -> None:
    shell(rio, "cd /mnt/test; echo precious >file; if chattr -v 4711 file; then exit 9; fi")
    assert int(shell(rio, "perl", _SWAP_BOOT.encode())) == errno.EOPNOTSUPP
    shell(rio, "if chattr -e /mnt/test/file; then exit 9; fi")
    crash(rio)
    assert read_recovery(rio).data.lost_inodes == 0
    assert shell(rio, "cat /mnt/test/file") == b"precious\n"


@pytest.mark.extended
def test_a_file_of_many_extents_is_removed(rio: Guest) -> None:
    """Its blocks of extents fill more of the log than an operation may have, so it ends in the middle."""
    write = 'for my $n (0 .. 5999) { sysseek(F, $n * 8192, 0); syswrite(F, "x") }'
    shell(rio, f"perl -e 'open(F, \">/mnt/test/file\"); {write}'; echo kept >/mnt/test/kept")
    shell(rio, "truncate -s 10000 /mnt/test/file; rm /mnt/test/file")
    assert b"\nlog_misses 0\n" in shell(rio, "cat /sys/kernel/debug/rio/stats")
    crash(rio)
    assert shell(rio, "test ! -e /mnt/test/file; cat /mnt/test/kept") == b"kept\n"


_LARGE_DIRECTORY = """
my @names = map { sprintf "/mnt/test/large/%0240d", $_ } 1 .. 6500;
mkdir "/mnt/test/large";
for (@names) { open(F, ">", $_) or die $! }
unlink @names;
"""


@pytest.mark.extended
def test_a_large_directory_is_removed(rio: Guest) -> None:
    """It has more blocks than the log has pages, and one operation frees them."""
    shell(rio, "perl", _LARGE_DIRECTORY.encode())
    assert int(shell(rio, "stat -c %s /mnt/test/large")) > 512 * 4096
    shell(rio, "rmdir /mnt/test/large; echo kept >/mnt/test/kept")
    assert b"\nlog_misses 0\n" in shell(rio, "cat /sys/kernel/debug/rio/stats")
    crash(rio)
    assert shell(rio, "test ! -e /mnt/test/large; cat /mnt/test/kept") == b"kept\n"


def test_restored_memory_is_compared_with_the_snapshots(rio: Guest) -> None:
    for _ in range(2):
        shell(rio, "echo something >/mnt/test/file")
        rio.ready(check=True)
    shell(rio, "echo something >/mnt/test/file")
    # A snapshot of another moment under the same name.
    rio.machine.save("ready")
    with pytest.raises(InfraError, match="restored memory is not that of the snapshot"):
        rio.ready(check=True)
    rio.discard()


def test_after_recovery_the_machine_goes_on(rio: Guest) -> None:
    shell(rio, "echo first >/mnt/test/file")
    crash(rio)
    rio.machine.console.clear()
    # What stage 0 has read fills its memory.
    shell(rio, "find /usr /boot -type f -exec cat {} + >/dev/null")
    boot_production(rio.machine)
    console = rio.machine.console.text()
    assert b"not found" not in console
    # Stage 0 has left the file system as after an unmount.
    assert b"mounting unchecked fs" not in console
    assert shell(rio, "cat /mnt/test/file; echo second >>/mnt/test/file") == b"first\n"
    crash(rio)
    assert shell(rio, "cat /mnt/test/file") == b"first\nsecond\n"


def immutable_flag(guest: Guest, name: str) -> int:
    """Return the address in RAM of the byte of a file's inode that has the flag immutable."""
    said = shell(guest, f"debugfs -R 'imap {name}' /dev/vdb").decode()
    block, offset = re.findall(r"block (\d+), offset 0x([0-9a-f]+)", said)[0]
    with registry.mapped(guest.machine.ram_path()) as memory:
        listed = registry.listed(memory, Layout(guest.machine.config.memory))
    page = next(page for page in listed if page.state & registry.METADATA and page.index == int(block))
    # i_flags of struct ext4_inode; EXT4_IMMUTABLE_FL is 0x10.
    return page.address + int(offset, 16) + 0x20


def test_what_recovery_cannot_write_keeps_production_from_starting(rio: Guest) -> None:
    """A file that became immutable behind the kernel's back refuses its data; a second try restores it."""
    shell(rio, "echo only in memory >/mnt/test/file")
    flag = immutable_flag(rio, "/file")
    rio.machine.pause()
    with registry.mapped(rio.machine.ram_path()) as memory:
        memory[flag] ^= 0x10
    reset(rio, paused=True)
    report = read_recovery(rio)
    assert report.data.failed == 1 and "1 pages of files" in report.incomplete
    assert b"incomplete" in rio.machine.console.text()
    begin = time.monotonic()
    with pytest.raises(BootError, match="recovery is incomplete"):
        boot_production(rio.machine)
    assert time.monotonic() - begin < 30
    # The registry stays valid until the cause is removed; metadata is that of the disk by now.
    shell(rio, "chattr -i /mnt/test/file; sync")
    reset(rio)
    assert read_recovery(rio).complete
    rio.machine.console.clear()
    boot_production(rio.machine)
    assert shell(rio, "cat /mnt/test/file") == b"only in memory\n"


def test_a_recovered_registry_is_not_recovered_again(rio: Guest) -> None:
    shell(rio, "echo old >/mnt/test/file")
    crash(rio)
    shell(rio, "echo new >/mnt/test/file; sync")
    reset(rio)
    assert read_recovery(rio).registry == "cold"
    assert shell(rio, "cat /mnt/test/file") == b"new\n"


def test_a_damaged_header_leads_to_a_cold_start_and_says_so(rio: Guest) -> None:
    shell(rio, "echo precious >/mnt/test/file")
    rio.machine.pause()
    start = Layout(rio.machine.config.memory).registry_start
    with registry.mapped(rio.machine.ram_path()) as memory:
        for copy in (0, 1):
            memory[start + copy * 2048 + 40] ^= 0x10
    reset(rio, paused=True)
    assert read_recovery(rio).registry == "damaged"
    assert rio.machine.run(["/bin/cat", "/mnt/test/file"]).status != 0
    line = next(x for x in rio.machine.console.text().splitlines() if b"is damaged" in x)
    assert b"wrong checksum" in line and b"cold start" in line
    with pytest.raises(BootError, match="recovery is incomplete"):
        boot_production(rio.machine)


@pytest.mark.extended
def test_what_is_in_memory_survives_kexec(rio: Guest) -> None:
    """A kernel that starts another one goes through no recovery, so it writes all first."""
    source = CHECKOUT / "harness/guest/stage0-boot/stage0-boot.c"
    rio.machine.write_file("/run/kexec", compiled(rio, source, "-O1 -D_GNU_SOURCE"))
    shell(rio, "chmod 755 /run/kexec; echo precious >/mnt/test/precious")
    rio.machine.console.clear()
    rio.machine.spawn(["/bin/sh", "-c", 'exec /run/kexec /boot/bzImage "$(cat /proc/cmdline)"'])
    ready = b"riobed: production ready"
    assert wait_until(rio.machine, lambda: ready in rio.machine.console.text(), 240)
    assert shell(rio, "cat /mnt/test/precious") == b"precious\n"
