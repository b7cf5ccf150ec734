# SPDX-License-Identifier: Apache-2.0
"""Hear what the workload tells, and when by the clock of the trial."""

from riobed.trial.guest_time import guest_time
from riobed.trial.progress import Progress, Streams
from riobed.vm import Machine


def hear(machine: Machine, progress: Progress | Streams) -> bool:
    """Take in what the workload has told since the last call; return whether a valid record was in it."""
    told = machine.progress.new()
    return bool(told) and progress.feed(told, guest_time(machine))
