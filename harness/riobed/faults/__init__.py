# SPDX-License-Identifier: Apache-2.0
"""Faults: what can be injected, drawn from a seed, and as commands of the injector module."""

from __future__ import annotations

from collections.abc import Iterable

from riobed.faults.base import Fault, FaultClass
from riobed.faults.catalogue import Catalogue
from riobed.faults.controls import NONE, PLANTED
from riobed.faults.copy_overrun import COPY_OVERRUN
from riobed.faults.delete_branch import DELETE_BRANCH
from riobed.faults.text import KERNEL_TEXT

CLASSES: dict[str, FaultClass] = {
    c.name: c for c in (KERNEL_TEXT, DELETE_BRANCH, COPY_OVERRUN, NONE, PLANTED)
}


def commands(faults: Iterable[Fault]) -> str:
    """The whole batch for /dev/riobed-inject, one line a fault and `go`; write it with one open file."""
    return "".join(f"{CLASSES[fault.fault_class].command(fault)}\n" for fault in faults) + "go\n"


__all__ = ["CLASSES", "Catalogue", "Fault", "FaultClass", "commands"]
