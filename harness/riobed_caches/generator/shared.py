# SPDX-License-Identifier: Apache-2.0
"""Generator/Shared: files that two clients write at the same time, such as logs of the system (004, 3)."""

import numpy as np

from riobed_caches.compiled import Floats, Int64s
from riobed_caches.generator.people import counts, interval_of, when
from riobed_caches.generator.rows import Who
from riobed_caches.generator.scene import Scene
from riobed_caches.trace.events import Event, Flag

_FILES = 10
# Seconds from the start of an episode: the open, write and close of each taker part. Assumed.
_FIRST, _SECOND, _FURTHER = (0.0, 2.0, 4.0), (1.0, 2.2, 3.5), (1.5, 2.5, 3.0)
_LONGEST = 6.0


def shared_opens(scene: Scene) -> int:
    """Return how many opens `share` adds."""
    day = scene.table.day
    return int(
        sum(counts(day.opens, [a + b for a, b in zip(day.stopped, day.uncached, strict=True)], scene.opens))
    )


def share(scene: Scene) -> None:
    """Add episodes of concurrent write-sharing.

    In an episode a client has a file open when another client opens it for writing: the first client stops
    caching it, and the second one's open finds it uncachable. Further opens of the first client follow, up to
    the fitted number of uncachable opens in each interval. Each open writes once.
    """
    rng, day = scene.rng, scene.table.day
    begin, first = scene.people.pick(rng, when(rng, day, day.stopped, scene.like.opens, scene.days))
    begin = np.minimum(begin, scene.end - _LONGEST)
    order = np.argsort(begin)
    begin, first = begin[order], first.at(order)
    further = _further(scene, begin)
    episode = np.concatenate([np.arange(len(begin)), np.arange(len(begin)), further])
    second = scene.elsewhere(first)
    who = Who(*(np.concatenate([a, b, a[further]]) for a, b in zip(first, second, strict=True)))
    parts = np.repeat([_FIRST, _SECOND, _FURTHER], [len(begin), len(begin), len(further)], axis=0)
    length = max(1, round(scene.mass(scene.like.concurrent) / max(1, len(episode))))
    _episodes(scene, begin[episode, None] + parts, who, episode % _FILES, length)


def _further(scene: Scene, begin: Floats) -> Int64s:
    """Return the episodes of the further opens."""
    day = scene.table.day
    more = [a - b for a, b in zip(day.uncached, day.stopped, strict=True)]
    interval = interval_of(begin)
    chosen = [
        scene.rng.choice(np.flatnonzero(interval == i), number)
        for i, number in enumerate(counts(day.opens, more, scene.opens))
        if (interval == i).any()
    ]
    return np.concatenate(chosen) if chosen else np.zeros(0, np.int64)


def _episodes(scene: Scene, times: Floats, who: Who, which: Int64s, length: int) -> None:
    """Add the opens, appending writes and closes at `times` (three columns)."""
    rows = scene.rows
    old = np.full(_FILES, 10_000)
    file = rows.files(old)[which]
    order = np.lexsort((times[:, 1], which))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    first = np.searchsorted(which[order], np.arange(_FILES))
    offset = old[0] + (rank - first[which]) * length
    handle = rows.open(times[:, 0], who, file, int(Flag.FOR_READING | Flag.FOR_WRITING))
    rows.move(times[:, 1], Event.WRITE, who, file, handle, offset, length)
    rows.close(times[:, 2], who, file, handle)
