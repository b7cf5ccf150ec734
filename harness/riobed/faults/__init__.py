# SPDX-License-Identifier: Apache-2.0
"""Faults: draws faults from a seed, and writes the injector's commands for them."""

from __future__ import annotations

import random
from collections.abc import Iterable

from riobed.errors import UsageError
from riobed.faults.base import Fault, FaultClass
from riobed.faults.classes.allocation import ALLOCATION
from riobed.faults.classes.controls import NONE, PANIC, PLANTED, Kind, PlantedParameters
from riobed.faults.classes.copy_overrun import COPY_OVERRUN
from riobed.faults.classes.data_flips import KERNEL_HEAP, KERNEL_STACK
from riobed.faults.classes.kernel_text import KERNEL_TEXT
from riobed.faults.classes.rules import RULES
from riobed.faults.classes.synchronization import SYNCHRONIZATION
from riobed.faults.classes.text import text_class
from riobed.faults.sites.catalogue import Catalogue
from riobed.faults.sites.site_filter import SiteFilter
from riobed.faults.sites.vmlinux import Vmlinux
from riobed.products import KernelPart, cache_dir

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
        PANIC,
        PLANTED,
    )
}


def commands(faults: Iterable[Fault], when: str = "") -> str:
    """Return the batch for /dev/riobed-inject: a line per fault, then `go`. Write it with one open file.

    The faults take effect at once, or `when` is `nmi`, or `after MS`.
    """
    lines = [CLASSES[fault.fault_class].command(fault) for fault in faults]
    return "".join(f"{line}\n" for line in [*lines, f"go {when}".strip()])


def catalogue_of(kernel: KernelPart) -> Catalogue:
    """The fault sites of a kernel that is built here, kept in the cache; see Catalogue.open."""
    return Catalogue.open(kernel.vmlinux, cache_dir(), RULES, kernel.build_id)


def function_address(kernel: KernelPart, name: str) -> int:
    """Return the address of a kernel's function; UsageError if it has none of that name."""
    address = Vmlinux(kernel.vmlinux).address_of(name)
    if address is None:
        raise UsageError(f"kernel build {kernel.build_id[:12]} has no {name}()")
    return address


def check_classes(catalogue: Catalogue, classes: Iterable[FaultClass], count: int) -> None:
    """Raise UsageError unless `count` faults of each class can be drawn, and injected into that kernel."""
    for fault_class in classes:
        if fault_class.needs and not catalogue.has(fault_class.needs):
            raise UsageError(
                f"{fault_class.name}: kernel build {catalogue.build_id[:12]} has no {fault_class.needs}(); "
                "add that patch of guest-kernel-patches to its series, or leave the class out"
            )
        fault_class.draw(catalogue, random.Random(0), count)


__all__ = [
    "CLASSES",
    "Catalogue",
    "Fault",
    "FaultClass",
    "Kind",
    "PlantedParameters",
    "SiteFilter",
    "catalogue_of",
    "check_classes",
    "commands",
]
