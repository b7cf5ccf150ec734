# SPDX-License-Identifier: Apache-2.0
"""One run of a bench in one guest: the work, what it leaves to the disk, and whether its output is right."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from riobed_results.store import DiskCounts

from riobed.bench.before import Steps, prepare
from riobed.bench.clocks import check_clocks
from riobed.bench.judge import judge, rehearse
from riobed.bench.plan import PlannedRun
from riobed.guest import Guest, Throttle
from riobed.measure import disk_time, flush_to_disk, full_speed, measure, slow_down

_NOTHING = Steps()


def make_run(
    planned: PlannedRun, guest: Guest, disks: Mapping[str, Throttle], before: Steps = _NOTHING
) -> dict[str, Any]:
    """Do the work once, wait until the disk has everything and let the workload check what is there.

    `disks` are the limits of slow ones by serial number, `before` is done before the work. Returns columns of
    the run's row. InfraError if that fails or clocks differ.
    """
    if planned.rehearsed and (wrong := rehearse(guest, planned.seed)):
        return {"outcome": "wrong", "detail": wrong}
    guest.ready()
    prepare(guest, before)
    slow_down(guest, disks)
    found = measure(guest, planned.seed)
    if planned.kind == "time":
        check_clocks(found)
    flushed = flush_to_disk(guest, found)
    of_disks = disk_time(guest) if disks else None
    if disks:
        full_speed(guest)
    if wrong := judge(guest, planned.seed):
        return {"outcome": "wrong", "detail": wrong}
    kernel = {name: count - found.before.get(name, 0) for name, count in found.after.items()}
    return {
        "outcome": "measured",
        "work": found.work,
        "operations": guest.workload.measure_operations,
        "written_bytes": guest.workload.measure_bytes,
        "seconds": found.seconds,
        "parts": found.parts,
        "idle_s": found.idle_s,
        "host_s": found.host_s,
        "delayed_s": found.delayed_s,
        "events": kernel | found.events,
        "part_events": found.part_events,
        "disk_during": DiskCounts(**asdict(found.disk)),
        "disk_after": DiskCounts(**asdict(flushed.disk)),
        "clean_s": flushed.seconds,
        "disk_model_s": of_disks and of_disks.model_s,
        "disk_taken_s": of_disks and of_disks.taken_s,
    }
