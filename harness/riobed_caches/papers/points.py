# SPDX-License-Identifier: Apache-2.0
"""Loads the points of published figures and the numbers of published tables and sentences."""

import csv
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np
import yaml
from pydantic import BaseModel

from riobed_caches.compiled import Floats


class Curve(NamedTuple):
    """A curve: `x` ascending (minutes or MB, as `unit` says), `y` the net traffic in percent."""

    x: Floats
    y: Floats
    unit: str


class Price(BaseModel, extra="forbid"):
    """A row of 000's Table 1: dollars a megabyte, and the fewest megabytes one can buy."""

    component: str
    kind: str
    dollars: float
    minimum_mb: float


class Fates(BaseModel, extra="forbid"):
    """A column of 000's Table 2, in megabytes."""

    overwritten: float
    deleted: float
    called_back: float
    concurrent: float
    remaining: float
    total: float


class Segments(BaseModel, extra="forbid"):
    """A row of 000's Tables 3 and 4: percents, and kilobytes a partial segment; None is "not applicable"."""

    partial: float
    by_fsync: float
    of_segments: float
    kb_partial: float
    kb_fsync: float | None
    of_bytes: float


class Opens(BaseModel, extra="forbid"):
    """A row of 004's Tables 4 and 5: a number of opens, and percents of it."""

    opens: int
    non_file: float
    uncached: float
    read_shared: float
    last_writer: float
    recalls: float
    stopped: float


class Writes(BaseModel, extra="forbid"):
    """A row of 004's Table 11: bytes a second of one client; `ratio` is a percent of `cache`."""

    cache: float
    ratio: float
    write_back: float
    uncached: float
    page_out: float
    total: float


class Traced(BaseModel, extra="forbid"):
    """A column of Table 1 of Baker et al. 1991: one of the eight traces."""

    users: int
    migrating: int
    read_mb: float
    written_mb: float
    opens: int
    truncations: int
    deletes: int


class Sentence(BaseModel, extra="forbid"):
    """A number of a sentence: its value, paper and section, and what it says."""

    value: float
    where: str
    says: str


class Tables(BaseModel, extra="forbid"):
    """All that tables.yaml has; rows are keyed by the end of their interval, by server, fate or trace."""

    prices: list[Price]
    fates: dict[str, Fates]
    segments: dict[str, Segments]
    opens_1989: dict[str, Opens]
    opens_1991: dict[str, Opens]
    writes_1989: dict[str, Writes]
    traces: dict[int, Traced]
    sentences: dict[str, Sentence]


@cache
def tables() -> Tables:
    """Return the numbers of published tables and sentences."""
    return Tables.model_validate(yaml.safe_load(_text("tables.yaml")))


@cache
def figure(number: int) -> dict[str, Curve]:
    """Return the curves of a figure (2 to 6) of 000, by name; a trace's curve has its number for a name."""
    lines = (line for line in _text("figures.csv").splitlines() if not line.startswith("#"))
    rows = [row for row in csv.DictReader(lines) if int(row["figure"]) == number]
    return {name: _curve([row for row in rows if row["curve"] == name]) for name in _names(rows)}


def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text()


def _names(rows: list[dict[str, str]]) -> list[str]:
    return list(dict.fromkeys(row["curve"] for row in rows))


def _curve(rows: list[dict[str, str]]) -> Curve:
    points = np.array([(float(row["x"]), float(row["y"])) for row in rows])
    return Curve(points[:, 0], points[:, 1], rows[0]["x_unit"])
