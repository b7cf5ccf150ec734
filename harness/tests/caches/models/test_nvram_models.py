# SPDX-License-Identifier: Apache-2.0
"""Models of clients with NVRAM: as plain references, and as the papers and the known anomalies say."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from caches.reference_bound import least_sent
from caches.reference_nvram import (
    SPAN,
    Model,
    Nbm,
    NvLru,
    NvMin,
    Unified,
    WriteAside,
    fewest_accesses,
    random_stream,
    words,
)
from riobed_caches.compiled import Int64s
from riobed_caches.errors import TraceError
from riobed_caches.models.bands import Policy as Rules
from riobed_caches.models.bands import bands
from riobed_caches.models.count import Count
from riobed_caches.models.histories import nbm, nv_min, nvlru
from riobed_caches.models.moments import moments_of
from riobed_caches.models.omniscient import omniscient
from riobed_caches.models.policy import POLICIES, Policy, View, policy
from riobed_caches.models.unified import single, unified
from riobed_caches.models.write_aside import write_aside
from riobed_caches.stream.ops import Op, Stream

Fast = Callable[[Stream, int, int, Int64s], tuple[Int64s, Int64s]]
Slow = Callable[[Stream, int, int], Model]


def least_recent(model: Unified) -> int:
    return model.n.first()


def clean_first(view: View) -> int:
    """Choose the clean block that was written the longest ago, or else the dirty one."""
    best = view.blocks[0]
    for block in view.blocks:
        dirty, best_dirty = view.end[block] > view.begin[block], view.end[best] > view.begin[best]
        if dirty < best_dirty or (dirty == best_dirty and view.last_write[block] < view.last_write[best]):
            best = block
    return int(best)


def furthest(view: View) -> int:
    """Choose the block with the furthest next access, and of those without one the last accessed."""
    best = view.blocks[0]
    for block in view.blocks:
        coming, best_coming = view.next_access[block], view.next_access[best]
        later = view.last_access[block] > view.last_access[best]
        if coming > best_coming or (coming == best_coming and later):
            best = block
    return int(best)


def first_in(view: View) -> int:
    """Choose the block that came in before all others."""
    best = view.blocks[0]
    for block in view.blocks:
        if view.came_in[block] < view.came_in[best]:
            best = block
    return int(best)


def clean_first_slowly(model: Unified) -> int:
    return min(model.n, key=lambda block: (block in model.dirty, model.last_write.get(block, -1)))


def furthest_slowly(model: Unified) -> int:
    def coming(block: int) -> int:
        found = model.following({Op.READ, Op.WRITE}, {Op.DELETE, Op.INVALIDATE}, block)
        return len(model.stream.op) if found is None else found

    return max(model.n, key=lambda block: (coming(block), model.last[block]))


def first_in_slowly(model: Unified) -> int:
    return next(iter(model.n))


OF_A_USER: dict[str, tuple[Policy, Callable[[Unified], int]]] = {
    "clean first": (clean_first, clean_first_slowly),
    "furthest": (furthest, furthest_slowly),
    "first in": (first_in, first_in_slowly),
}


@pytest.fixture(scope="module")
def own() -> Iterator[dict[str, Policy]]:
    """Policies of a user, and their names."""
    yield {name: policy(name)(choose) for name, (choose, _) in OF_A_USER.items()}
    for name in OF_A_USER:
        del POLICIES[name]


def compare(fast: Fast, slow: Slow, streams: range, least: int = 1) -> None:
    """Compare a model with its reference, and check that no written byte gets lost."""
    for seed in streams:
        stream, draw = random_stream(seed), Random(seed)
        sizes = draw.randint(least, 4), draw.randint(1, 4)
        at = np.array(sorted(draw.choices(range(len(stream.op) + 1), k=3)))
        counts, dirty = fast(stream, *sizes, at)
        expected, expected_dirty = slow(stream, *sizes).run(at.tolist())
        assert counts.tolist() == expected.tolist(), (seed, sizes)
        assert dirty.tolist() == expected_dirty.tolist(), (seed, sizes)
        ends = counts[Count.REPLACED : Count.REMAINING + 1].sum()
        assert stream.written + counts[Count.GAP] == ends


MODELS: dict[str, tuple[Fast, Slow]] = {
    "unified": (lambda s, v, n, at: unified(s, v, n, at=at), lambda s, v, n: Unified(s, v, n, least_recent)),
    "write_aside": (write_aside, WriteAside),
    "nvlru": (nvlru, NvLru),
    "nbm": (nbm, Nbm),
    "nv_min": (nv_min, NvMin),
}


@pytest.fixture
def streams(longer: int) -> range:
    """Seeds of the random streams of a model or of a user's policy."""
    return range(500 * longer)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_does_what_its_reference_does(name: str, streams: range) -> None:
    compare(*MODELS[name], streams)


@pytest.mark.parametrize("name", OF_A_USER)
def test_a_users_policy_chooses(name: str, own: dict[str, Policy], streams: range) -> None:
    _, slowly = OF_A_USER[name]
    assert POLICIES[name] is own[name]
    compare(
        lambda stream, v, n, at: unified(stream, v, n, own[name], at),
        lambda stream, v, n: Unified(stream, v, n, slowly),
        streams,
        least=0,
    )


def test_one_cache_with_lru_is_a_band() -> None:
    for seed in range(300):
        stream = random_stream(seed)
        moments = moments_of(stream, 3)
        run = bands(stream, np.array([3]), Rules(on_fsync=False), moments)
        counts, dirty = single(stream, 3, POLICIES["lru"], moments.at)
        assert counts.tolist() == run.counts[:, 0].tolist(), seed
        assert dirty.tolist() == run.bytes[:, 0].tolist(), seed


def test_random_replacement_is_even_and_can_be_repeated() -> None:
    none = np.zeros(5, np.int64)
    choose, blocks = POLICIES["random"], np.arange(5, dtype=np.int32)
    chosen = [choose(View(blocks, none, none, none, none, blocks, blocks, now, 7)) for now in range(1000)]
    assert min(np.bincount(chosen, minlength=5)) > 150
    stream = words(" ".join(f"w{block}" for block in Random(1).choices(range(20), k=500)))
    outs = [unified(stream, 2, 8, choose, seed=seed)[0].tolist() for seed in (1, 1, 2)]
    assert outs[0] == outs[1] != outs[2]


def test_more_nvram_is_not_always_more_of_the_same() -> None:
    """000's unified model is no stack algorithm, so that each size needs a run of its own."""
    held = []
    for nv in (2, 3):
        model = Unified(words("r0 w1 r7 w5 r4 r2 r1 w2"), 2, nv, least_recent)
        model.run()
        held.append(model.held[-1][2])
    assert held == [{2, 5}, {1, 2}]


def test_more_nvram_can_write_more() -> None:
    stream = words("w0 w6 r3 w1 r0 r4 r7 w4 w1")
    sent = [unified(stream, 2, nv)[0][[Count.REPLACED, Count.REMAINING]].sum() // SPAN for nv in (2, 3)]
    assert sent == [4, 5]


def test_nv_min_is_not_optimal() -> None:
    stream = words("w4 w2 w0 r3 r2 w4 w2")
    counts, _ = nv_min(stream, 1, 2)
    assert accesses(counts) == 4
    assert fewest_accesses(stream, 1, 2) == 3


def test_no_model_needs_fewer_accesses_than_the_fewest() -> None:
    for seed in range(100):
        stream = words(
            " ".join(Random(seed).choice("rw") + str(Random(seed + n).randrange(5)) for n in range(12))
        )
        fewest = fewest_accesses(stream, 2, 2)
        assert all(accesses(model(stream, 2, 2)[0]) >= fewest for model in (nvlru, nbm, nv_min)), seed


def accesses(counts: Int64s) -> int:
    return int(counts[Count.READ_MISSES] + counts[Count.BLOCKS_OUT])


def test_no_model_sends_less_than_the_bound() -> None:
    sent = [Count.REPLACED, Count.RECALLED, Count.REMAINING]
    for seed in range(300):
        stream, nv = random_stream(seed), 1 + seed % 4
        found = [model(stream, 3, nv, np.zeros(0, np.int64))[0][sent].sum() for model, _ in MODELS.values()]
        assert min(*found, omniscient(stream, nv)[sent].sum()) >= least_sent(stream, nv)[0], seed


@pytest.mark.parametrize("read_before", [False, True])
def test_nbm_is_nvlru_if_no_read_meets_a_dirty_block(read_before: bool) -> None:
    """All is equal if no written block was ever read; else what the NVRAM writes: NBM copies its victims."""
    of_nvram = [Count.BLOCKS_OUT, Count.REPLACED, Count.OVERWRITTEN, Count.DELETED, Count.REMAINING]
    for seed in range(500):
        stream = random_stream(seed, "rrwwwd", clients=1)
        written = np.zeros(stream.blocks, np.bool_)
        kept = []
        for op, block in zip(stream.op.tolist(), stream.block.tolist(), strict=True):
            written[block] |= op == Op.WRITE if read_before else block % 2
            kept.append(op != Op.READ or not written[block])
        stream = replace(
            stream, **{name: getattr(stream, name)[kept] for name in ("op", "block", "lo", "hi")}
        )
        if not read_before:
            stream.op[(stream.op == Op.WRITE) & (stream.block % 2 == 0)] = Op.READ
        old, new = nvlru(stream, 2, 2)[0], nbm(stream, 2, 2)[0]
        which = of_nvram if read_before else list(Count)
        assert old[which].tolist() == new[which].tolist(), seed


def test_what_leaves_the_volatile_cache_leaves_every_nvram() -> None:
    for seed in range(500):
        models = [WriteAside(random_stream(seed), 3, nv) for nv in (1, 2, 3)]
        for model in models:
            model.run()
        for small, large in pairwise(models):
            for (v, n, dirty), (same_v, more_n, more_dirty) in zip(small.held, large.held, strict=True):
                assert v == same_v
                assert n <= more_n <= v
                assert dirty <= more_dirty


def test_wrong_policies_are_refused(own: dict[str, Policy]) -> None:
    with pytest.raises(TraceError, match="another name"):
        policy("furthest")(furthest)
    with pytest.raises(TraceError, match="policy nonsense: numba cannot compile it"):
        policy("nonsense")(lambda view: view.nothing)  # type: ignore[attr-defined]
    stranger = policy("stranger")(lambda view: int(view.blocks[0]) + 1)
    del POLICIES["stranger"]
    with pytest.raises(TraceError, match="does not hold"):
        unified(words("w0 w1"), 1, 1, stranger)


@pytest.mark.parametrize("name", MODELS)
def test_wrong_requests_are_refused(name: str) -> None:
    fast, _ = MODELS[name]
    stream = words("w0")
    for at in ([-1], [2], [1, 0]):
        with pytest.raises(TraceError, match="from 0 to 1"):
            fast(stream, 1, 1, np.array(at))
    for volatile, nv in ((-1, 1), (1, 0)):
        with pytest.raises(TraceError, match="give at least"):
            fast(stream, volatile, nv, np.array([0]))
