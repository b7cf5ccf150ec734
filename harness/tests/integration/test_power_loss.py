# SPDX-License-Identifier: Apache-2.0
"""After a loss of power only the disk is left."""

import random

from riobed.guest.boot import boot_production, wait_stage0
from riobed.guest.guest import Guest
from riobed.guest.memory.registry import mapped
from riobed.trial.recovery.recover import read_recovery
from riobed.vm.qemu.libvirt import LibvirtMachine

from .conftest import crash, shell


def test_memory_is_gone_and_the_disk_is_not(rio: Guest) -> None:
    on_disk, cached = (random.Random(seed).randbytes(20_000) for seed in (1, 2))
    shell(rio, "cat >/mnt/test/old", on_disk)
    # Recovery writes back what was in memory, and mode rio writes for no other reason.
    crash(rio)
    boot_production(rio.machine)
    shell(rio, "cat >/mnt/test/new; sync", cached)
    page = cached[4096:8192]
    with mapped(rio.machine.ram_path()) as memory:
        assert memory.find(page) >= 0
    rio.machine.console.clear()
    rio.machine.power_loss(1996)
    # Stage 0 waits for the host's word if the agent's channel is open.
    assert isinstance(rio.machine, LibvirtMachine)
    assert ", host off," in rio.machine._ask("info qtree").partition('id "channel0"')[2]
    wait_stage0(rio.machine)
    with mapped(rio.machine.ram_path()) as memory:
        assert memory.find(page) == -1
    report = read_recovery(rio)
    assert b": cold start" in rio.machine.console.text()
    assert (report.matched_by, report.mount_error, report.restored_pages) == (None, 0, 0)
    assert shell(rio, "cat /mnt/test/old") == on_disk
    shell(rio, "test ! -e /mnt/test/new")
    boot_production(rio.machine)
    assert shell(rio, "cat /mnt/test/old") == on_disk
