# SPDX-License-Identifier: Apache-2.0
"""Generator/Reads: programs that are run, directories, files that were just written, and other files."""

import numpy as np

from riobed_caches.compiled import Bools, Floats, Int64s, compiled
from riobed_caches.generator.fitted import HOURS
from riobed_caches.generator.people import CLIENTS, DAY, ROOT, ROOT_CLIENT, counts, interval_of, times, when
from riobed_caches.generator.rows import Rows, Who
from riobed_caches.generator.scene import MB, Scene, Written, popular
from riobed_caches.trace.events import Event, Flag

# Assumed, because no text tells: how many programs and directories there are, for how long they stay open
# (median and sigma of a log-normal; a program as long as it runs), and when the dump walks directories.
_PROGRAMS, _DIRECTORIES = 100, 2000
_RUNS, _WALKED = (0.2, 1.5), (0.02, 0.5)
_DUMP = (2 * 3600.0, 4 * 3600.0)
# Of reads: the share of whole files and of other sequential runs, the rest being random (Baker et al. 1991,
# Table 3), and of a random one how many runs it has, and which part of the file each reads (assumed).
_WHOLE, _SEQUENTIAL = 0.78, 0.19
_RUNS_OF_RANDOM, _PART = 4, 0.05
_DELAY = 30.0
# Seconds between the events of a read.
_BETWEEN = 0.01
_READ = int(Flag.FOR_READING)


def read(scene: Scene) -> None:
    """Add all that is only read; what is written must be there before."""
    _read_again(scene)
    _run_programs(scene)
    _walk_directories(scene)
    _read_files(scene)


def _read_again(scene: Scene) -> None:
    """Add reads of files within 30 s of their being written, by the client that wrote them.

    They fill up what rewritten files do not yet make of 004's opens by the last writer.
    """
    rng, day = scene.rng, scene.table.day
    written = _joined(scene.written)
    wanted = counts(day.opens, day.last_writer, scene.opens) - _rewritten(scene.rows)
    again = np.flatnonzero(written.age > 1.0)
    interval = interval_of(written.time[again])
    chosen = np.concatenate(
        [rng.permutation(again[interval == i])[: max(0, number)] for i, number in enumerate(wanted)]
    )
    room = np.minimum(written.age[chosen], _DELAY)
    # The file was closed before 0.4 of its life had passed (`Scene.held`).
    time = written.time[chosen] + rng.uniform(0.5, 0.9, len(chosen)) * room
    who, file, size = written.who.at(chosen), written.file[chosen], written.size[chosen]
    scene.rows.access(time, Event.READ, who, file, size, scene.held(0.1 * room), flags=_READ)


def _joined(written: list[Written]) -> Written:
    """Return all written files in one."""
    columns = [
        np.concatenate([getattr(one, name) for one in written]) for name in ("time", "file", "size", "age")
    ]
    who = Who(*(np.concatenate(part) for part in zip(*(one.who for one in written), strict=True)))
    return Written(columns[0], who, columns[1], columns[2], columns[3])


def _rewritten(rows: Rows) -> Int64s:
    """Return how many opens of each interval are of a file that the same client wrote within 30 s before."""
    event = rows.column("event")
    mine = (event == Event.OPEN) | (event == Event.WRITE)
    columns = (rows.column(name)[mine] for name in ("time", "client", "file"))
    time, client, file = columns
    order = np.lexsort((time, file))
    time, client, file, event = time[order], client[order], file[order], event[mine][order]
    follows = (np.diff(file, prepend=-1) == 0) & (np.diff(client, prepend=-1) == 0)
    soon = np.diff(time, prepend=0) <= _DELAY * 1e6
    wrote = np.roll(event == Event.WRITE, 1)
    found = time[(event == Event.OPEN) & follows & soon & wrote].astype(np.float64) / 1e6
    return np.bincount(interval_of(found), minlength=len(HOURS))


def _run_programs(scene: Scene) -> None:
    """Add opens of programs; daemons have each open all day, so that it is shared (004, 3).

    A program's pages come from the paging system, and not from the file cache, so that nothing is read.
    """
    rng, rows, day = scene.rng, scene.rows, scene.table.day
    programs = rows.files(scene.sizes(_PROGRAMS, _PROGRAMS * 100_000.0))
    host = np.arange(_PROGRAMS) % CLIENTS
    daemons = Who(host, np.full(_PROGRAMS, ROOT), rows.processes(_PROGRAMS))
    rows.open(np.zeros(_PROGRAMS), daemons, programs, _READ)
    time, who = scene.people.pick(rng, when(rng, day, day.read_shared, scene.like.opens, scene.days))
    number = len(time)
    runs = who._replace(process=rows.processes(number))
    held = _RUNS[0] * rng.lognormal(0, _RUNS[1], number)
    file = programs[popular(rng, number, _PROGRAMS)]
    rows.close(time + held, runs, file, rows.open(time, runs, file, _READ))


def _walk_directories(scene: Scene) -> None:
    """Add opens of what is no file, which are for neither reading nor writing in the trace.

    What the night has more of than the mean of the other intervals is the nightly dump (004, 3).
    """
    rng, rows, day = scene.rng, scene.rows, scene.table.day
    directories = rows.files(np.full(_DIRECTORIES, 512))
    usual = min(day.non_file[0], float(np.mean(day.non_file[1:])))
    time, who = scene.people.pick(
        rng, when(rng, day, [usual, *day.non_file[1:]], scene.like.opens, scene.days)
    )
    dumped = round(day.opens[0] * (day.non_file[0] - usual) * scene.opens)
    night = rng.integers(0, scene.days, dumped) * DAY + rng.uniform(*_DUMP, dumped)
    dump = Who(np.full(dumped, ROOT_CLIENT), np.full(dumped, ROOT), np.repeat(rows.processes(1), dumped))
    who = Who(*(np.concatenate(pair) for pair in zip(who, dump, strict=True)))
    time = np.concatenate([time, night])
    held = _WALKED[0] * rng.lognormal(0, _WALKED[1], len(time))
    file = directories[popular(rng, len(time), _DIRECTORIES)]
    rows.close(time + held, who, file, rows.open(time, who, file, int(Flag.NONE)))


def _read_files(scene: Scene) -> None:
    """Add reads of files that are not written in the trace, up to its opens and its read bytes.

    Which file a client reads is drawn as in `_references`.
    """
    rng, rows, like = scene.rng, scene.rows, scene.like
    opened = rows.column("time")[rows.column("event") == Event.OPEN].astype(np.float64) / 1e6
    wanted = np.rint(np.array(scene.table.day.opens) * scene.opens)
    wanted = np.maximum(0, wanted - np.bincount(interval_of(opened), minlength=len(HOURS)))
    number = int(wanted.sum())
    shares = [float(n) for n in wanted / max(1, number)]
    time, who = scene.people.pick(rng, times(rng, shares, np.full(number, scene.end), scene.days))
    order = np.lexsort((time, who.client))
    time, who = time[order], who.at(order)
    new = rng.random(number) >= scene.table.reread
    which, files = _references(who.client, new, rng.random(number))
    have = float(rows.column("length")[rows.column("event") == Event.READ].sum())
    mass = (like.read_mb - like.simulated_read_mb) * MB * scene.days - have
    _runs(scene, time, who, which, files, max(1.0, mass))


@compiled
def _references(client: Int64s, new: Bools, back: Floats) -> tuple[Int64s, int]:
    """Return the file of each read, and how many files there are; reads of a client stand together.

    A read that is not `new` is of the file that the client read d reads before, d being log-uniform over all
    its reads so far: the chance of a file falls with the time since it was read, and no scale stands out.
    With a fitted share of such reads the caches of Sprite have their effect (`fit_reread`).
    """
    file = np.empty(client.size, np.int64)
    files = 0
    first = 0
    for i in range(client.size):
        if i and client[i] != client[i - 1]:
            first = i
        if i == first or new[i]:
            file[i] = files
            files += 1
        else:
            file[i] = file[i - int(np.exp(back[i] * np.log(i - first + 1.0)))]
    return file, files


def _runs(scene: Scene, time: Floats, who: Who, which: Int64s, files: int, mass: float) -> None:
    """Add reads of files in runs, which have `mass` bytes together."""
    rng, rows, number = scene.rng, scene.rows, len(time)
    drawn = rng.random(number)
    random = drawn >= _WHOLE + _SEQUENTIAL
    part = np.where(drawn < _WHOLE, 1.0, rng.random(number))
    part[random] = _PART
    runs = np.where(random, _RUNS_OF_RANDOM, 1)
    size = scene.sizes(files, mass)
    size = np.maximum(1, np.rint(size * mass / (runs * part * size[which]).sum())).astype(np.int64)
    file = rows.files(size)[which]
    length = np.maximum(1, np.rint(part * size[which])).astype(np.int64)
    of = np.repeat(np.arange(number), runs)
    run = np.arange(len(of)) - np.repeat(np.cumsum(runs) - runs, runs)
    last = (size[which] - length)[of]
    offset = np.where(random[of], (rng.random(len(of)) * (last + 1)).astype(np.int64), 0)
    handle = rows.open(time, who, file, _READ)
    read = time[of] + _BETWEEN * (run + 1)
    rows.move(read, Event.READ, who.at(of), file[of], handle[of], offset, length[of])
    rows.close(time + _BETWEEN * (runs + 1), who, file, handle)
