# SPDX-License-Identifier: Apache-2.0
"""What is done in a ready guest before its work: a script, and a batch for the injector."""

import random
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Field, field_validator, model_validator

from riobed.errors import InfraError
from riobed.faults import CLASSES, SiteFilter, catalogue_of, commands
from riobed.faults.sites.site_filter import Folder
from riobed.guest import Guest, Strict
from riobed.guest.settings.throttle import OneLine
from riobed.products import KernelPart
from riobed.trial import INJECTOR

# Classes whose faults are instructions of the kernel's text.
_TEXT = tuple(name for name, each in CLASSES.items() if each.sites)


@dataclass(frozen=True)
class Steps:
    """A script for sh and a batch for the injector, done in this order; each may be empty."""

    script: str = ""
    batch: str = ""


class Probes(Strict):
    """Breakpoints where faults of a class would be, drawn by the spec's seed; the instructions stay."""

    fault_class: str
    count: Annotated[int, Field(ge=1, le=100)]
    # A folder or file of the kernel's source. Absent: anywhere.
    subsystem: Folder | None = None

    @field_validator("fault_class")
    @classmethod
    def _is_in_text(cls, value: str) -> str:
        if value not in _TEXT:
            raise ValueError(f"{value!r} is no class of faults in the kernel's text: {', '.join(_TEXT)}")
        return value

    def draw(self, kernel: KernelPart, rng: random.Random) -> str:
        """Return the batch for a kernel; UsageError if it has too few sites."""
        sites = SiteFilter(subsystems=(self.subsystem,) if self.subsystem else None)
        drawn = CLASSES[self.fault_class].draw(catalogue_of(kernel).filtered(sites), rng, self.count)
        return commands(replace(fault, new=fault.old) for fault in drawn)


class Before(Strict):
    """What is done in the guests of a mode before the work; it is no part of what is measured."""

    # For sh.
    script: str = ""
    # Commands of the injector (injectors/riobed_inject/README.md), without the `go` that ends a batch.
    batch: tuple[OneLine, ...] = ()
    probes: Probes | None = None

    @model_validator(mode="after")
    def _makes_sense(self) -> "Before":
        if self.batch and self.probes:
            raise ValueError("probes are a batch, too; leave out one of batch and probes")
        return self

    def steps(self, kernel: KernelPart, rng: random.Random) -> Steps:
        """Return what is done in guests with that kernel; UsageError if it has too few sites for probes."""
        if self.probes:
            return Steps(self.script, self.probes.draw(kernel, rng))
        return Steps(self.script, "".join(f"{line}\n" for line in (*self.batch, "go")) if self.batch else "")


def prepare(guest: Guest, steps: Steps) -> None:
    """Do what is done before the work in a guest that is ready; InfraError if that fails."""
    if steps == Steps():
        return
    script = f"{steps.script}\n"
    if steps.batch:
        # One write: an open file is a batch.
        script += f"cat >/run/batch; cat /run/batch >{INJECTOR}\n"
    ended = guest.machine.run(["/bin/sh", "-ec", script], stdin=steps.batch.encode())
    if ended.status:
        name = guest.machine.config.name
        raise InfraError(f"{name}: what comes before the work ends with {ended.status}: {ended.error}")
