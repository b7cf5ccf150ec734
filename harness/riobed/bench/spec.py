# SPDX-License-Identifier: Apache-2.0
"""Bench specification: what is measured, read from YAML."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Discriminator, Field, StringConstraints, Tag, model_validator

from riobed.bench.before import Before
from riobed.errors import UsageError
from riobed.guest import CacheMode, MachineSpec, ModeName, Strict, Throttle, WorkloadSpec
from riobed.measure import UNDER_TEST, can_be_slow
from riobed.plan import ComparesModes, modes_data, read_spec
from riobed.products import CHECKOUT
from riobed.yamltext import parse_yaml

# As the names of workloads' folders: cp_rm.
WorkloadName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,39}$")]
# The name that stored runs give to a disk without limits.
NO_LIMITS = "none"
_FEWEST = 5


class Pace(Strict):
    """What says how fast the processor is: work on a disk without limits, done again before each round.

    `seconds` is how long it takes on the computer for which the disk was made.
    """

    workload: WorkloadSpec
    mode: ModeName
    seconds: Annotated[float, Field(gt=0)]


def _none_or_some(rounds: int) -> int:
    if 0 < rounds < _FEWEST:
        raise ValueError(f"want 0, or at least {_FEWEST}: the interval of a median needs some")
    return rounds


# A number, or how it is measured. Errors are those of what was given.
Times = Annotated[
    Annotated[float, Field(gt=0, le=1000), Tag("number")] | Annotated[Pace, Tag("pace")],
    Discriminator(lambda value: "number" if isinstance(value, int | float) else "pace"),
]


class BenchSpec(ComparesModes):
    """One bench: each mode does each workload on each disk, with each number of processors.

    Ratios are between modes that did the same in the same round.
    """

    # Folders with a workload.yaml that has `measure`, relative to the spec's folder, by the name in tables.
    workloads: Annotated[dict[WorkloadName, WorkloadSpec], Field(min_length=1)]
    # How fast the disk under test is: a disk model's name or limits, by the name in tables.
    disks: Annotated[dict[ModeName, Throttle], Field(min_length=1)]
    # By disk, how many times as fast everything is that has a time: the disk itself, and how soon the kernel
    # writes dirty data. For a processor that is faster by this factor than those of the disk's time.
    # That number is given, or measured.
    times: dict[ModeName, Times] = Field(default_factory=dict)
    # Runs of each mode that measure time; 0: instructions are counted, and nothing else.
    rounds: Annotated[int, Field(ge=0, le=1000), AfterValidator(_none_or_some)] = 5
    # Runs of each mode that count instructions: on a disk without limits, because a disk takes time only.
    counted_rounds: Annotated[int, Field(ge=0, le=1000)] = 3
    vcpus: Annotated[tuple[Annotated[int, Field(ge=1, le=4)], ...], Field(min_length=1)] = (1,)
    # Whether Rio's modes have its checksums: an instrument of trials, which no user would pay for.
    checksums: bool = False
    # By mode, another one of which it differs in one thing: `riobed table cost` tells its cost over that one.
    over: dict[str, str] = Field(default_factory=dict)
    # By mode, what is done in its guests before the work.
    before: dict[str, Before] = Field(default_factory=dict)
    # Without what is compared: throttle and vcpus.
    machine: MachineSpec = MachineSpec()

    @model_validator(mode="after")
    def _makes_sense(self) -> "BenchSpec":
        usual = MachineSpec()
        for key, instead in (("throttle", "disks"), ("vcpus", "vcpus"), ("icount", "counted_rounds")):
            if getattr(self.machine, key) != getattr(usual, key):
                raise ValueError(f"machine.{key}: a bench has {instead} instead; leave it out")
        if self.disks.get(NO_LIMITS, Throttle()) != Throttle():
            raise ValueError(f"disks: {NO_LIMITS}: that name is for a disk without limits; choose another")
        if unknown := self.times.keys() - self.disks.keys():
            there = ", ".join(self.disks)
            raise ValueError(f"times: {min(unknown)}: no disk of that name; there are: {there}")
        for disk, pace in self.paces.items():
            if pace.mode not in self.modes:
                raise ValueError(f"times: {disk}: {pace.mode} is none of the bench's modes")
            if pace.workload.beside:
                raise ValueError(f"times: {disk}: a measured workload runs alone; leave `beside` out")
        for name, each in self.workloads.items():
            if each.beside:
                raise ValueError(f"workloads: {name}: a measured workload runs alone; leave `beside` out")
        if len(set(self.vcpus)) != len(self.vcpus):
            raise ValueError("vcpus: duplicate number")
        if not self.rounds and not self.counted_rounds:
            raise ValueError("rounds: nothing is measured; set rounds or counted_rounds")
        for key, names in (("over", [*self.over, *self.over.values()]), ("before", [*self.before])):
            if strange := [name for name in names if name not in self.modes]:
                raise ValueError(f"{key}: {strange[0]} is none of the bench's modes")
        for name, mode in self.cache_modes.items():
            limited = any(self.limits(name, disk) for disk in self.disks)
            if limited and not can_be_slow(mode):
                raise ValueError(
                    f"modes: {name}: a ready kernel has no slow disks; set disks: {{none: none}}"
                )
            if mode.throttle is not None:
                raise ValueError(f"modes: {name}: its disk has limits of its own; take its `throttle` out")
            try:
                mode.check_machine(self.machine)
            except UsageError as error:
                raise ValueError(f"modes: {name}: {error}") from None
        return self

    def mode(self, name: str) -> CacheMode:
        """Return the mode of that name as it is measured."""
        mode = super().mode(name)
        # riobed.measure makes its disks slow, QEMU does not.
        devices = tuple(each.model_copy(update={"throttle": Throttle()}) for each in mode.devices)
        mode = mode.model_copy(update={"devices": devices})
        return mode if self.checksums else mode.without_checksums()

    @property
    def paces(self) -> dict[str, Pace]:
        """The disks whose speed is scaled by a measured factor, and how it is measured."""
        return {disk: times for disk, times in self.times.items() if isinstance(times, Pace)}

    def limits(self, name: str, disk: str, times: float = 1) -> dict[str, Throttle]:
        """Return the limits of the disks of a mode that has one of the disks under test, by serial number.

        The one under test is faster than its model by that factor.
        """
        own = {device.name: device.throttle for device in super().mode(name).devices}
        under_test = self.disks[disk].scaled(times)
        return {
            serial: each for serial, each in {UNDER_TEST: under_test, **own}.items() if each != Throttle()
        }


def load_bench(path: Path) -> BenchSpec:
    """Read a bench's spec, with absolute paths; UsageError names the file, the key and what is wrong."""
    spec = read_spec(path, BenchSpec)

    def there(each: WorkloadSpec) -> WorkloadSpec:
        return each.moved(lambda folder: (path.parent / folder).resolve())

    try:
        workloads = {name: there(each) for name, each in spec.workloads.items()}
        paces = {
            disk: each.model_copy(update={"workload": there(each.workload)})
            for disk, each in spec.paces.items()
        }
    except (ValueError, OSError) as error:
        raise UsageError(f"spec {path}: workloads: {error}") from None
    own = {name: mode.beside(path.parent) for name, mode in spec.own_modes.items()}
    return spec.model_copy(update={"own_modes": own, "workloads": workloads, "times": spec.times | paces})


def bench_data(spec: BenchSpec) -> dict[str, Any]:
    """Return a spec as it is stored: folders of the project go by their paths in the project."""
    data = modes_data(spec)
    for each in _workloads(data):
        each["path"] = _in_project(each["path"])
    for mode in data["own_modes"].values():
        if series := mode.get("kernel", {}).get("series"):
            mode["kernel"]["series"] = _in_project(series)
    return data


def _in_project(path: str) -> str:
    return str(Path(path).relative_to(CHECKOUT)) if Path(path).is_relative_to(CHECKOUT) else path


def comparable(text: str) -> object:
    """Return a stored spec without what may differ from run to run: where the workloads' folders lie."""
    data: Any = parse_yaml(text, "stored spec")
    for each in _workloads(data):
        each["path"] = Path(each["path"]).name
    # Its modes are stored themselves.
    data.pop("modes_file", None)
    # A bench begun before there were these keys had none of them.
    return {"over": {}, "before": {}} | data


def _workloads(data: Any) -> list[Any]:
    """Return the workloads of a spec's data, those that say a pace among them."""
    paces = [each["workload"] for each in (data.get("times") or {}).values() if isinstance(each, dict)]
    return [*(data.get("workloads") or {}).values(), *paces]
