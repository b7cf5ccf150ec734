# SPDX-License-Identifier: Apache-2.0
"""Each file system as a mode of one's own: nothing is lost by a reset, and what is planted is found."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from riobed.guest.boot import wait_stage0
from riobed.guest.guest import Guest
from riobed.guest.settings.config import MachineSpec, WorkloadSpec
from riobed.guest.settings.filesystems import FILE_SYSTEMS
from riobed.guest.settings.modes import CacheMode, cache_mode
from riobed.guest.setup import check_mode, guest_setup
from riobed.plan.spec import CampaignSpec
from riobed.trial.record import TrialRecord
from riobed.trial.recovery.recover import read_recovery

from .conftest import MEMTEST, extended, opened, shell, trial

LIMIT = 2_000_000


def mode_of(name: str) -> CacheMode:
    return CacheMode.model_validate(
        {
            "summary": "of a test",
            "filesystem": name,
            "kernel": {"config": ["filesystems"]} if FILE_SYSTEMS[name].config else None,
            "sync_writes": True,
            "cache": "writeback",
            "throttle": {"bytes_per_s": 100 * LIMIT},
            "devices": [{"name": "slow", "size_mib": 16, "throttle": {"write_bytes_per_s": LIMIT}}],
        }
    )


@pytest.fixture(params=[name if name == "ext4" else extended(name) for name in FILE_SYSTEMS])
def guest(request: pytest.FixtureRequest) -> Iterator[Guest]:
    mode = mode_of(request.param)
    setup = guest_setup(MachineSpec(disk_mib=300), None, WorkloadSpec(path=MEMTEST))
    check_mode(request.param, mode, setup)
    with opened(setup, mode, f"fs-{request.param}") as guest:
        yield guest


def trial_here(
    guest: Guest, spec: CampaignSpec, fault_class: str, number: int, change: str = "written"
) -> TrialRecord:
    planned = {
        "change": change,
        "position": number,
        "mode": "mine",
        "fault_class": fault_class,
        "warmup_s": 0.5 + number * 0.17,
    }
    record = trial(guest, spec, f"fs/{number}", **planned)
    assert record.recovery is not None and record.recovery.mount_error == 0
    assert record.recovery.file_system == guest.mode.filesystem and not record.recovery.errors_left
    first = record.recovery.first_mount
    assert first is None or first.error == 0
    return record


def test_a_file_system_of_ones_own(guest: Guest, spec: CampaignSpec) -> None:
    survives = guest.mode.file_system.survives
    for number in range(2):
        record = trial_here(guest, spec, "none", number)
        assert record.progress.done > 0 and record.check is not None
        assert record.check.equal == survives, record.check
    for number in range(2):
        change = "block" if number and guest.mode.file_system.on_disk else "written"
        record = trial_here(guest, spec, "planted", number, change)
        assert record.check is not None and not record.check.equal
    guest.ready()
    write = "time -p dd if=/dev/zero of=/dev/disk/by-id/virtio-slow bs=1M count=8 oflag=direct"
    result = guest.machine.run(["/bin/bash", "-c", write], timeout=120)
    assert result.status == 0, result.stderr
    seconds = float(result.stderr.decode().partition("real ")[2].split()[0])
    assert seconds > 0.5 * 8 * 2**20 / LIMIT


@pytest.mark.extended
@pytest.mark.parametrize("restart", ["reset", "power"])
@pytest.mark.parametrize("name", ["delayed", "delayed-xfs", "delayed-btrfs"])
def test_what_was_synced_is_there_and_what_was_not_synced_is_missed(
    spec: CampaignSpec, name: str, restart: str
) -> None:
    setup = guest_setup(MachineSpec(disk_mib=300), None, WorkloadSpec(path=MEMTEST))
    for bug in ("none", "missing-fsync"):
        options: dict[str, str | int] = {"fsync_every": 5, "bug": bug}
        with opened(replace(setup, options=options), cache_mode(name), f"synced-{bug}") as guest:
            planned = {"fault_class": "none", "warmup_s": 1.5, "restart": restart}
            record = trial(guest, spec, f"synced/{name}", **planned)
        assert record.promise == "synced" and record.check is not None
        assert bool(record.broken) == (bug != "none"), record.check


@pytest.mark.extended
def test_a_hardened_kernel_restores_its_cache(spec: CampaignSpec) -> None:
    mode = cache_mode("rio-protected-hardened")
    with opened(guest_setup(MachineSpec(), None, WorkloadSpec(path=MEMTEST)), mode, "hardened") as guest:
        record = trial_here(guest, spec, "none", 0)
    assert record.progress.done > 0 and record.check is not None and record.check.equal


# XFS: the log's first block in the file system is (allocation group, block there) as one number. All of the
# log becomes bytes that are no log record.
SPOIL_LOG = """set -e
xfs() { xfs_db -r -c 'sb 0' -c "p $1" /dev/vdb | sed 's/.*= //'; }
sync; cd /; umount /mnt/test
start=$(xfs logstart); bits=$(xfs agblklog)
block=$(((start >> bits) * $(xfs agblocks) + (start & ((1 << bits) - 1))))
head -c $(($(xfs logblocks) * 4096)) /dev/zero | tr '\\0' 'Z' |
    dd of=/dev/vdb bs=4096 seek=$block iflag=fullblock conv=notrunc,fsync status=none
"""


@pytest.mark.extended
def test_a_log_that_cannot_be_replayed_is_told_although_its_repair_works() -> None:
    """All was on the disk when the log was spoiled, so nothing is lost, and only the report tells of it."""
    setup = guest_setup(MachineSpec(disk_mib=320), None, WorkloadSpec(path=MEMTEST))
    with opened(setup, cache_mode("delayed-xfs"), "spoiled-log") as guest:
        guest.ready()
        shell(guest, "echo kept >/mnt/test/file")
        shell(guest, SPOIL_LOG)
        guest.machine.console.clear()
        guest.machine.power_loss(1)
        wait_stage0(guest.machine)
        report = read_recovery(guest)
        console = guest.machine.console.text()
        assert shell(guest, "cat /mnt/test/file") == b"kept\n"
    first = report.first_mount
    assert first is not None and first.error and (first.without_log, first.repair_status) == (True, 0)
    assert (report.file_system, report.mount_error, report.e2fsck_status) == ("xfs", 0, -1)
    assert report.log_dropped and report.complete and not report.errors_left
    assert b"its log cannot be replayed" in console and b"xfs_repair -L: status 0" in console
