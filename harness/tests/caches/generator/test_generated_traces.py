# SPDX-License-Identifier: Apache-2.0
"""A generated trace is whole, the same for the same seed, and fits the points it was fitted to."""

from functools import cache

import numpy as np
import pytest
from byte_lives import Lives
from riobed_caches.errors import TraceError
from riobed_caches.generator.fit import fit, read_misses
from riobed_caches.generator.fitted import HOURS, fitted
from riobed_caches.generator.generate import generate
from riobed_caches.generator.people import interval_of
from riobed_caches.papers.points import figure, tables
from riobed_caches.stream.consistency import Consistency, actions_of
from riobed_caches.stream.lifetimes import lifetimes
from riobed_caches.trace.check import check_events
from riobed_caches.trace.events import UNKNOWN, Event, Flag
from riobed_caches.trace.file import Trace

MB = 1 << 20
LIKE = range(1, 9)
# All in `make test-all`: one like most of them, and one with a long simulation always.
SOME = [n if n in (3, 7) else pytest.param(n, marks=pytest.mark.extended) for n in LIKE]


@cache
def day_like(number: int) -> Trace:
    return generate(number, seed=1)


def test_a_seed_is_a_trace():
    assert generate(7, seed=1).sha256 == day_like(7).sha256
    assert generate(7, seed=1).header == day_like(7).header
    assert generate(7, seed=2).sha256 != day_like(7).sha256
    assert day_like(6).sha256 != day_like(7).sha256
    assert day_like(7).header.source.endswith(" 7")


@pytest.mark.parametrize("number", SOME)
def test_a_trace_is_whole(number):
    trace = day_like(number)
    check_events(trace.columns, "generated")
    assert len(trace) < 1_000_000
    for name in ("client", "user", "process", "file", "handle"):
        ids = np.unique(trace.columns[name])
        assert np.array_equal(ids[ids != UNKNOWN], np.arange(ids[-1] + 1))
    assert trace.time[0] == 0 and trace.time[-1] < 86400e6
    assert np.unique(trace.client).size == 40
    assert len(np.unique(trace.user)) <= tables().traces[number].users + 1


@pytest.mark.parametrize("number", (3, 7))
def test_a_deleted_file_is_deleted_once_and_not_used_again(number):
    trace = day_like(number)
    deleted = np.flatnonzero(trace.event == Event.DELETE)
    files, last = trace.file[deleted], np.zeros(trace.file.max() + 1, np.int64)
    # A handle that was open may still be closed.
    used = np.flatnonzero((trace.file >= 0) & (trace.event != Event.CLOSE))
    np.maximum.at(last, trace.file[used], used)
    assert len(np.unique(files)) == len(files)
    assert (last[files] == deleted).all()


@pytest.mark.parametrize("number", (3, 7))
def test_a_process_changes_its_client_by_a_migration_alone(number):
    trace = day_like(number)
    order = np.lexsort((np.arange(len(trace)), trace.process))
    process, client, event = trace.process[order], trace.client[order], trace.event[order]
    moved = (np.diff(process) == 0) & (np.diff(client) != 0)
    assert np.array_equal(moved, event[:-1] == Event.MIGRATE)
    assert moved.any()


def test_part_of_a_day_is_its_beginning_and_two_days_have_twice_the_bytes():
    whole, half = day_like(7), generate(7, seed=1, days=0.5)
    assert half.seconds == 43200
    for name in ("time", "event", "offset", "length", "size", "flags"):
        assert np.array_equal(half.columns[name], whole.columns[name][: len(half)])
    two = generate(7, seed=1, days=2)
    check_events(two.columns, "generated")
    assert written(two) == pytest.approx(2 * written(whole), rel=0.01)


@pytest.mark.parametrize(
    ("like", "seed", "days", "said"),
    [
        (9, 1, 1.0, "there is no trace 9"),
        (7, -1, 1.0, "seed -1"),
        (7, 1, 0.0, "0.0 days"),
        (7, 1, float("nan"), "nan days"),
        (7, 1, 101.0, "101.0 days"),
    ],
)
def test_wrong_arguments_are_refused(like, seed, days, said):
    with pytest.raises(TraceError, match=said):
        generate(like, seed, days)


@pytest.mark.slow
@pytest.mark.parametrize("number", [7, pytest.param(3, marks=pytest.mark.extended)])
def test_lifetimes_and_fates_are_those_of_the_papers(number):
    trace, like = day_like(number), fitted().traces[number]
    lives = Lives(trace)
    curve = figure(2)[str(number)]
    assert lives.net_traffic(curve.x) == pytest.approx(curve.y, abs=2)
    for fate, size in lives.fates.items():
        assert size / lives.fates.total() == pytest.approx(getattr(like, fate), abs=0.005)
    assert set(lives.fates) == {"overwritten", "deleted", "called_back", "concurrent", "remaining"}
    assert lives.fates.total() == written(trace)
    exact = lifetimes(actions_of(trace, trace.columns["client"])[0])
    assert {fate.name.lower(): size for fate, size in exact.fates().items()} == lives.fates
    sent = 100 * exact.sent((curve.x * 60e6).astype(np.int64)) / exact.written
    assert sent == pytest.approx(lives.net_traffic(curve.x), abs=0.01)


def test_bytes_add_up_to_the_totals_of_table_2():
    sizes = {number: written(day_like(number)) / MB for number in LIKE}
    typical = sum(size for number, size in sizes.items() if number not in (3, 4))
    assert sum(sizes.values()) == pytest.approx(tables().fates["all"].total, rel=0.005)
    assert typical == pytest.approx(tables().fates["typical"].total, rel=0.005)


def test_fates_of_the_fitted_table_add_up_to_table_2():
    traces = fitted().traces
    for name, chosen in (("all", LIKE), ("typical", [n for n in LIKE if n not in (3, 4)])):
        table = tables().fates[name]
        for fate in ("overwritten", "deleted", "called_back", "concurrent", "remaining"):
            mb = sum(getattr(traces[n], fate) * traces[n].written_mb for n in chosen)
            assert mb / table.total == pytest.approx(getattr(table, fate) / table.total, abs=0.025)


@pytest.mark.parametrize("number", (3, 7))
def test_opens_are_those_of_the_papers(number):
    trace, table = day_like(number), fitted()
    opens = trace.event == Event.OPEN
    assert opens.sum() == pytest.approx(table.traces[number].opens, rel=0.01)
    flags = trace.flags[opens]
    writing, reading = (flags & Flag.FOR_WRITING) != 0, (flags & Flag.FOR_READING) != 0
    assert (~writing).mean() == pytest.approx(0.852, abs=0.005)
    assert (writing & ~reading).mean() == pytest.approx(0.093, abs=0.005)
    assert (writing & reading).mean() == pytest.approx(0.055, abs=0.005)
    interval = interval_of(trace.time[opens] / 1e6)
    shares = np.bincount(interval, minlength=len(HOURS)) / opens.sum()
    assert shares == pytest.approx(table.day.opens, abs=0.005)
    non_file = np.bincount(interval[~writing & ~reading]) / np.bincount(interval)
    assert non_file == pytest.approx(table.day.non_file, abs=0.01)


@pytest.mark.parametrize("number", (3, 7))
def test_sharing_is_that_of_the_papers(number):
    trace, day = day_like(number), fitted().day
    _, counts = actions_of(trace, trace.columns["client"])
    found = 100 * counts / counts[Consistency.OPENS]

    def wanted(name: str) -> float:
        return 100 * float(np.dot(day.opens, getattr(day, name)))

    assert found[Consistency.UNCACHED] == pytest.approx(wanted("uncached"), abs=0.03)
    assert found[Consistency.STOPPED] == pytest.approx(wanted("stopped"), abs=0.03)
    assert found[Consistency.READ_SHARED] == pytest.approx(wanted("read_shared"), abs=1)
    assert found[Consistency.LAST_WRITER] == pytest.approx(wanted("last_writer"), abs=1)
    quick = found[Consistency.RECALLS] - found[Consistency.LATE_RECALLS]
    assert quick == pytest.approx(wanted("recalls"), abs=0.1)


def test_bytes_are_written_when_they_were():
    trace = day_like(8)
    writes = trace.event == Event.WRITE
    size = np.bincount(interval_of(trace.time[writes] / 1e6), trace.length[writes])
    # A few large files have much of it.
    assert size / size.sum() == pytest.approx(fitted().day.written, abs=0.08)


def test_caches_have_the_effect_that_they_had():
    assert read_misses(day_like(7)) == pytest.approx(0.4, abs=0.05)


def test_the_table_is_what_fit_makes_of_figure_2_alone(monkeypatch):
    asked = []
    monkeypatch.setattr(
        "riobed_caches.generator.fit.figure", lambda number: asked.append(number) or figure(number)
    )
    assert fit(fitted().reread) == fitted()
    assert set(asked) == {2}


def written(trace: Trace) -> int:
    return int(trace.length[trace.event == Event.WRITE].sum())
