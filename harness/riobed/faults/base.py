# SPDX-License-Identifier: Apache-2.0
"""What every fault and fault class has."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from riobed.errors import UsageError
from riobed.faults.catalogue import Catalogue


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a trial.

    A fault in the text has an address, `old` and `new` of equal length and their assembly; `probe` says
    whether its activation can be seen. A fault of a routine has `params` instead, and no address.
    """

    index: int
    fault_class: str
    address: int | None = None
    function: str = ""
    source: str = ""
    section: str = ""
    old: bytes = b""
    new: bytes = b""
    old_asm: str = ""
    new_asm: str = ""
    probe: bool = True
    params: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FaultClass:
    """A kind of fault: `draw(catalogue, rng, count)` gives count faults, `command` the injector's line.

    The same catalogue and state of rng give the same faults.
    """

    name: str
    category: str
    summary: str
    draw: Callable[[Catalogue, random.Random, int], list[Fault]]
    command: Callable[[Fault], str]


def text_fault(catalogue: Catalogue, name: str, index: int, address: int, new: bytes) -> Fault:
    """The fault of class `name` that puts `new` over the instruction at an address."""
    old = catalogue.code(address, len(new))
    return Fault(
        index=index,
        fault_class=name,
        address=address,
        function=catalogue.function_at(address),
        source=catalogue.source(address),
        section=catalogue.section,
        old=old,
        new=new,
        old_asm=catalogue.assembly(address, old),
        new_asm=catalogue.assembly(address, new),
        probe=catalogue.can_probe(address),
    )


def text_command(fault: Fault) -> str:
    """The injector's line for a fault in the text."""
    return f"text {fault.index} {fault.address:x} {fault.old.hex()} {fault.new.hex()} {fault.probe:d}"


def check_count(name: str, count: int, candidates: int) -> None:
    """UsageError unless `count` different sites can be drawn from so many."""
    if count < 0:
        raise UsageError(f"{name}: {count} faults asked for; give a number from 0")
    if count > candidates:
        raise UsageError(
            f"{name}: {count} faults asked for, this kernel has {candidates} sites; ask for fewer"
        )
