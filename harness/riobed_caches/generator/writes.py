# SPDX-License-Identifier: Apache-2.0
"""Generator/Writes: what users write, and how its bytes end.

Temporary files of compilers and editors are created and deleted; results are replaced as a whole; records and
pages of a data base are overwritten in place; logs grow; mail and objects are handed to another client, which
recalls them; the rest remains. Which activity has how many bytes follows from the fitted fates.
"""

from dataclasses import dataclass

import numpy as np

from riobed_caches.compiled import Floats, Int64s
from riobed_caches.generator.people import DAILY, ROOT, ROOT_CLIENT, client_of, when
from riobed_caches.generator.rows import Who
from riobed_caches.generator.scene import Scene, Written
from riobed_caches.trace.events import Event, Flag

# The rest of these numbers is assumed. How many records are rewritten, lines appended to logs and mails to
# mailboxes, as shares of the number of opens for reading and writing.
_RECORDS, _LOGS, _MAIL = 0.25, 0.15, 0.1
# Half of the overwritten bytes are those of the data base benchmarks (000, 3), which write a page between
# two of the fsyncs of a transaction.
_DATABASE = 0.5
_PAGE, _FSYNCS = 4096, 5
_PAUSE = 0.02
# How often a file is rewritten before its bytes stay, and for how much of the trace at most.
_CHAIN, _CHAIN_PART = 8, 0.5
_LOG_BYTES, _MAIL_BYTES = 300, 2000
# Seconds of dirty data that a recall within, and one behind, the delay of 30 s finds.
_QUICK, _LATE = (1.0, 28.0), (40.0, 6 * 3600.0)
# Of the quick recalls, the share of pmake's jobs, which cause two each: the commands and the object.
_JOBS = 0.25
_COMMANDS = 300

_NEW = Flag.FOR_WRITING | Flag.CREATED
_BOTH = Flag.FOR_READING | Flag.FOR_WRITING


@dataclass
class _Budget:
    """What is left: opens, those for reading and writing among them, truncations, and bytes."""

    opens: float
    both: float
    truncations: int
    deleted: float
    called_back: float
    remaining: float
    synced: float

    @property
    def mean(self) -> float:
        """Return the bytes that a file of what is left has on average."""
        return (self.deleted + self.called_back + self.remaining) / max(1.0, self.opens)


def write(scene: Scene, shared_opens: int) -> None:
    """Add all that is written, but for what the simulations and concurrent writers write.

    `shared_opens` of the opens for reading and writing are left to concurrent writers.
    """
    like, table = scene.like, scene.table
    both = table.read_write * scene.opens
    budget = _Budget(
        opens=table.write_only * scene.opens + both - shared_opens,
        both=both - shared_opens,
        truncations=like.truncations * scene.days,
        deleted=scene.mass(like.deleted - like.simulated),
        called_back=scene.mass(like.called_back),
        remaining=scene.mass(like.remaining),
        synced=scene.mass(like.fsynced),
    )
    _database(scene, budget)
    _records(scene, budget, round(_RECORDS * both))
    _logs(scene, budget, round(_LOGS * both))
    _mail(scene, budget, round(_MAIL * both))
    recalls = when(scene.rng, table.day, table.day.recalls, like.opens, scene.days)
    jobs = round(_JOBS * len(recalls))
    budget.opens -= jobs
    budget.both -= jobs
    _created(scene, budget, recalls, jobs)


def _created(scene: Scene, budget: _Budget, recalls: Floats, jobs: int) -> None:
    """Add the files that are written whole, with what is left of the budget."""
    mean, opens = budget.mean, budget.opens
    replaced = max(0, min(budget.truncations, round(0.5 * budget.deleted / mean)))
    plain = opens - replaced
    flags = _Modes(scene, budget.both / max(1.0, plain))
    deleted = round(budget.deleted / mean)
    _replaced(scene, replaced, budget.deleted * replaced / max(1, deleted))
    _temporary(scene, flags, deleted - replaced, budget.deleted * (1 - replaced / max(1, deleted)))
    quick = len(recalls) - jobs
    late = max(0, round(budget.called_back / mean) - quick)
    sizes = scene.sizes(quick + late, budget.called_back)
    can_sync = sizes[quick:].sum() + budget.remaining
    synced = min(1.0, max(0.0, budget.synced) / max(1.0, can_sync))
    _jobs(scene, recalls[:jobs], sizes[:jobs])
    _handed_soon(scene, flags, recalls[2 * jobs :], sizes[jobs:quick])
    _handed_late(scene, flags, sizes[quick:], synced)
    _kept(scene, flags, round(budget.remaining / mean), budget.remaining, synced)
    _old_files(scene)


class _Modes:
    """The flags of creating opens: a share is for reading, too."""

    def __init__(self, scene: Scene, both: float) -> None:
        self._rng, self._both = scene.rng, both

    def __call__(self, number: int) -> Int64s:
        chosen = self._rng.random(number) < self._both
        return np.where(chosen, int(_NEW | Flag.FOR_READING), int(_NEW))


def _chains(scene: Scene, ages: Floats) -> tuple[Int64s, Floats, Floats]:
    """Put lives one behind the other in chains.

    Return the chain of each life, the seconds between the starts of its chain and of itself, and how many
    seconds each chain lasts.
    """
    chain, start, total = np.zeros(len(ages), np.int64), np.zeros(len(ages)), [0.0]
    links = 0
    for i, age in enumerate(ages):
        if links == _CHAIN or (links and total[-1] + age > _CHAIN_PART * scene.end):
            total.append(0.0)
            links = 0
        chain[i], start[i] = len(total) - 1, total[-1]
        total[-1] += age
        links += 1
    return chain, start, np.array(total)


def _database(scene: Scene, budget: _Budget) -> None:
    """Add transactions on groups of pages: each page is written and then forced (000, 3)."""
    rows, group = scene.rows, _FSYNCS * _PAGE
    number = round(_DATABASE * scene.mass(scene.like.overwritten) / group)
    if number == 0:
        return
    ages = scene.ages(np.full(number, group))
    chain, start, total = _chains(scene, ages)
    begin, _ = scene.place(scene.end - total - 2)
    # The last write of a group is not overwritten, and remains.
    time = np.concatenate([begin[chain] + start, begin + total])
    offset = np.concatenate([chain, np.arange(len(total))]) * group
    user = np.ones(1, np.int64)
    one = Who(client_of(user), user, rows.processes(1))
    file = rows.files(np.array([len(total) * group]))
    handle = rows.open(np.array([time.min() - 0.005]), one, file, int(_BOTH))
    who = one.at(np.zeros(len(time), np.int64))
    rows.move(time - 0.002, Event.READ, who, file, handle, offset, group)
    for page in range(_FSYNCS):
        now = time + page * _PAUSE
        rows.move(now, Event.WRITE, who, file, handle, offset + page * _PAGE, _PAGE)
        rows.add(now + _PAUSE / 2, Event.FSYNC, who, file=file, handle=handle)
    rows.close(np.array([time.max() + 1]), one, file, handle)
    budget.remaining -= len(total) * group
    budget.synced -= len(time) * group
    budget.opens -= 1
    budget.both -= 1


def _records(scene: Scene, budget: _Budget, number: int) -> None:
    """Add records of files that are read and written again in place."""
    rows = scene.rows
    mass = (1 - _DATABASE) * scene.mass(scene.like.overwritten)
    ages = scene.ages(np.full(number, 1))
    chain, start, total = _chains(scene, ages)
    drawn = scene.rng.exponential(1, len(total)) + 0.1
    size = np.maximum(1, np.rint(drawn * mass / drawn[chain].sum())).astype(np.int64)
    begin, who = scene.place(scene.end - total - 2)
    time = np.concatenate([begin[chain] + start, begin + total])
    of = np.concatenate([chain, np.arange(len(total))])
    where = (scene.rng.random(len(total)) * 4 * size).astype(np.int64)
    who, file = who.at(of), rows.files(5 * size)[of]
    held = scene.held(np.concatenate([ages, np.full(len(total), 1.0)]))
    handle = rows.open(time - 0.0004, who, file, int(_BOTH))
    rows.move(time - 0.0002, Event.READ, who, file, handle, where[of], size[of])
    rows.move(time, Event.WRITE, who, file, handle, where[of], size[of])
    rows.close(time + held, who, file, handle)
    budget.remaining -= float(size.sum())
    budget.opens -= len(of)
    budget.both -= len(of)


def _logs(scene: Scene, budget: _Budget, number: int) -> None:
    """Add lines at the end of a log of each client."""
    time, who = scene.place(np.full(number, scene.end))
    order = np.lexsort((time, who.client))
    time, who = time[order], who.at(order)
    size = 1 + scene.rng.exponential(_LOG_BYTES, number).astype(np.int64)
    clients, first, log = np.unique(who.client, return_index=True, return_inverse=True)
    before = np.cumsum(size) - size
    old = np.full(len(clients), 100 * _LOG_BYTES)
    file, offset = scene.rows.files(old)[log], old[log] + before - before[first][log]
    held = scene.held(np.full(number, 1.0))
    scene.rows.access(time, Event.WRITE, who, file, size, held, flags=int(_BOTH), offset=offset)
    budget.remaining -= float(size.sum())
    budget.opens -= number
    budget.both -= number


def _mail(scene: Scene, budget: _Budget, number: int) -> None:
    """Add mail, which a daemon appends to a mailbox; its reader empties it at the next burst of activity."""
    rows, rng = scene.rows, scene.rng
    time, _ = scene.place(np.full(number, scene.end))
    user = rng.integers(1, DAILY, number)
    fetched = np.minimum(scene.people.next_burst(user, time + 1), scene.end)
    order = np.lexsort((time, fetched, user))
    time, user, fetched = time[order], user[order], fetched[order]
    size = 1 + rng.exponential(_MAIL_BYTES, number).astype(np.int64)
    another = (np.diff(fetched, prepend=-1) != 0) | (np.diff(user, prepend=-1) != 0)
    first = np.flatnonzero(another)
    box = np.cumsum(another) - 1
    before = np.cumsum(size) - size
    mailbox = rows.files(np.zeros(DAILY + 1, np.int64))
    held = scene.held(np.full(number, 0.02))
    daemon = Who(np.full(number, ROOT_CLIENT), np.full(number, ROOT), np.repeat(rows.processes(1), number))
    offset = before - before[first][box]
    rows.access(
        time, Event.WRITE, daemon, mailbox[user], size, held, flags=int(Flag.FOR_WRITING), offset=offset
    )
    came = fetched < scene.end
    whole = np.bincount(box, size).astype(np.int64)
    fetches = first[came[first]]
    _fetch(scene, mailbox, user[fetches], fetched[fetches], whole[box[fetches]])
    budget.called_back -= float(size[came].sum())
    budget.remaining -= float(size[~came].sum())
    budget.opens -= number + len(fetches)
    budget.both -= len(fetches)
    budget.truncations -= len(fetches)


def _fetch(scene: Scene, mailbox: Int64s, user: Int64s, time: Floats, length: Int64s) -> None:
    """Add users who read their mailbox and empty it."""
    rows, file = scene.rows, mailbox[user]
    who = Who(client_of(user), user, rows.processes(len(user)))
    handle = rows.open(time, who, file, int(_BOTH))
    rows.move(time + 0.001, Event.READ, who, file, handle, 0, length)
    rows.add(time + 0.002, Event.TRUNCATE, who, file=file, handle=handle, size=0)
    rows.close(time + 0.003, who, file, handle)


def _replaced(scene: Scene, number: int, mass: float) -> None:
    """Add files that are emptied and written whole, again and again, and are deleted in the end."""
    rows = scene.rows
    size = scene.sizes(number, mass)
    ages = scene.ages(size)
    chain, start, total = _chains(scene, ages)
    begin, who = scene.place(scene.end - total - 2)
    time = begin[chain] + start
    file = rows.files(scene.rng.permutation(size)[: len(total)])
    flags = int(Flag.FOR_WRITING | Flag.EMPTIED)
    held = scene.held(ages)
    rows.access(time, Event.WRITE, who.at(chain), file[chain], size, held, flags=flags)
    rows.add(begin + total, Event.DELETE, who, file=file)


def _temporary(scene: Scene, flags: _Modes, number: int, mass: float) -> None:
    """Add files that are created and deleted."""
    size = scene.sizes(number, mass)
    ages = scene.ages(size)
    time, who = scene.place(scene.end - ages - 2)
    file = scene.rows.files(np.zeros(number, np.int64))
    scene.rows.access(time, Event.WRITE, who, file, size, scene.held(ages), flags=flags(number))
    scene.rows.add(time + ages, Event.DELETE, who, file=file)
    scene.written.append(Written(time, who, file, size, ages))


def _kept(scene: Scene, flags: _Modes, number: int, mass: float, synced: float) -> None:
    """Add files that are created and remain; some are forced, as editors do (004, 2)."""
    size = scene.sizes(number, mass)
    time, who = scene.place(np.full(number, scene.end))
    file = scene.rows.files(np.zeros(number, np.int64))
    forced = scene.rng.random(number) < synced
    held = scene.held(np.full(number, 1.0))
    scene.rows.access(time, Event.WRITE, who, file, size, held, flags=flags(number), synced=forced)
    scene.written.append(Written(time, who, file, size, scene.end - time))


def _handed_soon(scene: Scene, flags: _Modes, recalled: Floats, size: Int64s) -> None:
    """Add files that are created, and opened on another client within the delay."""
    number = len(recalled)
    time, reader = scene.people.pick(scene.rng, recalled)
    ages = np.minimum(scene.rng.uniform(*_QUICK, number), time / 2)
    file, writer = scene.rows.files(np.zeros(number, np.int64)), scene.elsewhere(reader)
    scene.rows.access(time - ages, Event.WRITE, writer, file, size, scene.held(ages), flags=flags(number))
    held = scene.held(np.full(number, 1.0))
    scene.rows.access(time, Event.READ, reader, file, size, held, flags=int(Flag.FOR_READING))


def _handed_late(scene: Scene, flags: _Modes, size: Int64s, synced: float) -> None:
    """Add files that are created, and opened on another client behind the delay."""
    number, rng = len(size), scene.rng
    ages = _LATE[0] * (_LATE[1] / _LATE[0]) ** rng.random(number)
    time, writer = scene.place(scene.end - ages - 2)
    file, reader = scene.rows.files(np.zeros(number, np.int64)), scene.elsewhere(writer)
    forced = rng.random(number) < synced
    held = scene.held(np.full(number, 1.0))
    scene.rows.access(time, Event.WRITE, writer, file, size, held, flags=flags(number), synced=forced)
    scene.rows.access(time + ages, Event.READ, reader, file, size, held, flags=int(Flag.FOR_READING))
    scene.written.append(Written(time, writer, file, size, ages))


def _jobs(scene: Scene, recalled: Floats, size: Int64s) -> None:
    """Add jobs of pmake: a process writes its commands, moves, reads them and writes an object (004, 3).

    The move carries the open file of commands along; its dirty bytes are called back. The client that the
    process came from reads the object soon, and deletes the commands.
    """
    rows, rng, number = scene.rows, scene.rng, len(recalled)
    time, _ = scene.people.pick(rng, recalled)
    ages = np.minimum(rng.uniform(*_QUICK, number), time / 2)
    wrote = time - ages
    user = rng.choice(scene.people.migrating, number)
    home = Who(client_of(user), user, rows.processes(number))
    away = scene.elsewhere(home)._replace(process=home.process)
    commands = rows.files(np.zeros(number, np.int64))
    begin = np.maximum(wrote - 0.5, 0.01)
    handle = rows.open(begin, home, commands, int(_NEW | Flag.FOR_READING))
    rows.move(begin + 0.001, Event.WRITE, home, commands, handle, 0, _COMMANDS)
    rows.add(begin + 0.002, Event.MIGRATE, home)
    rows.move(begin + 0.003, Event.READ, away, commands, handle, 0, _COMMANDS)
    rows.close(begin + 0.004, away, commands, handle)
    objects = rows.files(np.zeros(number, np.int64))
    rows.access(wrote, Event.WRITE, away, objects, size, scene.held(ages), flags=int(_NEW))
    held = scene.held(np.full(number, 1.0))
    parent = home._replace(process=rows.processes(number))
    rows.access(time, Event.READ, parent, objects, size, held, flags=int(Flag.FOR_READING))
    rows.add(time + 1, Event.DELETE, parent, file=commands)


def _old_files(scene: Scene) -> None:
    """Add deletes of files from before the trace, up to the number of its deletes."""
    events = scene.rows.column("event")
    number = max(0, scene.like.deletes * scene.days - int((events == Event.DELETE).sum()))
    time, who = scene.place(np.full(number, scene.end))
    scene.rows.add(time, Event.DELETE, who, file=scene.rows.files(scene.sizes(number, number * 10_000.0)))
