# SPDX-License-Identifier: Apache-2.0
"""The cost of proving activation: guests in mode `rio` with faults that wait and change nothing."""

import random
from dataclasses import replace

from riobed.cost.variants import Variant, rio
from riobed.faults import CLASSES, Catalogue, SiteFilter, commands

_NEVER = 1_000_000_000  # calls: INJECT_CALLS_MAX in injectors/riobed_inject/parse.h
_PROBES = 20
_WATCHED = 4  # debug registers of a processor
# Unused objects, which nearly all flips hit.
_VICTIM = "insmod /lib/riobed/riobed_victim.ko; echo fill >/sys/kernel/debug/riobed_victim/heap"


def armed(catalogue: Catalogue) -> list[Variant]:
    """Return all variants; the first has the injector module loaded and no batch."""
    return [
        Variant("unarmed", None, rio()),
        Variant("text", "unarmed", rio(), batch=_probes(catalogue)),
        *(
            Variant(name, "unarmed", rio(), batch=f"{command}\ngo\n")
            for name, command in {
                "allocation": f"allocation 0 {_NEVER} 0",
                "copy_overrun": f"copy_overrun 0 {_NEVER} 1",
                "synchronization": f"synchronization 0 {_NEVER}",
            }.items()
        ),
        Variant("victim", "unarmed", rio(), prepare=_VICTIM),
        Variant("watched bytes", "victim", rio(), prepare=_VICTIM, batch=_flips()),
    ]


def _probes(catalogue: Catalogue) -> str:
    """Return probes in code that the workload executes, on instructions that stay unchanged."""
    ext4 = catalogue.filtered(SiteFilter(subsystems=("fs/ext4",)))
    drawn = CLASSES["delete_random_inst"].draw(ext4, random.Random(0), _PROBES)
    return commands(replace(fault, new=fault.old) for fault in drawn)


def _flips() -> str:
    return "".join(f"heap {index} {index} slab\n" for index in range(_WATCHED)) + "go\n"
