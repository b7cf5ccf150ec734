# SPDX-License-Identifier: Apache-2.0
"""Generator/Scene: what all parts of the generator share, and the draws that they have in common."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from riobed_caches.compiled import Floats, Int64s
from riobed_caches.generator.fitted import Fitted, Like
from riobed_caches.generator.people import CLIENTS, DAY, People, times
from riobed_caches.generator.rows import Rows, Who

MB = 1 << 20

# Sizes of files that are written or read whole, before they are scaled to the bytes that the trace moves: two
# log-normals, each (share, median in bytes, sigma). They are assumed, and have what Figure 1 of Baker et al.
# 1991 has: most runs are shorter than 10 KB, a few percent are longer than 100 KB, and these have most bytes.
# A larger file than the largest would make a step of more than a point in a curve of lifetimes.
_BODY = (0.95, 800, 1.6)
_TAIL = (0.05, 100_000, 1.3)
_LARGEST = 4 * MB
# A file is open for a quarter of a second or less (Baker et al. 1991, 4.2); the mean is assumed.
_HELD = 0.15


class Written(NamedTuple):
    """Files that were written once: when, by whom, and for how many seconds their bytes live."""

    time: Floats
    who: Who
    file: Int64s
    size: Int64s
    age: Floats


@dataclass
class Scene:
    """A trace in the making. `end` is in seconds; `written` has what can be read again."""

    rng: np.random.Generator
    rows: Rows
    people: People
    table: Fitted
    like: Like
    days: int
    written: list[Written] = field(default_factory=list)

    @property
    def end(self) -> float:
        """Return the end of the trace in seconds."""
        return self.days * DAY

    @property
    def opens(self) -> int:
        """Return how many opens the trace shall have."""
        return self.like.opens * self.days

    def mass(self, share: float) -> float:
        """Return how many bytes a share of the written bytes is."""
        return share * self.like.written_mb * MB * self.days

    def place(self, room: Floats) -> tuple[Floats, Who]:
        """Return a time before each `room`, spread as written bytes are, and who is active then."""
        time, who = self.people.pick(self.rng, times(self.rng, self.table.day.written, room, self.days))
        return np.maximum(np.minimum(time, room - 1), 0.01), who

    def elsewhere(self, who: Who) -> Who:
        """Return the same users in new processes on other clients."""
        client = (who.client + self.rng.integers(1, CLIENTS, len(who.client))) % CLIENTS
        return Who(client, who.user, self.rows.processes(len(client)))

    def sizes(self, number: int, mass: float) -> Int64s:
        """Return sizes of `number` files that have `mass` bytes together."""
        rng = self.rng
        tail = rng.random(number) < _TAIL[0]
        normal = rng.standard_normal(number)
        (_, small, low), (_, large, high) = _BODY, _TAIL
        drawn = np.where(tail, large * np.exp(high * normal), small * np.exp(low * normal))
        for _ in range(3):
            drawn = np.minimum(drawn * (mass / max(1.0, drawn.sum())), _LARGEST)
        return np.maximum(np.rint(drawn), 1).astype(np.int64)

    def ages(self, sizes: Int64s) -> Floats:
        """Return an age in seconds for files that will die, so that their bytes follow the fitted curve.

        The files are laid end to end in random order along the bytes that die, and each takes the age of its
        middle (stratified sampling). The ages at which bytes of the long simulations die are left out.
        """
        like = self.like
        ends = like.simulated_minutes
        gap = like.dead_at(ends[0]) if ends else 1.0
        order = self.rng.permutation(len(sizes))
        middle = np.cumsum(sizes[order]) - sizes[order] / 2
        dead = middle / max(1, sizes.sum()) * (like.dead[-1] - like.simulated)
        ages = np.empty(len(sizes))
        ages[order] = like.ages(np.where(dead > gap, dead + like.simulated, dead))
        return ages

    def held(self, longest: Floats) -> Floats:
        """Return for how long files stay open, less than half of what each may."""
        return np.minimum(self.rng.exponential(_HELD, len(longest)), 0.4 * longest)


def popular(rng: np.random.Generator, number: int, things: int) -> Int64s:
    """Return `number` draws of `things`, of which the n-th has a chance of about 1/n (Zipf's law)."""
    return np.minimum((things + 1) ** rng.random(number) - 1, things - 1).astype(np.int64)
