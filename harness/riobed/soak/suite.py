# SPDX-License-Identifier: Apache-2.0
"""A suite of stressors: a folder with a suite.yaml; see workloads/stress/."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from riobed.errors import UsageError, complaint
from riobed.yamltext import parse_yaml

FILE = "suite.yaml"
# A shorter run of a stressor shows nothing.
MIN_SECONDS = 5


class Stressor(BaseModel):
    """One entry: its share of the time, relative to the others, and a short description.

    With `reset: random` the guest is reset while the stressor runs, and the command `check` judges what was
    recovered.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    weight: Annotated[int, Field(ge=1, le=1000)]
    what: str
    reset: Literal["idle", "random"] = "idle"
    check: str | None = None

    @model_validator(mode="after")
    def _check_belongs_to_random(self) -> Self:
        if (self.reset == "random") != (self.check is not None):
            raise ValueError("check: needed with reset: random, and only there")
        return self


class Suite(BaseModel):
    """suite.yaml. `build` is run in the toolchain root; stressors are run as `/workload/run NAME ...`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    build: str | None = None
    stressors: Annotated[dict[Annotated[str, Field(pattern=r"^[a-z0-9_-]+$")], Stressor], Field(min_length=1)]


@dataclass(frozen=True)
class Turn:
    """A stressor with its time in whole seconds; `check` only if it is reset while it runs."""

    name: str
    what: str
    seconds: int
    check: str | None = None


def load_suite(folder: Path) -> Suite:
    """Read the suite in a folder; UsageError if it is not a suite."""
    path = folder / FILE
    try:
        return Suite.model_validate(parse_yaml(path.read_bytes(), f"suite {path}"))
    except OSError as error:
        raise UsageError(
            f"suite {folder}: {FILE}: {error.strerror}; a suite is a folder with that file"
        ) from None
    except ValidationError as error:
        raise UsageError(f"suite {path}: {complaint(error, 'file')}") from None


def turns(suite: Suite, minutes: float, only: list[str]) -> list[Turn]:
    """Return the stressors named in `only` (empty: all) in order, with `minutes` divided by weight.

    Raises UsageError if one is unknown, or if there is too little time.
    """
    for name in only:
        if name not in suite.stressors:
            raise UsageError(f"unknown stressor {name!r}; there are: {', '.join(suite.stressors)}")
    chosen = {name: entry for name, entry in suite.stressors.items() if not only or name in only}
    total = sum(entry.weight for entry in chosen.values())
    shares = [
        Turn(name, entry.what, round(minutes * 60 * entry.weight / total), entry.check)
        for name, entry in chosen.items()
    ]
    shortest = min(turn.seconds for turn in shares)
    if shortest < MIN_SECONDS:
        raise UsageError(
            f"{minutes:g} minutes leave {shortest} s for a stressor: give more, or name fewer with --only"
        )
    return shares
