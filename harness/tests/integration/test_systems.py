# SPDX-License-Identifier: Apache-2.0
"""The systems of Table 2 write when they promise to: the disk itself is searched for what a program wrote."""

import time
from dataclasses import replace
from pathlib import Path

import pytest
from riobed.guest.guest import Guest
from riobed.guest.settings.config import MachineSpec, WorkloadSpec
from riobed.guest.settings.modes import cache_mode
from riobed.guest.setup import guest_setup
from riobed.measure import measure
from riobed.products import CHECKOUT

from .conftest import extended, opened

MARK = "these words are on the disk"
# dd writes each line at once, and keeps the file open until there are no more.
WORKLOAD = f"""
name: marks
description: One line, written and later closed.
start: "true"
check: "true"
prepare: mkdir -p {{dir}}
measure: >-
  (echo {MARK}; while [ ! -e /run/close ]; do sleep 0.1; done) | dd bs=512 of={{dir}}/file status=none
"""


def on_disk(guest: Guest) -> bool:
    """Direct reads, which leave the file cache alone."""
    look = f"dd if=/dev/vdb bs=1M iflag=direct status=none | grep -a -q '{MARK}'"
    return guest.machine.run(["/bin/bash", "-c", look], timeout=120).status == 0


@pytest.mark.parametrize(("name", "written", "closed"), [
    extended("delayed-no-journal", False, False),
    extended("dirsync", False, False),
    extended("write-through-on-write", True, True),
    extended("write-through-on-close", False, True), ("rio", False, False),
])  # fmt: skip
def test_data_is_permanent_when_the_mode_says(tmp_path: Path, name: str, written: bool, closed: bool) -> None:
    (tmp_path / "workload.yaml").write_text(WORKLOAD)
    # As in a bench, the file system has been read-only since it was made.
    setup = replace(guest_setup(MachineSpec(disk_mib=64), None, WorkloadSpec(path=tmp_path)), settled=True)
    mode = cache_mode(name)
    # To search a disk takes a busy host longer than the kernel waits. After 5 s it writes whatever is dirty
    # if the disk has not written lately (mm/page-writeback.c, wb_over_bg_thresh()), and after 30 s all.
    never = {"vm.dirty_writeback_centisecs": 360000, "vm.dirty_expire_centisecs": 360000}
    mode = mode.model_copy(update={"sysctls": mode.sysctls | never})
    with opened(setup, mode, f"system-{name}") as guest:
        guest.ready()
        pid = guest.machine.spawn(["/bin/sh", "-c", guest.workload.measured(1)[""]])
        guest.machine.run(["/bin/sh", "-c", "while ! grep -q . /mnt/test/workload/file; do sleep 0.1; done"])
        assert on_disk(guest) == written
        guest.machine.run(["/bin/sh", "-c", "echo >/run/close"])
        while guest.machine.status(pid) is None:
            time.sleep(0.1)
        assert on_disk(guest) == closed


@pytest.mark.extended
@pytest.mark.parametrize(("name", "options", "files"), [
    # Sources, their copies, objects and a program; files of all users' tasks; files that are made.
    ("andrew", {"processes": 1, "files": 8, "rounds": 1}, 21), ("sdet", {}, 100), ("postmark", {}, 1556),
])  # fmt: skip
def test_each_file_of_a_workload_is_made_durable_at_close(
    name: str, options: dict[str, int | str], files: int
) -> None:
    """Programs find the library in a root of their own and beside libraries of their own, too."""
    setup = guest_setup(
        MachineSpec(), None, WorkloadSpec(path=CHECKOUT / "workloads" / name, options=options)
    )
    with opened(setup, cache_mode("write-through-on-close"), f"closes-{name}") as guest:
        guest.ready()
        assert measure(guest, 7).disk.flushes >= files
