# SPDX-License-Identifier: Apache-2.0
"""What is only in memory survives a crash in mode rio, and nothing else is made up."""

import hashlib
import random
from collections.abc import Callable

import pytest
from riobed.errors import InfraError
from riobed.guest import registry
from riobed.guest.boot import boot_production, wait_stage0, wait_until
from riobed.guest.guest import Guest
from riobed.guest.layout import Layout
from riobed.trial.recover import read_recovery

_HASHES = "cd /mnt/test && find . -type f ! -path './lost+found*' -exec sha256sum {} + | sort -k 2"
_NAMES = (
    "cd /mnt/test && find . ! -path './lost+found*' -printf '%p %y %s %l\\n' | sed 's/ d [0-9]*/ d/' | sort"
)


def shell(guest: Guest, script: str, stdin: bytes = b"") -> bytes:
    result = guest.machine.run(["/bin/sh", "-ec", script], stdin=stdin)
    assert result.status == 0, result.stderr
    return result.stdout


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


def crash(guest: Guest) -> None:
    guest.machine.console.clear()
    guest.machine.spawn(["/bin/sh", "-c", "echo c >/proc/sysrq-trigger"])
    assert wait_until(guest.machine, lambda: b"end Kernel panic" in guest.machine.console.text(), 30)
    guest.machine.console.clear()
    guest.machine.reset()
    wait_stage0(guest.machine)


def test_a_known_tree_comes_back_byte_for_byte(guest_in: Callable[[str], Guest]) -> None:
    guest = guest_in("rio")
    guest.ready()
    files = make_tree(guest)
    names = shell(guest, _NAMES)
    writes = int(shell(guest, "awk '$3 == \"vdb\" {print $10}' /proc/diskstats"))
    crash(guest)
    report = read_recovery(guest)
    assert report.registry == "recovered" and report.mount_error == 0
    assert report.entries.rejected == report.entries.fallback == 0
    assert writes < 100, "the tree had been written to disk before the crash: nothing was tested"
    assert shell(guest, _NAMES) == names
    hashes = dict(reversed(line.split(maxsplit=1)) for line in shell(guest, _HASHES).decode().splitlines())
    for name, data in files.items():
        assert hashes[name] == hashlib.sha256(data).hexdigest(), name


def test_restored_memory_is_compared_with_the_snapshots(guest_in: Callable[[str], Guest]) -> None:
    guest = guest_in("rio")
    guest.ready()
    for _ in range(2):
        shell(guest, "echo something >/mnt/test/file")
        guest.ready(check=True)
    shell(guest, "echo something >/mnt/test/file")
    # A snapshot of another moment under the same name.
    guest.machine.save("ready")
    with pytest.raises(InfraError, match="restored memory is not that of the snapshot"):
        guest.ready(check=True)
    guest.discard()


def test_after_recovery_the_machine_goes_on(guest_in: Callable[[str], Guest]) -> None:
    guest = guest_in("rio")
    guest.ready()
    shell(guest, "echo first >/mnt/test/file")
    crash(guest)
    guest.machine.console.clear()
    boot_production(guest.machine)
    assert shell(guest, "cat /mnt/test/file; echo second >>/mnt/test/file") == b"first\n"
    crash(guest)
    assert shell(guest, "cat /mnt/test/file") == b"first\nsecond\n"


def test_a_recovered_registry_is_not_recovered_again(guest_in: Callable[[str], Guest]) -> None:
    guest = guest_in("rio")
    guest.ready()
    shell(guest, "echo old >/mnt/test/file")
    crash(guest)
    shell(guest, "echo new >/mnt/test/file; sync")
    guest.machine.console.clear()
    guest.machine.reset()
    wait_stage0(guest.machine)
    assert read_recovery(guest).registry == "cold"
    assert shell(guest, "cat /mnt/test/file") == b"new\n"


def test_a_damaged_header_leads_to_a_cold_start_and_says_so(guest_in: Callable[[str], Guest]) -> None:
    guest = guest_in("rio")
    layout = Layout(guest.machine.config.memory)
    for copies, verdict in (((0,), "recovered"), ((1,), "recovered"), ((0, 1), "damaged")):
        guest.ready()
        shell(guest, "echo precious >/mnt/test/file")
        guest.machine.pause()
        with registry.mapped(guest.machine.ram_path()) as memory:
            for copy in copies:
                memory[layout.registry_start + copy * 2048 + 40] ^= 0x10
        guest.machine.console.clear()
        guest.machine.reset()
        guest.machine.resume()
        wait_stage0(guest.machine)
        assert read_recovery(guest).registry == verdict
        found = guest.machine.run(["/bin/cat", "/mnt/test/file"])
        if verdict == "recovered":
            assert found.stdout == b"precious\n"
        else:
            assert found.status != 0
            line = next(x for x in guest.machine.console.text().splitlines() if b"is damaged" in x)
            assert b"wrong checksum" in line and b"cold start" in line
