# SPDX-License-Identifier: Apache-2.0
"""Measure: does a workload's fixed piece of work once in a guest, timed and counted; orders such runs."""

from riobed.measure.disks import UNDER_TEST, DiskTime, can_be_slow, disk_time, full_speed, slow_down
from riobed.measure.flush import Flushed, flush_to_disk
from riobed.measure.rounds import Kind, guests, order, workload_seed
from riobed.measure.work import Measurement, measure

__all__ = [
    "UNDER_TEST",
    "DiskTime",
    "Flushed",
    "Kind",
    "Measurement",
    "can_be_slow",
    "disk_time",
    "flush_to_disk",
    "full_speed",
    "guests",
    "measure",
    "order",
    "slow_down",
    "workload_seed",
]
