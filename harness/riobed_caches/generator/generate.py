# SPDX-License-Identifier: Apache-2.0
"""Generator/Generate: makes a trace like one of the eight of Sprite."""

import math

import numpy as np

from riobed_caches.errors import TraceError
from riobed_caches.generator.fitted import Fitted, fitted
from riobed_caches.generator.people import DAY, People
from riobed_caches.generator.reads import read
from riobed_caches.generator.rows import Rows
from riobed_caches.generator.scene import Scene
from riobed_caches.generator.shared import share, shared_opens
from riobed_caches.generator.simulations import simulate
from riobed_caches.generator.writes import write
from riobed_caches.trace.file import Trace
from riobed_caches.trace.header import Has, Header

# More would have more events than a trace may.
_MOST_DAYS = 100.0
_BLIND = [
    "what paging reads and writes: programs are opened, and not read",
    "the kinds of what is no file: a directory, link or swap file is opened for neither reading nor writing",
]


def generate(like: int, seed: int, days: float = 1.0) -> Trace:
    """Return a generated trace like one of Sprite's eight (1 to 8), which begins at midnight.

    The same arguments give the same events; another seed gives others of the same fit. A part of a day is the
    beginning of the whole one. Raises TraceError if an argument is out of range.
    """
    return generate_from(fitted(), like, seed, days)


def generate_from(table: Fitted, like: int, seed: int, days: float) -> Trace:
    """Return a trace as `generate` does, from a table of parameters."""
    if like not in table.traces:
        raise TraceError(
            "generate", f"there is no trace {like}", f"choose one of {', '.join(map(str, table.traces))}"
        )
    if not 0 <= seed < 2**63:
        raise TraceError("generate", f"seed {seed} is out of range", "choose a number from 0")
    if not 0 < days <= _MOST_DAYS:
        raise TraceError(
            "generate", f"{days} days are out of range", f"choose more than 0, at most {_MOST_DAYS:g}"
        )
    whole = math.ceil(days)
    rng, rows = np.random.default_rng([like, seed]), Rows()
    people = People(rng, rows, table.traces[like], whole)
    scene = Scene(rng, rows, people, table, table.traces[like], whole)
    share(scene)
    write(scene, shared_opens(scene))
    read(scene)
    simulate(scene)
    header = Header(
        recorder="riobed generator",
        # Its last word is the number of the trace, by which it is compared with the papers.
        source=f"made up from seed {seed}, begins at midnight, like Sprite's trace {like}",
        clock="generated, in steps of 20 ms",
        has=list(Has),
        blind=_BLIND,
        seconds=days * DAY,
    )
    return rows.trace(header, days * DAY)
