# SPDX-License-Identifier: Apache-2.0
"""What is known of a whole trace: who recorded it, what it has, what it does not see."""

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, Field

# Files of version 1 have no empty fields, and say no version.
VERSION = 2
# 142 years, as of the time of an event.
MAX_SECONDS = 2**52 / 1e6


class Has(StrEnum):
    """What a recorder records at all; a table that needs more is refused instead of printing zeros."""

    TIMES = "times"
    DIRECTIONS = "directions of transfers"
    OPENS = "opens and closes"
    DELETES = "deletes and truncations"
    FSYNCS = "fsyncs"
    SIZES = "sizes of files"
    CLIENTS = "clients"
    USERS = "users"
    PROCESSES = "processes"
    MIGRATIONS = "migrations"


class Loss(BaseModel, extra="forbid"):
    """Events that a recorder could not record, from `time` (µs of the trace) on."""

    time: Annotated[int, Field(ge=0)]
    events: Annotated[int, Field(ge=1)]
    why: str


class Header(BaseModel, extra="forbid"):
    """The header of a trace. `clock` names what its times were read from, and `source` what was recorded.

    `blind` says what the recorder cannot see. `lost` has what was lost while recording, `skipped` how many
    lines of a foreign file were not understood, and `first_skipped` the numbers of the first of them. `names`
    are those of the files, by id: hashes, unless the user asked for names.
    """

    version: Annotated[int, Field(ge=1)] = VERSION
    recorder: str
    source: str
    clock: str
    kernel: str = ""
    recorded: str = ""
    has: list[Has]
    blind: list[str] = []
    lost: list[Loss] = []
    skipped: Annotated[int, Field(ge=0)] = 0
    first_skipped: list[int] = []
    names: list[str] = []
    names_are_hashes: bool = True
    seconds: Annotated[float, Field(ge=0, le=MAX_SECONDS, allow_inf_nan=False)] | None = None

    @property
    def events_lost(self) -> int:
        """Return how many events were lost, lines that were not understood among them."""
        return self.skipped + sum(loss.events for loss in self.lost)
