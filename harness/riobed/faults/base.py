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

    A fault in the text has an address, `old` and `new` of equal length and their assembly; `probe` says
    whether its activation can be seen. A fault of a routine has `params` instead, and no address. `why` says
    in a few words why its place qualifies for its class.
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
    why: str = ""


@dataclass(frozen=True, slots=True)
class Sites:
    """How many sites of a class a catalogue has, of what `unit`, and how many are left out by reason."""

    unit: str
    count: int
    excluded: dict[str, int]


@dataclass(frozen=True, slots=True)
class FaultClass:
    """A kind of fault: `draw(catalogue, rng, count)` gives count faults, `command` the injector's line.

    The same catalogue and state of rng give the same faults. `sites` is None for a class that has no sites
    in the text; a site filter does not apply to it. A class with `parameters` draws by them: they
    are a fourth argument of its `draw`, with the paper's numbers as default.
    """

    name: str
    category: str
    summary: str
    draw: Callable[..., list[Fault]]
    command: Callable[[Fault], str]
    sites: Callable[[Catalogue], Sites] | None = None
    parameters: Parameters | None = None

    @property
    def waits(self) -> bool:
        """Do its faults wait for a number of calls, which are sure to come? That number is a parameter."""
        return self.parameters is not None

    def with_parameters(self, given: Mapping[str, Any]) -> FaultClass:
        """The class with other parameters; those not given stay as they are.

        Raises UsageError if the class has none, pydantic's ValidationError if it has no such ones.
        """
        if self.parameters is None:
            raise UsageError(f"{self.name}: this fault class has no parameters; leave them out")
        parameters = type(self.parameters).model_validate({**dict(self.parameters), **given})
        return replace(self, parameters=parameters, draw=partial(self.draw, parameters=parameters))


def check_count(name: str, count: int, candidates: int, scope: str = "this kernel") -> None:
    """UsageError unless `count` different sites can be drawn from so many."""
    if count < 0:
        raise UsageError(f"{name}: {count} faults asked for; give a number from 0")
    if count > candidates:
        advice = "ask for fewer" if candidates else "widen it"
        raise UsageError(f"{name}: {count} faults asked for, {scope} has {candidates} sites; {advice}")
