# SPDX-License-Identifier: Apache-2.0
"""The oracle says nothing when nothing is lost, and something when something is."""

import time

import pytest
from riobed.crash.formats import Crash
from riobed.guest import registry
from riobed.guest.guest import Guest
from riobed.guest.layout import Layout
from riobed.plan.spec import CampaignSpec
from riobed.trial.progress import Progress
from riobed.trial.record import TrialRecord
from riobed.trial.recover import recover
from riobed.trial.trial import start_workload, warm_up
from riobed.trial.verdict import decide
from riobed.trial.watch import Observation
from riobed_results.store.recovery_report import Mismatch

from .conftest import GuestIn, record_of, trial


def no_fault_trial(guest: Guest, spec: CampaignSpec, number: int) -> TrialRecord:
    return trial(guest, spec, f"no-fault/{number}", position=number, warmup_s=0.3 + number % 7 * 0.17)


def test_rio_loses_nothing_in_20_resets(guest_in: GuestIn, spec: CampaignSpec) -> None:
    restored = 0
    for number in range(20):
        record = no_fault_trial(guest_in("rio"), spec, number)
        assert record.check is not None and record.recovery is not None
        assert record.check.differences == [] and record.check.equal, number
        assert record.recovery.entries.rejected == 0
        assert record.progress.done > 0
        restored += record.recovery.data.pages
    assert restored > 20 * 100, "hardly anything came from memory: nothing was tested"


def test_write_through_loses_nothing(guest_in: GuestIn, spec: CampaignSpec) -> None:
    for number in range(3):
        record = no_fault_trial(guest_in("write-through"), spec, number)
        assert record.check is not None and record.check.equal


def test_delayed_loses_recent_data(guest_in: GuestIn, spec: CampaignSpec) -> None:
    record = no_fault_trial(guest_in("delayed"), spec, 1)
    assert record.verdict is not None and record.verdict.corruption == "unclassified"
    assert record.check is not None and record.check.difference_count


@pytest.mark.parametrize("number", range(3))
def test_a_planted_byte_in_a_cached_page_is_found(rio: Guest, number: int) -> None:
    guest, record = rio, record_of(f"planted/{number}", position=number)
    run_steps(guest, record, 400)
    guest.machine.pause()
    with registry.mapped(guest.machine.ram_path()) as memory:
        listed = registry.listed(memory, Layout(guest.machine.config.memory))
        pages = [page for page in listed if page.state == registry.DIRTY and page.bytes > 64]
        page = pages[len(pages) * (number + 1) // 4]
        memory[page.address + 33] ^= 0x04
    # recover() resets; the guest must run again to see it.
    guest.machine.console.clear()
    guest.machine.reset()
    guest.machine.resume()
    record.observation = Observation(Crash("reset", "by the test"), 0.0, "running", restarted=True)
    recover(guest, record)
    assert record.check is not None and not record.check.equal
    kinds = {difference.kind for difference in record.check.differences}
    assert record.check.difference_count == 1 and kinds <= {"content", "twin"}
    assert record.check.differences[0].offset == page.index * 4096 + 33
    # Nobody who may write did it, and the checksums say so.
    assert record.recovery is not None and record.recovery.checksum_mismatches == 1
    assert record.recovery.checksums is not None
    planted = Mismatch(ino=page.ino, index=page.index, dirty=True, metadata=False)
    assert record.recovery.checksums.mismatches == [planted]
    assert decide(record.observation, record.recovery, record.check).corruption == "direct"


def test_a_wrong_write_through_the_file_system_is_indirect(rio: Guest) -> None:
    record = record_of("indirect")
    warm_up(rio, record, start_workload(rio, record))
    # A twin: nobody else writes it, and it is not emptied by the step in flight.
    write = "set -- /mnt/test/workload/twins/*; printf X | dd of=$1 conv=notrunc"
    assert rio.machine.run(["/bin/sh", "-c", write]).status == 0
    record.observation = Observation(Crash("reset", "by the test"), 0.0, "running")
    recover(rio, record)
    assert record.check is not None and not record.check.equal
    assert decide(record.observation, record.recovery, record.check).corruption == "indirect"


def test_no_driver_of_the_guest_has_a_part_in_telling_the_steps(rio: Guest) -> None:
    """A fault in one lost records once, and steps that nobody had heard of looked like corruption."""
    record = record_of("no driver")
    warm_up(rio, record, start_workload(rio, record))
    files = rio.machine.run(["/bin/sh", "-c", "ls -l /proc/$(pidof memtest)/fd"]).stdout
    assert b"/mnt/test/workload" in files and b"/dev/v" not in files
    before = record.progress.done
    deadline = time.monotonic() + 60
    while record.progress.done < before + 100:
        assert time.monotonic() < deadline
        record.progress.feed(rio.machine.progress.new())
    assert record.progress.damaged == 0


def run_steps(guest: Guest, record: TrialRecord, steps: int) -> None:
    """memTest to its end: of the step in flight it could not say what is right."""
    record.progress = Progress(record.planned.workload_seed)
    *shell, line = guest.command("start", seed=record.planned.workload_seed)
    guest.machine.spawn([*shell, f"{line} --steps {steps}"])
    deadline = time.monotonic() + 60
    while not record.progress.finished:
        assert time.monotonic() < deadline and not record.progress.error, record.progress
        record.progress.feed(guest.machine.progress.new())
        time.sleep(0.02)
    assert record.progress.done == steps
