# SPDX-License-Identifier: Apache-2.0
"""With save_memory, old memory goes to the swap disk before anything else is written."""

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from riobed.guest.assembly import GuestSetup
from riobed.guest.boot import boot_production, wait_until
from riobed.guest.guest import Guest
from riobed.guest.memory import registry
from riobed.guest.memory.layout import Layout
from riobed.guest.settings.modes import cache_mode
from riobed.trial.recovery.recover import read_recovery

from .conftest import crash, opened, panicked, reset, shell

HASHES = "cd /mnt/test && find . -type f | sort | xargs sha256sum"


@pytest.fixture(scope="module")
def saving(setup: GuestSetup) -> Iterator[Guest]:
    """A guest in mode rio with a swap disk."""
    machine = setup.machine.model_copy(update={"save_memory": True})
    with opened(replace(setup, machine=machine), cache_mode("rio"), "test-saving") as guest:
        yield guest


def fill(guest: Guest) -> bytes:
    """A few MiB that are in memory only; their hashes."""
    guest.ready()
    script = "cd /mnt/test && for n in 1 2 3 4 5 6 7 8; do head -c 700001 /dev/urandom >f$n; done"
    shell(guest, script)
    return shell(guest, HASHES)


def cut_recovery_short(guest: Guest, moment: float) -> None:
    """Let the guest panic, and stop it that long after stage 0 has begun."""
    guest.machine.console.clear()
    panicked(guest)
    guest.machine.console.clear()
    guest.machine.reset()
    assert wait_until(guest.machine, lambda: b"riobed: stage 0" in guest.machine.console.text(), 60)
    time.sleep(moment)
    guest.machine.pause()


def test_memory_is_saved_and_the_report_says_so(saving: Guest) -> None:
    hashes = fill(saving)
    assert b"/dev/vdc" in shell(saving, "cat /proc/swaps")
    assert shell(saving, "ls /workload")
    crash(saving)
    report = read_recovery(saving)
    assert (report.registry, report.source) == ("recovered", "memory")
    dirty = report.entries.dirty_data + report.entries.dirty_metadata
    assert report.saved and report.saved.error is None and report.saved.pages > dirty > 1000
    assert shell(saving, HASHES) == hashes
    # The save was ended with the registry: nothing is recovered once more.
    saving.machine.pause()
    reset(saving, paused=True)
    assert (read_recovery(saving).registry, read_recovery(saving).source) == ("cold", "memory")
    # And the disk is made swap again.
    saving.machine.console.clear()
    boot_production(saving.machine)
    assert b"/dev/vdc" in shell(saving, "cat /proc/swaps")
    assert shell(saving, HASHES) == hashes


@pytest.mark.extended
@pytest.mark.parametrize("moment", [0.0, 0.1, 0.3, 0.6])
def test_a_recovery_cut_short_is_done_again(saving: Guest, moment: float) -> None:
    hashes = fill(saving)
    cut_recovery_short(saving, moment)
    reset(saving, paused=True)
    assert read_recovery(saving).mount_error == 0
    assert shell(saving, HASHES) == hashes


@pytest.mark.extended
@pytest.mark.parametrize("moment", [0.1, 0.3, 0.6, 1.0])
def test_memory_lost_in_the_middle_of_a_recovery(saving: Guest, moment: float) -> None:
    """All comes from the save, if it was complete, and else nothing was written yet."""
    hashes = fill(saving)
    cut_recovery_short(saving, moment)
    layout = Layout(saving.machine.config.memory)
    start, end = layout.registry_start, layout.registry_start + layout.registry_size
    with registry.mapped(saving.machine.ram_path()) as memory:
        done = b"riobed: stage 0 ready" in saving.machine.console.text()
        memory[start:end] = bytes(end - start)
    reset(saving, paused=True)
    report = read_recovery(saving)
    if report.source == "save" or done:
        assert shell(saving, HASHES) == hashes
    else:
        assert report.registry == "cold" and report.e2fsck_status in (0, 1)
        assert saving.machine.run(["/bin/ls", "/mnt/test/f1"]).status != 0 or (
            shell(saving, HASHES) == hashes  # the save had just been ended
        )
