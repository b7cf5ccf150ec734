# SPDX-License-Identifier: Apache-2.0
"""Faults: what can be injected, drawn from a seed, and as commands of the injector module."""

from __future__ import annotations

import random
from collections.abc import Iterable

from riobed.faults.allocation import ALLOCATION
from riobed.faults.base import Fault, FaultClass
from riobed.faults.catalogue import Catalogue
from riobed.faults.controls import NONE, PLANTED
from riobed.faults.copy_overrun import COPY_OVERRUN
from riobed.faults.kernel_heap import KERNEL_HEAP
from riobed.faults.kernel_stack import KERNEL_STACK
from riobed.faults.kernel_text import KERNEL_TEXT
from riobed.faults.narrowing import Narrowing
from riobed.faults.rules import RULES
from riobed.faults.synchronization import SYNCHRONIZATION
from riobed.faults.text import text_class

CLASSES: dict[str, FaultClass] = {
    c.name: c
    for c in (
        KERNEL_TEXT,
        KERNEL_HEAP,
        KERNEL_STACK,
        *(text_class(rule) for rule in RULES.values()),
        ALLOCATION,
        COPY_OVERRUN,
        SYNCHRONIZATION,
        NONE,
        PLANTED,
    )
}


def commands(faults: Iterable[Fault]) -> str:
    """The whole batch for /dev/riobed-inject, one line a fault and `go`; write it with one open file."""
    return "".join(f"{CLASSES[fault.fault_class].command(fault)}\n" for fault in faults) + "go\n"


def check_classes(catalogue: Catalogue, classes: Iterable[FaultClass], count: int) -> None:
    """UsageError unless `count` faults of each class can be drawn from the catalogue."""
    for fault_class in classes:
        fault_class.draw(catalogue, random.Random(0), count)


__all__ = ["CLASSES", "Catalogue", "Fault", "FaultClass", "Narrowing", "check_classes", "commands"]
