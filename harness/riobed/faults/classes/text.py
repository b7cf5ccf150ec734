# SPDX-License-Identifier: Apache-2.0
"""Faults in the kernel's text: their injector commands, and the class made from a rule."""

from __future__ import annotations

import random

from riobed.faults.base import Fault, FaultClass, Sites, check_count
from riobed.faults.sites.catalogue import Catalogue
from riobed.faults.sites.rule import TextRule


def text_fault(catalogue: Catalogue, name: str, index: int, address: int, new: bytes, why: str) -> Fault:
    """Return the fault of class `name` that replaces the instruction at an address by `new`."""
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
        why=why,
    )


def text_command(fault: Fault) -> str:
    """Return the injector line for a text fault."""
    return f"text {fault.index} {fault.address:x} {fault.old.hex()} {fault.new.hex()} {fault.probe:d}"


def text_class(rule: TextRule) -> FaultClass:
    """Return the fault class of a rule. It draws different sites uniformly, then one change per site."""

    def draw(catalogue: Catalogue, rng: random.Random, count: int) -> list[Fault]:
        sites = catalogue.site_count(rule.name)
        check_count(rule.name, count, sites, catalogue.scope)
        faults: dict[int, Fault] = {}
        while len(faults) < count:
            instruction, why = catalogue.site(rule.name, rng.randrange(sites))
            if instruction.address not in faults:
                changes = rule.changes(instruction.code)
                new = rng.choice(changes) if len(changes) > 1 else changes[0]
                fault = text_fault(catalogue, rule.name, len(faults), instruction.address, new, why)
                faults[instruction.address] = fault
        return list(faults.values())

    def sites(catalogue: Catalogue) -> Sites:
        return Sites("instructions", catalogue.site_count(rule.name), catalogue.excluded_sites(rule.name))

    return FaultClass(rule.name, rule.category, rule.summary, draw, text_command, sites)
