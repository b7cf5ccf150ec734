# SPDX-License-Identifier: Apache-2.0
"""The stored runs of `riobed cost`."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from riobed_results.store import Provenance, add_line, read_lines

FILE = "runs.jsonl"


class CostRun(BaseModel):
    """One run. `versus` names the variant it is compared with, from which it differs in one part.

    `work` is the command that was run, `operations` the number of operations on files that it is. In a run
    of kind `instructions` the guest's clock counts instructions, so `seconds` is not a time. `events` is what
    the emulator counted during the work. `registry_bytes_per_page` is None in runs from before it was stored.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    workload: str
    kind: Literal["instructions", "time"]
    round: int
    variant: str
    versus: str | None
    workload_seed: int
    work: str
    seconds: float
    # Of the parts of the work, if it has parts that are timed apart.
    parts: dict[str, float] = {}
    idle_s: float
    before: dict[str, int]
    after: dict[str, int]
    on: Provenance
    events: dict[str, int] = {}
    vcpus: int = 1
    operations: int | None = None
    registry_bytes_per_page: int | None = None

    @property
    def label(self) -> str:
        """The workload's name with the number of processors, if that is not 1."""
        return labelled(self.workload, self.vcpus)

    @property
    def key(self) -> tuple[str, str, int, str]:
        """The key of the run; it is unique in a folder."""
        return self.label, self.kind, self.round, self.variant

    @property
    def cost(self) -> float:
        """The cost in seconds or instructions, by `kind`; a repeated string instruction is none of these.

        Runs without `events` are older: there each repetition is an instruction, as the clock counts them.
        """
        if self.kind == "time":
            return self.seconds
        if self.events:
            return float(self.events["instructions"] - self.events["repetitions"])
        return (self.seconds - self.idle_s) * 1e9

    def has_counter(self, name: str) -> bool:
        """Whether there was such a counter."""
        return name in self.events or name in self.after

    def increase(self, name: str) -> int:
        """Return the increase of a counter during the run; 0 if it is not counted."""
        if name in self.events:
            return self.events[name]
        return self.after.get(name, 0) - self.before.get(name, 0)


def labelled(workload: str, vcpus: int) -> str:
    """Return a workload's name with the number of processors, if that is not 1."""
    return workload if vcpus == 1 else f"{workload}, {vcpus} vCPUs"


def read_runs(folder: Path) -> list[CostRun]:
    """Read all runs stored in a folder; StoreError if one cannot be read."""
    return read_lines(folder / FILE, CostRun, "riobed cost")


def add_run(folder: Path, run: CostRun) -> None:
    """Append a run, whole or not at all."""
    add_line(folder / FILE, run)
