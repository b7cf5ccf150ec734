# SPDX-License-Identifier: Apache-2.0
"""The runs that follow from a bench's spec, in order. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count

from riobed.bench.spec import NO_LIMITS, BenchSpec
from riobed.measure import Kind, order, workload_seed

# What is measured, as RunRow.key has it.
Key = tuple[str, str, int, str, str, int]


@dataclass(frozen=True)
class PlannedRun:
    """One run; `seed` is the workload's, the same for all modes of a round.

    `rehearsed` is whether the work is done once before, with its checks between parts.
    """

    workload: str
    disk: str
    vcpus: int
    kind: Kind
    mode: str
    round: int
    seed: int
    rehearsed: bool

    @property
    def key(self) -> Key:
        """What is measured."""
        return self.workload, self.disk, self.vcpus, self.kind, self.mode, self.round


@dataclass(frozen=True)
class Series:
    """The runs for which the same guests, one in each mode, stay alive."""

    workload: str
    disk: str
    vcpus: int
    kind: Kind
    runs: tuple[PlannedRun, ...]


def plan_runs(spec: BenchSpec, made: Mapping[Key, str | None] | None = None) -> list[Series]:
    """Return all runs of a bench. In a series, each round has every mode once, in an order of its own.

    `made` has the session of each run that was made in an earlier one. A round that is not of one session, or
    not whole, has too few pairs for ratios: it stays as it is, and another is made after the last.
    """
    return [
        Series(*what, tuple(_rounds(spec, made or {}, *what)))
        for workload in spec.workloads
        for vcpus in spec.vcpus
        for what in (
            *((workload, disk, vcpus, _TIME) for disk in spec.disks),
            (workload, NO_LIMITS, vcpus, _COUNTED),
        )
    ]


_TIME: Kind = "time"
_COUNTED: Kind = "instructions"


def _rounds(
    spec: BenchSpec,
    made: Mapping[Key, str | None],
    workload: str,
    disk: str,
    vcpus: int,
    kind: Kind,
) -> Iterator[PlannedRun]:
    wanted = spec.rounds if kind == "time" else spec.counted_rounds
    found = 0
    for number in count():
        if found == wanted:
            return
        seed = workload_seed(spec.seed, number)
        modes = order(spec.seed, f"{workload}/{disk}/{vcpus}/{kind}", number, spec.modes)
        runs = [
            PlannedRun(workload, disk, vcpus, kind, mode, number, seed, rehearsed=not found) for mode in modes
        ]
        sessions = [made[run.key] for run in runs if run.key in made]
        if not sessions or (len(sessions) == len(runs) and len(set(sessions)) == 1):
            yield from runs
            found += 1
