# SPDX-License-Identifier: Apache-2.0
"""Generator/Fitted: the declared table of fitted parameters, fitted.yaml, which `fit.py` writes."""

from functools import cache
from importlib.resources import files

import numpy as np
import yaml
from pydantic import BaseModel

from riobed_caches.compiled import Floats

# The intervals of a day, as 004's Table 5 has them: each ends at its hour, the first begins at the last.
HOURS = (8, 11, 14, 17, 20, 23)


class Day(BaseModel, extra="forbid"):
    """A day in the six intervals of HOURS.

    `opens` and `written` are each interval's share of a day's opens and of its written bytes; each adds up
    to 1. The others are shares of the interval's own opens, and mean what 004's Table 5 means.
    """

    opens: list[float]
    written: list[float]
    non_file: list[float]
    uncached: list[float]
    read_shared: list[float]
    last_writer: list[float]
    recalls: list[float]
    stopped: list[float]


class Like(BaseModel, extra="forbid"):
    """What one of the eight traces is fitted by.

    Counts are of one day, megabytes of 2**20 bytes; `active_users` are those of ten minutes, on average.
    `minutes` and `dead` are the curve of lifetimes: the share of written bytes that died before each age. The
    five fates are shares of written bytes and add up to 1. `fsynced` is the share that an fsync forces.
    `simulated_minutes` are the ages between which bytes of the long simulations die, empty for a trace
    without them; `simulated_read_mb` is what they read.
    """

    users: int
    active_users: float
    migrating: int
    opens: int
    truncations: int
    deletes: int
    written_mb: float
    read_mb: float
    minutes: list[float]
    dead: list[float]
    overwritten: float
    deleted: float
    called_back: float
    concurrent: float
    remaining: float
    fsynced: float
    simulated_minutes: list[float]
    simulated_read_mb: float

    def dead_at(self, minutes: float) -> float:
        """Return the share of written bytes that died before they were this old."""
        return float(np.interp(np.log(minutes), np.log(self.minutes), self.dead))

    def ages(self, dead: Floats) -> Floats:
        """Return the ages in seconds at which the shares `dead` of all written bytes have died."""
        return np.asarray(np.exp(np.interp(dead, self.dead, np.log(self.minutes))) * 60)

    @property
    def simulated(self) -> float:
        """Return the share of written bytes that the long simulations write."""
        ends = self.simulated_minutes
        return self.dead_at(ends[-1]) - self.dead_at(ends[0]) if ends else 0.0


class Fitted(BaseModel, extra="forbid"):
    """The whole table. `write_only` and `read_write` are shares of all opens; `reread` one of file reads."""

    write_only: float
    read_write: float
    reread: float
    day: Day
    traces: dict[int, Like]


@cache
def fitted() -> Fitted:
    """Return the fitted parameters."""
    return Fitted.model_validate(yaml.safe_load(files(__package__).joinpath("fitted.yaml").read_text()))
