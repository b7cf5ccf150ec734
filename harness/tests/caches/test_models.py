# SPDX-License-Identifier: Apache-2.0
"""The models of many sizes in one pass, against one run a size in plain Python, on random streams."""

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from reference import Lru, omniscient, random_stream
from reference_bound import best_sent, least_sent
from riobed_caches.models import omniscient as fast
from riobed_caches.models.bands import NEVER, Policy, bands
from riobed_caches.models.count import Count
from riobed_caches.models.moments import moments_of
from riobed_caches.models.tree import every_size
from riobed_caches.stream.ops import Op, Stream

SENT = [Count.REPLACED, Count.RECALLED, Count.REMAINING]
OUT = (Count.REPLACED, Count.DELAYED, Count.FSYNCED, Count.RECALLED, Count.CLOSED)


def policy(chance: random.Random) -> Policy:
    return Policy(
        delay=chance.choice([NEVER, 0, 5, 30]),
        scan=5,
        whole_files=chance.random() < 0.4,
        on_fsync=chance.random() < 0.5,
        on_close=chance.random() < 0.3,
    )


def lru(
    stream: Stream, size: int, rules: Policy, times: list[int], at: list[int]
) -> tuple[Lru, list[list[int]]]:
    """Return a model that has run, and what it had at the moments."""
    model, samples = Lru(stream, size, rules), []
    moments = list(zip(times, at, strict=True))
    for i in range(len(stream.time) + 1):
        while moments and moments[0][1] <= i:
            model.advance(moments.pop(0)[0])
            samples.append([model.bytes(), model.files(), model.oldest(), model.promised()])
        model.advance(int(stream.time[i]) if i < len(stream.time) else stream.end)
        if i < len(stream.time):
            model.step(i)
    model.counts[Count.REMAINING] = model.bytes()
    return model, samples


@pytest.mark.parametrize("seed", range(2))
def test_bands_are_one_run_a_size(seed: int, longer: int) -> None:
    chance = random.Random(seed)
    for _ in range(300 * longer):
        stream, rules = random_stream(chance), policy(chance)
        sizes = np.array(sorted(chance.sample(range(1, 11), chance.randint(1, 5))))
        moments = moments_of(stream, 4)
        run = bands(stream, sizes, rules, moments)
        for g, size in enumerate(sizes):
            model, samples = lru(stream, int(size), rules, moments.time.tolist(), moments.at.tolist())
            assert {c: n for c in Count if (n := int(run.counts[c, g]))} == {
                c: n for c, n in model.counts.items() if n
            }
            assert run.mean[g] == pytest.approx(model.area / max(stream.end, 1))
            assert run.worst[g] == model.worst
            found = (run.bytes, run.files, run.oldest, run.promised)
            assert np.array([values[:, g] for values in found]).T.tolist() == samples
        conserved(stream, run.counts)


def conserved(stream: Stream, counts: "np.ndarray[tuple[int, ...], np.dtype[np.int64]]") -> None:
    """No byte is lost: what was written went out, died or is there, and so did the gaps between writes."""
    ends = sum(counts[c] for c in (*OUT, Count.OVERWRITTEN, Count.DELETED, Count.REMAINING))
    assert (stream.written + counts[Count.GAP] == ends).all()


@pytest.mark.parametrize("on_fsync", [True, False])
def test_the_tree_is_one_run_a_size(on_fsync: bool, longer: int) -> None:
    chance = random.Random(7)
    for _ in range(100 * longer):
        stream = random_stream(chance, chance.choice(["rwd", "rwwdf", "rwdfsi", "rw"]), length=120)
        found = every_size(stream, 12, on_fsync=on_fsync)
        for size in range(1, 13):
            model, _ = lru(stream, size, Policy(on_fsync=on_fsync), [], [])
            misses = model.counts[Count.READ_MISSES] + model.counts[Count.WRITE_MISSES]
            expected = (misses, model.counts[Count.BLOCKS_OUT], len(model.dirty()))
            assert (found.misses[size - 1], found.out[size - 1], found.remaining[size - 1]) == expected


def test_the_omniscient_policy_looks_ahead() -> None:
    chance = random.Random(8)
    for _ in range(1000):
        stream, size = random_stream(chance), chance.randint(1, 6)
        counts = fast.omniscient(stream, size)
        expected = omniscient(stream, size)
        assert Counter({c: n for c in Count if (n := int(counts[c]))}) == +expected
        conserved(stream, counts)


def whole_blocks(stream: Stream) -> Stream:
    """The stream of one client that writes and deletes whole blocks at the same places."""
    writes = stream.op == Op.WRITE
    whole = np.where(writes, stream.block_size, 0).astype(np.int32)
    op = np.where(stream.op == Op.CUT, Op.DELETE, stream.op).astype(np.int8)
    return replace(stream, op=op, lo=0 * whole, hi=whole, written=int(whole.sum()))


@pytest.mark.parametrize("alike", [True, False])
def test_the_omniscient_policy_beside_the_best_of_all(alike: bool) -> None:
    """It is the best in blocks (000, 2.4), and in bytes only where all blocks have as many."""
    chance, gaps = random.Random(9), []
    for _ in range(200):
        stream, room = random_stream(chance, "wwwdcsi", length=16), chance.randint(1, 4)
        stream = replace(stream, client=0 * stream.client, clients=1)
        stream = whole_blocks(stream) if alike else stream
        counts = fast.omniscient(stream, room)
        sent, best, (least,) = int(counts[SENT].sum()), best_sent(stream, room), least_sent(stream, room)
        assert least <= best <= sent
        gaps += [sent - best, best - least]
    assert (max(gaps) == 0) == alike
