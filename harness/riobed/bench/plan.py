# SPDX-License-Identifier: Apache-2.0
"""The runs that follow from a bench's spec, in order. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from riobed.bench.spec import NO_LIMITS, BenchSpec
from riobed.measure import Kind, order, workload_seed


@dataclass(frozen=True)
class PlannedRun:
    """One run; `seed` is the workload's, the same for all modes of a round."""

    workload: str
    disk: str
    vcpus: int
    kind: Kind
    mode: str
    round: int
    seed: int

    @property
    def key(self) -> tuple[str, str, int, str, str, int]:
        """What is measured, as RunRow.key has it."""
        return self.workload, self.disk, self.vcpus, self.kind, self.mode, self.round


@dataclass(frozen=True)
class Series:
    """The runs for which the same guests, one in each mode, stay alive."""

    workload: str
    disk: str
    vcpus: int
    kind: Kind
    runs: tuple[PlannedRun, ...]


def plan_runs(spec: BenchSpec) -> list[Series]:
    """Return all runs of a bench. In a series, each round has every mode once, in an order of its own."""
    return [
        Series(*what, tuple(_rounds(spec, *what)))
        for workload in spec.workloads
        for vcpus in spec.vcpus
        for what in (
            *((workload, disk, vcpus, _TIME) for disk in spec.disks),
            (workload, NO_LIMITS, vcpus, _COUNTED),
        )
    ]


_TIME: Kind = "time"
_COUNTED: Kind = "instructions"


def _rounds(spec: BenchSpec, workload: str, disk: str, vcpus: int, kind: Kind) -> Iterator[PlannedRun]:
    for number in range(spec.rounds if kind == "time" else spec.counted_rounds):
        for mode in order(spec.seed, f"{workload}/{disk}/{vcpus}/{kind}", number, spec.modes):
            seed = workload_seed(spec.seed, number)
            yield PlannedRun(workload, disk, vcpus, kind, mode, number, seed)
