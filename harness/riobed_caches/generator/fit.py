# SPDX-License-Identifier: Apache-2.0
"""Generator/Fit: computes fitted.yaml from points of the papers; `python -m riobed_caches.generator.fit`.

Used are Figure 2 and Table 2 of 000 and sentences of its text, Tables 5 and 11 of 004 and its sentence on the
modes of opens, and Table 1 of Baker et al. 1991, which describes the same eight traces. Figures 3 to 6 and
Tables 3 and 4 of 000 are held out: nothing here may read them.
"""

from collections import OrderedDict, defaultdict
from pathlib import Path

import numpy as np
import yaml

from riobed_caches.compiled import Floats
from riobed_caches.generator.fitted import HOURS, Day, Fitted, Like
from riobed_caches.generator.generate import generate_from
from riobed_caches.papers.points import Fates, figure, tables
from riobed_caches.trace.events import Event
from riobed_caches.trace.file import Trace
from riobed_caches.whole import replacing

# Traces 3 and 4 have the two long simulations (000, 2.2).
SIMULATED = (3, 4)
# Their bytes die between the age at which their curves of Figure 2 begin to fall and half an hour (000, 2.3).
# A simulation's run ends before the middle one, where the steep part of both curves ends.
_SIMULATED_MINUTES = [1.0, 3.98, 32.1]
_MB, _BLOCK = 1 << 20, 4096


def fit(reread: float) -> Fitted:
    """Return the fitted parameters, with this share of file reads that are of a file read before."""
    sentences = tables().sentences
    return Fitted(
        write_only=round(sentences["write_only_percent"].value / 100, 6),
        read_write=round(sentences["read_write_percent"].value / 100, 6),
        reread=reread,
        day=_day(),
        traces={number: _like(number) for number in sorted(tables().traces)},
    )


def _day() -> Day:
    """Return the day of 004's Table 5, which was measured in the months of the traces.

    Bytes are spread over the day as in Table 11. Its first interval begins at 20 h; what belongs to the hours
    to 23 h is their part by length, because Table 11 tells no more.
    """
    rows = [tables().opens_1991[str(hour)] for hour in HOURS]
    opens = np.array([row.opens for row in rows])
    percents = {
        name: [round(getattr(row, name) / 100, 6) for row in rows]
        for name in Day.model_fields
        if name in _PERCENTS
    }
    rates = np.array([tables().writes_1989[str(hour)].cache for hour in (*HOURS[:-1], HOURS[0])])
    written = rates * np.diff([HOURS[-1] - 24, *HOURS])
    return Day(opens=_rounded(opens / opens.sum()), written=_rounded(written / written.sum()), **percents)


_PERCENTS = ("non_file", "uncached", "read_shared", "last_writer", "recalls", "stopped")


def _like(number: int) -> Like:
    """Return the parameters of one trace."""
    traced = tables().traces[number]
    curve = figure(2)[str(number)]
    dead = np.maximum.accumulate(1 - curve.y / 100)
    written_mb = _written(number)
    fates = _fates(number, float(dead[-1]))
    like = Like(
        users=traced.users,
        active_users=round(_active_users(number), 2),
        migrating=traced.migrating,
        opens=traced.opens,
        truncations=traced.truncations,
        deletes=traced.deletes,
        written_mb=round(written_mb, 2),
        read_mb=round(written_mb * traced.read_mb / traced.written_mb, 2),
        minutes=[float(x) for x in curve.x],
        dead=_rounded(dead),
        simulated_minutes=_SIMULATED_MINUTES if number in SIMULATED else [],
        simulated_read_mb=0.0,
        fsynced=0.0,
        **fates,
    )
    more = {"fsynced": _fsynced(like), "simulated_read_mb": _simulated_read(like)}
    return like.model_copy(update={name: round(value, 4) for name, value in more.items()})


def _active_users(number: int) -> float:
    """Return the users active in ten minutes: the mean of all traces, in proportion to the trace's users."""
    users = [traced.users for traced in tables().traces.values()]
    return tables().sentences["active_users"].value * tables().traces[number].users * len(users) / sum(users)


def _written(number: int) -> float:
    """Return the megabytes that a trace writes.

    000's Table 2 has the total of traces 3 and 4 and that of the others. Each is divided as in Table 1 of
    Baker et al. 1991, whose own megabytes are more, for a reason that 000 does not give.
    """
    all_eight, typical = tables().fates["all"].total, tables().fates["typical"].total
    group = [n for n in tables().traces if (n in SIMULATED) == (number in SIMULATED)]
    written = {n: tables().traces[n].written_mb for n in group}
    total = all_eight - typical if number in SIMULATED else typical
    return total * written[number] / sum(written.values())


def _fates(number: int, dead: float) -> dict[str, float]:
    """Return the shares of the five fates.

    What died and what did not comes from the end of the trace's curve in Figure 2. Each of the two is divided
    as 000's Table 2 divides it for the group of the trace, because the table does not tell traces apart.
    """
    group, typical = tables().fates["all"], tables().fates["typical"]
    if number in SIMULATED:
        names = Fates.model_fields
        group = Fates(**{name: getattr(group, name) - getattr(typical, name) for name in names})
    else:
        group = typical
    died = group.overwritten + group.deleted
    stayed = group.called_back + group.concurrent + group.remaining
    shares = {name: getattr(group, name) / died * dead for name in ("overwritten", "deleted")}
    shares |= {
        name: getattr(group, name) / stayed * (1 - dead)
        for name in ("called_back", "concurrent", "remaining")
    }
    return {name: round(share, 6) for name, share in shares.items()}


def _fsynced(like: Like) -> float:
    """Return the share of bytes that fsyncs force: 15 % of what clients send with a delay of 30 s (000, 1).

    What the simulations write is left out: a program that writes large files has no use for an fsync.
    """
    sentences = tables().sentences
    sent = 1 - like.dead_at(sentences["delay_s"].value / 60) - like.simulated
    return sentences["fsync_percent"].value / 100 * sent


def _simulated_read(like: Like) -> float:
    """Return the megabytes that the simulations read: all but what other traces would read for the rest."""
    if not like.simulated_minutes:
        return 0.0
    others = [traced for number, traced in tables().traces.items() if number not in SIMULATED]
    ratio = sum(traced.read_mb for traced in others) / sum(traced.written_mb for traced in others)
    return like.read_mb - ratio * like.written_mb * (1 - like.simulated)


def _rounded(values: Floats) -> list[float]:
    return [round(float(value), 6) for value in values]


def fit_reread() -> float:
    """Return the share of file reads of a file read before: LRU caches of 7 MB then keep 60 % of bytes away.

    That is what Sprite's caches, of 7 MB on average, did for the reads of these traces (000, 1 and 2.4). The
    mean is over the typical traces. A bisection to two digits; each step generates the traces anew.
    """
    low, high = 0.4, 0.95
    wanted = 1 - tables().sentences["read_reduction_percent"].value / 100
    typical = [number for number in tables().traces if number not in SIMULATED]
    while high - low > 0.01:
        middle = (low + high) / 2
        traces = (generate_from(fit(middle), number, 0, 1.0) for number in typical)
        missed = float(np.mean([read_misses(trace) for trace in traces]))
        low, high = (middle, high) if missed > wanted else (low, middle)
    return round((low + high) / 2, 2)


def read_misses(trace: Trace) -> float:
    """Return the share of read bytes that LRU caches of 7 MB, one a client, do not have."""
    blocks = int(tables().sentences["cache_mb"].value * _MB / _BLOCK)
    caches: dict[int, OrderedDict[tuple[int, int], None]] = defaultdict(OrderedDict)
    read = missed = 0
    moves = (trace.event == Event.READ) | (trace.event == Event.WRITE)
    columns = (
        trace.columns[name][moves].tolist() for name in ("event", "client", "file", "offset", "length")
    )
    for event, client, file, offset, length in zip(*columns, strict=True):
        cache = caches[client]
        for block in range(offset // _BLOCK, -(-(offset + length) // _BLOCK)):
            size = min(offset + length, (block + 1) * _BLOCK) - max(offset, block * _BLOCK)
            read += size * (event == Event.READ)
            missed += size * (event == Event.READ and (file, block) not in cache)
            cache[file, block] = None
            cache.move_to_end((file, block))
            if len(cache) > blocks:
                cache.popitem(last=False)
    return missed / read


def main() -> None:
    """Write fitted.yaml beside this file; it takes a minute."""
    text = yaml.safe_dump(fit(fit_reread()).model_dump(), sort_keys=False, default_flow_style=None, width=110)
    with replacing(Path(__file__).with_name("fitted.yaml")) as new:
        new.write_text(f"# SPDX-License-Identifier: Apache-2.0\n# {_HOW}\n{text}")


_HOW = "Written by `python -m riobed_caches.generator.fit`, whose docstrings say how; do not edit."

if __name__ == "__main__":
    main()
