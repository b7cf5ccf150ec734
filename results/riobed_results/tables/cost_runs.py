# SPDX-License-Identifier: Apache-2.0
"""The stored runs of `riobed cost`."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from riobed_results.store import Provenance, add_line, read_lines

FILE = "runs.jsonl"


class CostRun(BaseModel):
    """One run. `versus` names the variant it is compared with, from which it differs in one part.

    `work` is the command that was run. In a run of kind `instructions` the guest's clock counts
    instructions, so `seconds` is not a time.
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
    idle_s: float
    before: dict[str, int]
    after: dict[str, int]
    on: Provenance

    @property
    def key(self) -> tuple[str, str, int, str]:
        """The key of the run; it is unique in a folder."""
        return self.workload, self.kind, self.round, self.variant

    @property
    def cost(self) -> float:
        """The cost in seconds or instructions, by `kind`."""
        return (self.seconds - self.idle_s) * 1e9 if self.kind == "instructions" else self.seconds

    def counted(self, name: str) -> int:
        """Return the increase of a counter during the run; 0 if the kernel does not have it."""
        return self.after.get(name, 0) - self.before.get(name, 0)


def read_runs(folder: Path) -> list[CostRun]:
    """Read all runs stored in a folder; StoreError if one cannot be read."""
    return read_lines(folder / FILE, CostRun, "riobed cost")


def add_run(folder: Path, run: CostRun) -> None:
    """Append a run, whole or not at all."""
    add_line(folder / FILE, run)
