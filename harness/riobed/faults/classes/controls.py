# SPDX-License-Identifier: Apache-2.0
"""The controls: classes that inject nothing into the kernel; the trial ends with a reset.

`none`, the negative control, resets at the drawn moment. `panic` is a negative control, too: the kernel is
told to panic first (riobed.trial.panicking). For `planted`, the positive control, the harness first changes
a file (riobed.trial.planting).
"""

from __future__ import annotations

import random

from riobed.faults.base import Fault, FaultClass
from riobed.faults.sites.catalogue import Catalogue


def draw(catalogue: Catalogue, rng: random.Random, count: int) -> list[Fault]:
    """Return no faults, whatever `count` is."""
    return []


def command(fault: Fault) -> str:
    """Never called: there is no fault of such a class."""
    raise ValueError(f"class {fault.fault_class} has no commands")


NONE = FaultClass(
    name="none",
    category="control",
    summary="no fault: a reset at a random moment",
    draw=draw,
    command=command,
)

PANIC = FaultClass(
    name="panic",
    category="control",
    summary="no fault: a panic at a random moment, by SysRq c or by an NMI",
    draw=draw,
    command=command,
)

PLANTED = FaultClass(
    name="planted",
    category="control",
    summary="no fault in the kernel: one bit of one file is changed, which the oracles must find",
    draw=draw,
    command=command,
)
