# SPDX-License-Identifier: Apache-2.0
"""Generator/Simulations: two users who run simulators on large files all day, in traces 3 and 4.

One simulator reads input files of 20 MB on average. The other produces a file of 10 MB, which is then read
again and deleted. Both are run over and over (Baker et al. 1991, 3).
"""

from itertools import pairwise

import numpy as np

from riobed_caches.compiled import Floats, Int64s
from riobed_caches.generator.people import client_of
from riobed_caches.generator.rows import Who
from riobed_caches.generator.scene import MB, Scene
from riobed_caches.trace.events import Event, Flag

_OUTPUT, _INPUT = 10 * MB, 20 * MB
# Assumed: how much a program moves at once, the pause between two reads, and how many input files there are.
_WRITTEN_AT_ONCE, _READ_AT_ONCE = 64 << 10, 1 * MB
_PAUSE = 1.0
_INPUTS = 5
_READER, _WRITER = 2, 3


def simulate(scene: Scene) -> None:
    """Add the simulations of a trace that has them."""
    for youngest, oldest in pairwise(scene.like.simulated_minutes):
        _outputs(scene, scene.like.dead_at(youngest), scene.like.dead_at(oldest))
    if scene.like.simulated:
        _inputs(scene)


def _outputs(scene: Scene, first: float, last: float) -> None:
    """Add output files whose bytes die at the ages at which the shares `first` to `last` of all bytes do.

    Each file is written in pieces, at times before its deletion that are spread as these ages are.
    """
    like, rows = scene.like, scene.rows
    mass = scene.mass(last - first)
    number = max(1, round(mass / _OUTPUT))
    pieces = max(1, round(mass / number / _WRITTEN_AT_ONCE))
    ages = like.ages(last - (last - first) * (np.arange(pieces) + 0.5) / pieces)
    died = ages[0] + 1 + (scene.end - ages[0] - 2) * (np.arange(number) + scene.rng.random(number)) / number
    file, who = rows.files(np.zeros(number, np.int64)), _who(_WRITER, rows.processes(number))
    piece, of = np.tile(np.arange(pieces), number), np.repeat(np.arange(number), pieces)
    length = round(mass / number / pieces)
    handle = rows.open(died - ages[0] - 0.001, who, file, int(Flag.FOR_WRITING | Flag.CREATED))
    written = died[of] - ages[piece]
    rows.move(written, Event.WRITE, who.at(of), file[of], handle[of], piece * length, length)
    rows.close(died - 0.9 * ages[-1], who, file, handle)
    whole = np.full(number, pieces * length)
    _read_whole(scene, died - 0.8 * ages[-1], who, file, whole, 0.7 * ages[-1])
    rows.add(died, Event.DELETE, who, file=file)


def _inputs(scene: Scene) -> None:
    """Add reads of input files, as many as are left of the bytes that simulations read."""
    rows, rng = scene.rows, scene.rng
    left = scene.like.simulated_read_mb * MB * scene.days - scene.mass(scene.like.simulated)
    number = max(0, round(left / _INPUT))
    drawn = rng.uniform(0.5, 1.5, _INPUTS)
    sizes = np.rint(_INPUT * drawn / drawn.mean()).astype(np.int64)
    chosen = rng.integers(0, _INPUTS, number)
    time = 1 + (scene.end - 60) * (np.arange(number) + rng.random(number)) / max(1, number)
    who = _who(_READER, rows.processes(number))
    _read_whole(scene, time, who, rows.files(sizes)[chosen], sizes[chosen], np.inf)


def _who(user: int, process: Int64s) -> Who:
    """Return processes of one user at its client."""
    users = np.full(len(process), user)
    return Who(client_of(users), users, process)


def _read_whole(scene: Scene, time: Floats, who: Who, file: Int64s, size: Int64s, longest: float) -> None:
    """Add reads of whole files in pieces, which end before `longest` seconds."""
    rows = scene.rows
    number = -(-size // _READ_AT_ONCE)
    pause = min(_PAUSE, longest / (1 + int(number.max(initial=0))))
    of = np.repeat(np.arange(len(time)), number)
    offset = (np.arange(len(of)) - np.repeat(np.cumsum(number) - number, number)) * _READ_AT_ONCE
    length = np.minimum(size[of] - offset, _READ_AT_ONCE)
    handle = rows.open(time, who, file, int(Flag.FOR_READING))
    read = time[of] + pause * (offset // _READ_AT_ONCE)
    rows.move(read, Event.READ, who.at(of), file[of], handle[of], offset, length)
    rows.close(time + pause * number, who, file, handle)
