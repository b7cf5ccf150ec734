# SPDX-License-Identifier: Apache-2.0
"""Generator/People: who is at work, where and when, and in which short bursts."""

from typing import NamedTuple

import numpy as np

from riobed_caches.compiled import Floats, Int64s
from riobed_caches.generator.fitted import HOURS, Day, Like
from riobed_caches.generator.rows import Rows, Who

# Workstations of the cluster, and users who work on it each day (000, 1).
CLIENTS = 40
DAILY = 30
DAY = 86400.0
# The user of daemons, mail and dumps, and the client that they run on.
ROOT, ROOT_CLIENT = 0, CLIENTS - 1

# The rest is assumed: office hours, a break, some evenings and nights, and an hour or two of a user who comes
# occasionally. Only who does something depends on it; when it is done comes from the fitted table. In an
# interval as long as a slot Baker et al. 1991 count active users.
_SLOT = 600.0
_BURST = 60.0
_BURSTS_A_SLOT = 3


class Session(NamedTuple):
    """A user at a client, from `start` to `end` in seconds."""

    client: int
    user: int
    start: float
    end: float


class People:
    """The users of a trace, in bursts of activity; where no user is active in a slot, a daemon is."""

    def __init__(self, rng: np.random.Generator, rows: Rows, like: Like, days: int) -> None:
        self.end = days * DAY
        self.migrating = np.arange(1, like.migrating + 1)
        sessions = [one for day in range(days) for one in _sessions(rng, like.users, day * DAY)]
        start, client, user = _bursts(rng, sessions, like.active_users, self.end)
        order = np.argsort(start)
        self._start = start[order]
        self._who = Who(client[order], user[order], rows.processes(len(order)))
        edges = np.arange(0, self.end + 1, _SLOT)
        self._first = np.searchsorted(self._start, edges)

    def pick(self, rng: np.random.Generator, time: Floats) -> tuple[Floats, Who]:
        """Move each time to a burst in its slot; return the new times, and who is active then."""
        slot = np.minimum((time / _SLOT).astype(np.int64), len(self._first) - 2)
        first, behind = self._first[slot], self._first[slot + 1]
        burst = first + (rng.random(len(time)) * (behind - first)).astype(np.int64)
        moved = self._start[burst] + _BURST * rng.random(len(time))
        return np.clip(moved, 1.0, self.end - 1.0), self._who.at(burst)

    def next_burst(self, user: Int64s, time: Floats) -> Floats:
        """Return when each user's next burst behind `time` begins; infinity if there is none."""
        order = np.lexsort((self._start, self._who.user))
        key = self._who.user[order] * 2 * self.end + self._start[order]
        found = np.searchsorted(key, user * 2 * self.end + time, side="right")
        start, whose = np.append(self._start[order], np.inf), np.append(self._who.user[order], -1)
        return np.where(whose[found] == user, start[found], np.inf)


def client_of(user: Int64s) -> Int64s:
    """Return the workstation of each user; those who come occasionally share the last ones."""
    return np.where(user <= DAILY, user - 1, DAILY + user % (CLIENTS - DAILY))


def _sessions(rng: np.random.Generator, users: int, midnight: float) -> list[Session]:
    """Return the sessions of one day."""
    spans: list[tuple[int, float, float]] = []
    for user in range(1, users + 1):
        if user > DAILY:
            start = rng.uniform(9, 22)
            spans.append((user, start, start + rng.uniform(0.5, 2)))
            continue
        start, noon, end = rng.normal(9.5, 1), rng.normal(12.5, 0.5), rng.normal(18, 1.5)
        spans += [(user, start, noon), (user, noon + 1, end)]
        if rng.random() < 0.4:
            spans.append((user, 20.0, rng.uniform(22, 24)))
        if rng.random() < 0.25:
            spans.append((user, 0.0, rng.uniform(1, 8)))
    homes = client_of(np.arange(users + 1))
    return [
        Session(int(homes[user]), user, midnight + 3600 * start, midnight + 3600 * min(end, 24.0))
        for user, start, end in spans
    ]


def _bursts(
    rng: np.random.Generator, sessions: list[Session], active: float, end: float
) -> tuple[Floats, Int64s, Int64s]:
    """Return start, client and user of the bursts.

    In each slot a user who is present is active with the chance that makes the mean number of active users
    `active`. Activity is uneven: the mean number of bursts of a user is drawn from an exponential.
    """
    slots = [np.arange(one.start // _SLOT, one.end // _SLOT) for one in sessions]
    chance = active * end / _SLOT / max(1, sum(map(len, slots)))
    busy = rng.exponential(_BURSTS_A_SLOT, 1 + max(session.user for session in sessions))
    who, begun = [], []
    for session, slot in zip(sessions, slots, strict=True):
        number = (rng.random(len(slot)) < chance) * (1 + rng.poisson(busy[session.user], len(slot)))
        begun.append(np.repeat(slot, number))
        who.append(np.tile([session.client, session.user], (int(number.sum()), 1)))
    empty = np.setdiff1d(np.arange(end // _SLOT), np.concatenate(begun))
    begun.append(empty)
    who.append(np.tile([ROOT_CLIENT, ROOT], (len(empty), 1)))
    slot, (client, user) = np.concatenate(begun), np.concatenate(who).T
    return slot * _SLOT + rng.random(len(slot)) * (_SLOT - _BURST), client, user


def interval_of(time: Floats) -> Int64s:
    """Return the interval of HOURS that each time is in; hours behind the last belong to the first."""
    return np.searchsorted(HOURS, time % DAY / 3600, side="right") % len(HOURS)


def times(rng: np.random.Generator, shares: list[float], room: Floats, days: int) -> Floats:
    """Return a time in seconds for each `room`, before it, spread over days as `shares` over the intervals.

    The draw is stratified, so that each interval gets its share to within one if all of the time is open.
    """
    lengths = np.diff([HOURS[-1] - 24, *HOURS])
    night, rest = shares[0], shares[1:]
    early = night * HOURS[0] / lengths[0]
    day = np.cumsum([0.0, early, *rest, night - early])
    hours = np.array([0, *HOURS, 24]) * 3600.0
    edges = np.concatenate([hours[:-1] + DAY * n for n in range(days)] + [[DAY * days]])
    reached = np.concatenate([day[:-1] + day[-1] * n for n in range(days)] + [[day[-1] * days]])
    drawn = (rng.permutation(len(room)) + rng.random(len(room))) / max(1, len(room))
    return np.asarray(np.interp(drawn * np.interp(room, edges, reached), reached, edges))


def counts(shares: list[float], of: list[float], total: float) -> Int64s:
    """Return how many opens of a kind each interval has, if they are the shares `of` of its opens."""
    return np.asarray(np.rint(total * np.array(shares) * np.array(of)), np.int64)


def when(rng: np.random.Generator, day: Day, of: list[float], total: float, days: int) -> Floats:
    """Return times of opens of a kind that are the shares `of` of each interval's opens."""
    number = counts(day.opens, of, total * days)
    shares = [float(n) for n in number / max(1, number.sum())]
    return times(rng, shares, np.full(int(number.sum()), DAY * days), days)
