# SPDX-License-Identifier: Apache-2.0
"""Campaign specification: what a campaign compares, read from YAML."""

import math
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AliasChoices,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from riobed_results.rules.protocol import Protocol
from riobed_results.store import LOSSES_OF_POWER

from riobed.errors import UsageError, complaint
from riobed.faults import CLASSES, FaultClass, Kind, PlantedParameters, SiteFilter
from riobed.guest import (
    CacheMode,
    CacheShare,
    MachineSpec,
    ModeName,
    Strict,
    WorkloadSpec,
    all_modes,
    as_value_error,
    cache_mode,
    not_shipped,
    read_modes,
    unfold,
)
from riobed.plan.kinds import kinds_in
from riobed.yamltext import parse_yaml

Seconds = Annotated[float, Field(gt=0, le=86400)]
Moment = Annotated[float, Field(ge=0, le=86400)]
Control = Literal["none", "planted"]
Rate = Annotated[float, Field(ge=0, le=100)]
FaultCount = Annotated[int, Field(ge=1, le=100)]
# The tags tell pydantic which of the two a wrong value was meant to be.
Dose = Annotated[
    Annotated[FaultCount, Tag("number")] | Annotated[dict[str, FaultCount], Tag("by class")],
    Discriminator(lambda given: "by class" if isinstance(given, dict) else "number"),
]
_DEFAULT_RATE = 0.1
# Faults of a trial: the paper, section 3.1.
PAPER_FAULTS = 20
_LONGEST_NAME = 40  # ModeName


class Parked(Strict):
    """Stage 0 is put back instead of booted, except after these shares of the crashes.

    `reset`: only a real reset. `both`: one after the other from a copy of the crash, and compared; the real
    reset gives the result.
    """

    reset: Annotated[float, Field(ge=0.05, le=1)] = 0.05
    both: Annotated[float, Field(ge=0.01, le=1)] = 0.01


class HostCheck(Strict):
    """The host compares the bytes of files. After this share of the crashes the guest does it, too."""

    both: Annotated[float, Field(ge=0.05, le=1)] = 0.05


class ComparesModes(Strict):
    """What is common to the specs of whatever compares cache modes."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    # The user's own modes by name, and a file of such modes like modes.yaml, relative to the spec's folder.
    own_modes: dict[ModeName, CacheMode] = Field(default_factory=dict)
    modes_file: Path | None = None
    modes: Annotated[list[str], Field(min_length=1)]

    @field_validator("own_modes")
    @classmethod
    def _own_modes_are_new(cls, value: dict[str, CacheMode]) -> dict[str, CacheMode]:
        with as_value_error():
            for name in value:
                not_shipped(name, "own mode")
        return value

    @field_validator("modes")
    @classmethod
    def _modes_exist(cls, value: list[str], info: ValidationInfo) -> list[str]:
        with as_value_error():
            for name in value:
                cache_mode(name, info.data.get("own_modes"))
        if len(set(value)) != len(value):
            raise ValueError("duplicate name")
        return value

    def mode(self, name: str) -> CacheMode:
        """Return the mode of that name, shipped or the spec's own."""
        return cache_mode(name, self.own_modes)

    @property
    def cache_modes(self) -> dict[str, CacheMode]:
        """The spec's modes by name, in order."""
        return {name: self.mode(name) for name in self.modes}


class CampaignSpec(ComparesModes):
    """One campaign. Times are seconds in which the guest could run (docs/decisions/035-guest-time.md)."""

    # Shares of RAM that files fill, as arms of the experiment: each mode becomes one mode for each of them
    # (rio: rio-3pct, rio-60pct), which load_spec() adds to own_modes. Absent: the modes as they are.
    cache_shares: tuple[CacheShare, ...] = ()
    fault_classes: Annotated[list[str], Field(min_length=1)]
    # Controls, whose result is known in advance: for each mode, trials per crash that a cell wants, from the
    # first round on. Absent: 0.1 of each control that fault_classes does not name and the workload supports.
    controls: dict[Control, Rate] | None = None
    crashes_per_cell: Annotated[int, Field(ge=1)] = 1
    max_trials_per_cell: Annotated[int, Field(ge=1)] = 100
    # Faults of a trial: a number, or one for each class, which `riobed calibrate` finds; 20 for a class that
    # is not named.
    faults: Dose = PAPER_FAULTS
    # Where in the kernel's text faults may be; run-time classes ignore it. Absent: anywhere.
    sites: SiteFilter = SiteFilter()
    # Numbers that run-time classes draw from, by class (docs/faults.md). Absent: the paper's.
    parameters: dict[str, dict[str, Any]] = Field(default_factory=dict)
    # How long the workload runs before the faults are injected, drawn between the two.
    warmup_s: tuple[Seconds, Seconds] = (1.0, 4.0)
    # Trials of a round share their warm-up in each mode: they start from a snapshot at its end, and run on
    # for a time drawn between the two. Absent: each has its own (docs/decisions/040-shared-warm-up.md).
    run_on_s: tuple[Moment, Moment] | None = None
    # A guest without a crash for that long after injection is brought down (the paper waits 10 minutes).
    limit_s: Seconds = 600.0
    # It is brought down before the limit if for that long no fault was injected or activated, none is sure to
    # come, and the workload goes on. Absent: never before the limit. Specs of older stores have its old name.
    quiet_s: Annotated[Seconds | None, Field(validation_alias=AliasChoices("quiet_s", "early_discard_s"))] = (
        None
    )
    # The same by steps of the workload instead of time, so that a run makes as many after its last fault in a
    # slow mode as in a fast one; errors of the workload make no difference. The limit still holds.
    survivor_steps: Annotated[int | None, Field(ge=1, le=1_000_000)] = None
    # Crash in recovery: the machine is reset again at a time drawn between the two, counted from
    # riorecover's first line. Absent: recovery is not interrupted.
    recovery_reset_s: tuple[Moment, Moment] | None = None
    # After recovery and check, the production kernel is started as on a machine in use; whether it came is a
    # result.
    boot_production: bool = False
    # After a crash stage 0 is put back as it was kept (docs/decisions/039-parked-stage0.md). Absent: every
    # crash is followed by a reset.
    parked: Parked | None = None
    # The host compares the bytes of files where it can (docs/decisions/056-check-on-the-host.md). Absent: the
    # guest does.
    host_check: HostCheck | None = None
    # What a crash is followed by: a reset, which keeps RAM, or a loss of power
    # (docs/decisions/045-loss-of-power.md), with that of cache lines (047-lines-of-an-nvdimm.md).
    restart: Literal["reset", "power", "power-lines"] = "reset"
    # A control of the oracles: the workload has a bug or is lied to, and they have to find what it loses.
    must_lose: bool = False
    # A workload without a step for that long is stuck, and one that ended leaves the kernel so long to crash.
    hang_s: Seconds = 20.0
    # A guest without a step for that long is asked for a sign of life, and hangs without one. Absent: hang_s.
    ask_s: Seconds | None = None
    # Proportion of trials that boot instead of starting from the snapshot, to show that it has no effect.
    fresh_boot_share: Annotated[float, Field(ge=0, le=1)] = 0.0
    # Proportion of trials before which restored memory is compared with the snapshot's, by hash.
    restore_check_share: Annotated[float, Field(ge=0, le=1)] = 0.0
    # What the campaign is to show, in which order, at which level; when it stops for that (docs/protocol.md).
    # Absent: it goes on until each cell has its crashes.
    protocol: Protocol | None = None
    workload: WorkloadSpec = WorkloadSpec()
    machine: MachineSpec = MachineSpec()

    @field_validator("fault_classes")
    @classmethod
    def _classes_exist(cls, value: list[str]) -> list[str]:
        for name in value:
            if name not in CLASSES:
                raise ValueError(f"unknown fault class {name!r}; there are: {', '.join(CLASSES)}")
        return value

    @field_validator("parameters")
    @classmethod
    def _parameters_fit(cls, value: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        with as_value_error():
            for name, given in value.items():
                if name not in CLASSES:
                    raise UsageError(f"unknown fault class {name!r}; there are: {', '.join(CLASSES)}")
                try:
                    CLASSES[name].with_parameters(given)
                except ValidationError as error:
                    raise UsageError(f"{name}.{complaint(error, 'parameters')}") from None
        return value

    @model_validator(mode="after")
    def _makes_sense(self) -> "CampaignSpec":
        if len(set(self.fault_classes)) != len(self.fault_classes):
            raise ValueError("fault_classes: duplicate name")
        for what in ("warmup_s", "run_on_s", "recovery_reset_s"):
            if (bounds := getattr(self, what)) and bounds[0] > bounds[1]:
                raise ValueError(f"{what}: the first number must not be larger than the second")
        for name, mode in self.arms.items():
            try:
                mode.check_machine(self.machine)
            except UsageError as error:
                raise ValueError(f"modes: {name}: {error}") from None
        if self.run_on_s and self.machine.icount:
            raise ValueError("run_on_s: with icount each trial needs its own warm-up; leave it out")
        if self.parked and (self.machine.icount or self.recovery_reset_s):
            raise ValueError("parked: recovery_reset_s and icount need real resets; leave it out")
        if self.parked and self.restart in LOSSES_OF_POWER:
            raise ValueError("parked: a loss of power leaves no parked stage 0; leave it out")
        if self.loses_lines and not self.machine.nvdimm_mib:
            raise ValueError("restart: power-lines is about an NVDIMM; set machine.nvdimm_mib")
        if self.loses_lines and (self.machine.accelerator == "kvm" or self.machine.vcpus > 1):
            raise ValueError("restart: power-lines needs one emulated processor; change accelerator or vcpus")
        if self.must_lose and self.fault_classes != ["none"]:
            raise ValueError("must_lose: faults could lose it, too; set fault_classes: [none]")
        if self.ask_s is not None and self.ask_s > self.hang_s:
            raise ValueError("ask_s is larger than hang_s")
        if self.quiet_s is not None and self.survivor_steps is not None:
            raise ValueError("survivor_steps: quiet_s ends a run by time; leave one of them out")
        if self.max_trials_per_cell < self.crashes_per_cell:
            raise ValueError("max_trials_per_cell is smaller than crashes_per_cell")
        counts = self.faults if isinstance(self.faults, dict) else {}
        for what, given in (("parameters", self.parameters), ("faults", counts)):
            for name in given:
                if name not in (*self.fault_classes, *(self.controls or ())):
                    raise ValueError(f"{what}: {name} is none of the fault_classes; leave it out")
        for name in self.arms.keys() - set(self.modes):
            if name in self.own_modes or len(name) > _LONGEST_NAME:
                raise ValueError(f"cache_shares: {name!r} is too long or taken; rename that mode")
        if self.protocol and (unknown := self.protocol.unknown(list(self.arms), self.fault_classes)):
            raise ValueError(f"protocol: {unknown}")
        if self.protocol and self.protocol.runs:
            runs = {self.protocol.runs, self.crashes_per_cell, self.max_trials_per_cell}
            if len(runs) > 1:
                raise ValueError("protocol: runs: a cell has as many; set both limits per cell to it, too")
        if empty := [name for name, mode in self.arms.items() if not self.planted_kinds(mode)]:
            raise ValueError(f"parameters: planted.kinds: mode {empty[0]} has none of them; add written")
        canaries = [name for name, mode in self.arms.items() if "canary" in self.planted_kinds(mode)]
        if canaries and not self.machine.canary_mib:
            raise ValueError("parameters: planted.kinds: canary needs one; set machine.canary_mib")
        for name in self.controls or {}:
            if name in self.fault_classes:
                raise ValueError(f"controls: {name} is one of the fault_classes already; leave it out")
        return self

    def with_controls(self, can_plant: bool) -> "CampaignSpec":
        """Return the spec with default controls filled in; `can_plant`: any byte will do."""
        if self.controls is not None:
            return self
        possible: list[Control] = ["none", "planted"] if can_plant else ["none"]
        controls = {name: _DEFAULT_RATE for name in possible if name not in self.fault_classes}
        return self.model_copy(update={"controls": controls})

    @property
    def loses_lines(self) -> bool:
        """Whether its losses of power take lines of an NVDIMM, too."""
        return self.restart == "power-lines"

    @property
    def arms(self) -> dict[str, CacheMode]:
        """The modes by name, each once for each of the `cache_shares` if there are any."""
        if not self.cache_shares:
            return self.cache_modes
        modes = self.cache_modes.items()
        return {arm: of for name, mode in modes for arm, of in mode.arms(name, self.cache_shares).items()}

    def with_arms(self) -> "CampaignSpec":
        """Return the spec with the arms as own modes, and without `cache_shares`."""
        if not self.cache_shares:
            return self
        update = {"modes": list(self.arms), "own_modes": self.own_modes | self.arms, "cache_shares": ()}
        return self.model_copy(update=update)

    @property
    def classes(self) -> list[str]:
        """All classes of the campaign's trials: fault_classes, then controls."""
        return [*self.fault_classes, *(name for name, rate in (self.controls or {}).items() if rate)]

    def trials_by(self, round_number: int, fault_class: str) -> int:
        """Return how many trials of a class each mode has had after `round_number` rounds."""
        return math.ceil(self._rate(fault_class) * round_number)

    def crashes_wanted(self, fault_class: str) -> int:
        """Return how many crashes of a class are wanted in each mode."""
        return self.trials_by(self.crashes_per_cell, fault_class)

    def trials_allowed(self, fault_class: str) -> int:
        """Return how many trials of a class each mode may have."""
        return self.trials_by(self.max_trials_per_cell, fault_class)

    def _rate(self, fault_class: str) -> float:
        rates: dict[str, float] = dict((self.controls or {}).items())
        return rates.get(fault_class, 1)

    def fault_count(self, name: str) -> int:
        """Return how many faults of a class a trial gets."""
        return self.faults.get(name, PAPER_FAULTS) if isinstance(self.faults, dict) else self.faults

    def planted_kinds(self, mode: CacheMode) -> list[Kind]:
        """Return the kinds of changes that class `planted` makes in a mode, in order."""
        given = PlantedParameters.model_validate(self.parameters.get("planted", {}))
        return kinds_in(mode, given.kinds)

    def fault_class(self, name: str) -> FaultClass:
        """Return the class of that name, with this campaign's parameters."""
        given = self.parameters.get(name)
        return CLASSES[name].with_parameters(given) if given else CLASSES[name]


Spec = TypeVar("Spec", bound=ComparesModes)


def read_spec(path: Path, kind: type[Spec]) -> Spec:
    """Read a spec with paths as they are in the file; UsageError names file, key and what is wrong."""
    data = _with_base(_keys(path), path)
    try:
        return kind.model_validate(_with_modes(data, path.parent))
    except ValidationError as error:
        raise UsageError(f"spec {path}: {complaint(error, 'spec')}") from None
    except UsageError as error:
        raise UsageError(f"spec {path}: {error}") from None


def load_spec(path: Path) -> CampaignSpec:
    """Read a campaign's spec; UsageError names the file, the key and what is wrong."""
    spec = read_spec(path, CampaignSpec).with_arms()
    try:
        load = spec.workload.moved(lambda folder: (path.parent / folder).resolve())
    except (ValueError, OSError) as error:
        raise UsageError(f"spec {path}: workload.path: {error}") from None
    try:
        sites = spec.sites.with_list(path.parent)
        own = {name: mode.beside(path.parent) for name, mode in spec.own_modes.items()}
    except UsageError as error:
        raise UsageError(f"spec {path}: {error}") from None
    return spec.model_copy(update={"own_modes": own, "workload": load, "sites": sites})


def _keys(path: Path) -> dict[Any, Any]:
    try:
        data = parse_yaml(path.read_bytes(), f"spec {path}")
    except OSError as error:
        raise UsageError(f"spec {path}: {error.strerror}; see harness/specs/ for examples") from None
    if not isinstance(data, dict):
        raise UsageError(f"spec {path}: want a mapping of keys; see harness/specs/ for examples")
    return data


def _with_base(data: dict[Any, Any], path: Path) -> dict[Any, Any]:
    """Return a spec's keys with those of the spec that it is `like`; an empty key leaves that spec's out.

    What that one says of single classes that this one has not is left out, too.
    """
    if "like" not in data:
        return data
    name = data["like"]
    # Paths in it are relative to its folder.
    if not isinstance(name, str) or Path(name).name != name:
        raise UsageError(f"spec {path}: like: want the name of a spec in the same folder")
    base = _keys(path.with_name(name))
    if "like" in base:
        raise UsageError(f"spec {path}: like: {name} is like {base['like']} itself; name that one")
    left_out = {"like", *(key for key, value in data.items() if value is None)}
    found = {key: value for key, value in (base | data).items() if key not in left_out}
    classes = [*(found.get("fault_classes") or ()), *(found.get("controls") or ())]
    for key in ("faults", "parameters"):
        if key not in data and isinstance(base.get(key), dict):
            found[key] = {name: value for name, value in base[key].items() if name in classes}
    return found


def _with_modes(data: dict[Any, Any], folder: Path) -> dict[Any, Any]:
    """Return a spec's keys with whole modes, and with those of its file: the campaign stores them."""
    file, own, names = data.get("modes_file"), data.get("own_modes", {}), data.get("modes")
    if not isinstance(own, dict) or not isinstance(names, list):
        return data
    found = read_modes(folder / file) if isinstance(file, str) else {}
    for name in found.keys() & own.keys():
        raise UsageError(f"own_modes: {name!r} is in {file}, too; give one of them another name")
    own = unfold(own, all_modes() | found)
    for name in names if found else []:
        # Checked here, so the message lists all modes of the file, too.
        cache_mode(str(name), own | found)
    return data | {"own_modes": own | {name: mode for name, mode in found.items() if name in names}}
