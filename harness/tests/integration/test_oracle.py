# SPDX-License-Identifier: Apache-2.0
"""The oracle says nothing when nothing is lost, and something when something is."""

import os
import time

from riobed.crash import formats
from riobed.guest.boot import wait_until
from riobed.guest.guest import Guest
from riobed.plan.spec import CampaignSpec
from riobed.trial.record import TrialRecord
from riobed.trial.recovery.recover import recover
from riobed.trial.trial import start_workload, warm_up

from .conftest import GuestIn, record_of, shell, trial

# Of seven moments after the workload's start.
RESETS = int(os.environ.get("RIOBED_RESETS", "4"))


def no_fault_trial(guest: Guest, spec: CampaignSpec, number: int) -> TrialRecord:
    return trial(guest, spec, f"no-fault/{number}", position=number, warmup_s=0.3 + number % 7 * 0.17)


def test_rio_loses_nothing_in_resets(guest_in: GuestIn, spec: CampaignSpec) -> None:
    restored = 0
    for number in range(RESETS):
        record = no_fault_trial(guest_in("rio"), spec, number)
        assert record.check is not None and record.recovery is not None
        assert record.check.differences == [] and record.check.all_equal, number
        assert record.recovery.entries.rejected == 0
        assert record.progress.done > 0
        restored += record.recovery.data.pages
    assert restored > RESETS * 100, "hardly anything came from memory: nothing was tested"


def test_delayed_loses_recent_data_as_it_may(guest_in: GuestIn, spec: CampaignSpec) -> None:
    record = no_fault_trial(guest_in("delayed"), spec, 1)
    assert record.verdict is not None and record.verdict.corruption == "none"
    assert record.check is not None and record.check.files_lost and record.check.steps_lost


def test_the_load_goes_on_beside_damaged_files(rio: Guest) -> None:
    record = record_of("damaged files")
    warm_up(rio, record, start_workload(rio, record))
    # While it stands still: find gives up if a directory goes that it is in.
    shell(
        rio,
        "kill -STOP $(pidof memtest); find /mnt/test/workload/tree -type f -exec truncate -s +1 {} +; "
        "kill -CONT $(pidof memtest)",
    )
    deadline = time.monotonic() + 240
    while not record.progress.errors or record.progress.done < record.progress.errors[0].step + 500:
        assert time.monotonic() < deadline
        record.progress.feed(rio.machine.progress.new())
    recover(rio, record)
    assert record.check and not record.check.equal and record.check.model_extra
    frozen = {entry["path"]: entry for entry in record.check.model_extra["frozen"]}
    assert frozen.keys() >= {error.path for error in record.progress.errors}
    assert {entry["how"] for entry in frozen.values()} == {"mismatch"}
    assert {entry["found"] for entry in frozen.values()} == {"differs"}


def test_damage_outside_the_folders_of_workloads_is_found(rio: Guest) -> None:
    record = record_of("outside")
    warm_up(rio, record, start_workload(rio, record))
    shell(rio, "cd /mnt/test; chmod 700 .; touch new; touch lost+found/not-judged")
    recover(rio, record)
    assert record.check and record.check.equal and not record.check.all_equal
    found = {(each.path, each.kind) for each in record.check.differences}
    assert found == {("outside/.", "attributes"), ("outside/./new", "extra")}


def test_no_driver_of_the_guest_has_a_part_in_telling_the_steps(rio: Guest) -> None:
    """A fault in one lost records once, and steps that nobody had heard of looked like corruption."""
    record = record_of("no driver")
    warm_up(rio, record, start_workload(rio, record))
    files = rio.machine.run(["/bin/sh", "-c", "ls -l /proc/$(pidof memtest)/fd"]).stdout
    assert b"/mnt/test/workload" in files and b"/dev/v" not in files
    before = record.progress.done
    deadline = time.monotonic() + 240
    while record.progress.done < before + 100:
        assert time.monotonic() < deadline
        record.progress.feed(rio.machine.progress.new())
    assert record.progress.damaged == 0


def test_a_report_that_the_kernel_outlives_is_read_from_its_console(rio: Guest) -> None:
    assert formats.complaints(rio.machine.console.text()) == formats.Complaints(0, None)
    shell(rio, "echo '<2>BUG: Bad page state in process cat  pfn:1b8d0' >/dev/kmsg")
    assert wait_until(rio.machine, lambda: b"pfn:1b8d0" in rio.machine.console.text(), 60)
    assert formats.complaints(rio.machine.console.text()) == formats.Complaints(1, "Bad page state")
