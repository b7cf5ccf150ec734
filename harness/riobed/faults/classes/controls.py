# SPDX-License-Identifier: Apache-2.0
"""The controls: classes that inject nothing into the kernel; the trial ends with a reset.

`none`, the negative control, resets at the drawn moment. `panic` is a negative control, too: the kernel is
told to panic first (riobed.trial.observe.panicking). For `planted`, the positive control, the harness first
changes a bit of what the file system keeps (riobed.trial.control.plant).
"""

from __future__ import annotations

import random
from typing import Annotated, Literal

from pydantic import Field

from riobed.faults.base import Fault, FaultClass
from riobed.faults.parameters import Parameters
from riobed.faults.sites.catalogue import Catalogue

Kind = Literal[
    "stray",
    "entry",
    "block",
    "written",
    "directory",
    "inode",
    "bitmap",
    "xattr",
    "journal",
    "writecache",
    "canary",
]


class PlantedParameters(Parameters):
    """What `planted` changes: these kinds in turn, as far as the cache mode has them.

    The kinds of the default are found by every check that compares the content of files.
    """

    kinds: Annotated[tuple[Kind, ...], Field(min_length=1)] = ("stray", "entry", "block", "written")


def draw(
    catalogue: Catalogue, rng: random.Random, count: int, parameters: Parameters | None = None
) -> list[Fault]:
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
    summary="no fault in the kernel: one bit of a file system is changed, which the oracles must find",
    draw=draw,
    command=command,
    parameters=PlantedParameters(),
)
