# SPDX-License-Identifier: Apache-2.0
"""What every fault and fault class has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from riobed.errors import UsageError
from riobed.faults.parameters import Parameters
from riobed.faults.sites.catalogue import Catalogue


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a trial.

    A text fault has an address, `old` and `new` bytes of equal length, and their assembly. `probe` says
    whether its activation can be observed. A run-time fault has `params` instead of an address. `why` says
    in a few words why the site qualifies for the class.
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
    params: dict[str, int | str] = field(default_factory=dict)
    why: str = ""


@dataclass(frozen=True, slots=True)
class Sites:
    """How many sites a class has in a catalogue, in which `unit`, and how many are excluded, by reason."""

    unit: str
    count: int
    excluded: dict[str, int]


@dataclass(frozen=True, slots=True)
class FaultClass:
    """A kind of fault. `draw(catalogue, rng, count)` returns faults, `command` the injector line for one.

    Drawing is deterministic: the same catalogue and rng state give the same faults. `sites` is None for a
    class without sites in the kernel text; site filters do not apply to it. `parameters`, where a class has
    them, are a fourth argument of `draw`; the defaults are the paper's numbers. `needs` names a function of
    the kernel that the injector calls. Faults of a class that `waits` come after a number of calls, which are
    sure to be made.
    """

    name: str
    category: str
    summary: str
    draw: Callable[..., list[Fault]]
    command: Callable[[Fault], str]
    sites: Callable[[Catalogue], Sites] | None = None
    parameters: Parameters | None = None
    needs: str = ""
    waits: bool = False

    def with_parameters(self, given: Mapping[str, Any]) -> FaultClass:
        """Return the class with some parameters replaced.

        Raises UsageError if the class has no parameters, pydantic's ValidationError for an unknown one.
        """
        if self.parameters is None:
            raise UsageError(f"{self.name}: this fault class has no parameters; leave them out")
        parameters = type(self.parameters).model_validate({**dict(self.parameters), **given})
        return replace(self, parameters=parameters, draw=partial(self.draw, parameters=parameters))


def check_count(name: str, count: int, candidates: int, scope: str = "this kernel") -> None:
    """Raise UsageError unless `count` different sites can be drawn from `candidates`."""
    if count < 0:
        raise UsageError(f"{name}: {count} faults asked for; give a number from 0")
    if count > candidates:
        advice = "ask for fewer" if candidates else "widen it"
        raise UsageError(f"{name}: {count} faults asked for, {scope} has {candidates} sites; {advice}")
