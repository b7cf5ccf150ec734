# SPDX-License-Identifier: Apache-2.0
"""Slow models in plain Python, of one size, that follow the definitions word by word; and random streams."""

import random
from collections import Counter, OrderedDict
from dataclasses import dataclass, field

import numpy as np
from riobed_caches.models.bands import NEVER, Policy
from riobed_caches.models.count import Count
from riobed_caches.stream.ops import Op, Stream

BLOCK = 8


@dataclass
class Held:
    """The dirty range of a block, when it began, and how much of it was fsync'd."""

    lo: int
    hi: int
    since: int
    safe: int = 0


@dataclass
class Lru:
    """LRU caches of `size` blocks, one a client, with write-back by `policy`."""

    stream: Stream
    size: int
    policy: Policy
    counts: Counter[Count] = field(default_factory=Counter)
    area: int = 0
    worst: int = 0
    now: int = 0

    def __post_init__(self) -> None:
        self.caches: list[OrderedDict[int, Held | None]] = [OrderedDict() for _ in range(self.stream.clients)]

    def dirty(self) -> dict[int, Held]:
        return {b: held for cache in self.caches for b, held in cache.items() if held}

    def bytes(self) -> int:
        return sum(held.hi - held.lo for held in self.dirty().values())

    def oldest(self) -> int:
        begun = [held.since for held in self.dirty().values()]
        return self.now - int(self.stream.time[min(begun)]) if begun else -1

    def files(self) -> int:
        return len({int(self.stream.file[b]) for b in self.dirty()})

    def promised(self) -> int:
        return sum(held.safe for held in self.dirty().values())

    def cache_of(self, b: int) -> "OrderedDict[int, Held | None]":
        return self.caches[self.stream.client[b]]

    def clean(self, b: int, cause: Count) -> None:
        held = self.cache_of(b).get(b)
        if held:
            self.counts[cause] += held.hi - held.lo
            self.counts[Count.BLOCKS_OUT] += cause is not Count.DELETED
            self.cache_of(b)[b] = None

    def advance(self, to: int) -> None:
        """Let time pass, with the looks of the block cleaner."""
        look = (self.now // self.policy.scan + 1) * self.policy.scan
        while self.policy.delay != NEVER and look <= to:
            self.wait(look)
            old = {
                b
                for b, held in self.dirty().items()
                if self.stream.time[held.since] + self.policy.delay <= look
            }
            files = {self.stream.file[b] for b in old}
            for b in self.dirty():
                if b in old or (self.policy.whole_files and self.stream.file[b] in files):
                    self.clean(b, Count.DELAYED)
            look += self.policy.scan
        self.wait(to)

    def wait(self, to: int) -> None:
        self.area += self.bytes() * (to - self.now)
        self.now = to

    def step(self, i: int) -> None:
        stream, policy = self.stream, self.policy
        op, b = Op(stream.op[i]), int(stream.block[i])
        lo, hi, cache = int(stream.lo[i]), int(stream.hi[i]), self.cache_of(b)
        if op in (Op.READ, Op.WRITE):
            if b in cache:
                cache.move_to_end(b)
            else:
                self.counts[Count.READ_MISSES if op is Op.READ else Count.WRITE_MISSES] += 1
                self.counts[Count.FETCHED] += int(stream.span[b]) if op is Op.READ else 0
                if len(cache) == self.size:
                    self.clean(next(iter(cache)), Count.REPLACED)
                    cache.popitem(last=False)
                cache[b] = None
            if op is Op.WRITE:
                self.write(cache, b, lo, hi, i)
        elif op is Op.CUT:
            self.cut(cache, b, lo)
        elif op is Op.FSYNC and not policy.on_fsync:
            if held := cache.get(b):
                held.safe = held.hi - held.lo
        elif op is Op.FSYNC:
            self.clean(b, Count.FSYNCED)
        elif op is Op.CLOSE:
            if policy.on_close:
                self.clean(b, Count.CLOSED)
        else:
            self.clean(b, Count.DELETED if op is Op.DELETE else Count.RECALLED)
            if op is not Op.RECALL:
                cache.pop(b, None)
        self.worst = max(self.worst, self.bytes())

    def write(self, cache: "OrderedDict[int, Held | None]", b: int, lo: int, hi: int, i: int) -> None:
        if held := cache[b]:
            old = held.hi - held.lo
            held.lo, held.hi = min(held.lo, lo), max(held.hi, hi)
            more = held.hi - held.lo - old
            self.counts[Count.OVERWRITTEN] += max(hi - lo - more, 0)
            self.counts[Count.GAP] += max(more - (hi - lo), 0)
        else:
            cache[b] = Held(lo, hi, i)

    def cut(self, cache: "OrderedDict[int, Held | None]", b: int, end: int) -> None:
        held = cache.get(b)
        if held and held.lo >= end:
            self.clean(b, Count.DELETED)
        elif held and held.hi > end:
            gone = held.hi - end
            held.hi = end
            held.safe -= min(held.safe, gone)
            self.counts[Count.DELETED] += gone


def omniscient(stream: Stream, size: int) -> Counter[Count]:
    """NVRAM of `size` blocks a client that gives up the block modified the furthest in the future."""
    counts: Counter[Count] = Counter()
    held: list[dict[int, tuple[int, int]]] = [{} for _ in range(stream.clients)]

    def following(b: int, i: int) -> int:
        for j in range(i + 1, len(stream.op)):
            if stream.block[j] == b and stream.op[j] in (Op.WRITE, Op.DELETE):
                return j
            if stream.block[j] == b and stream.op[j] in (Op.RECALL, Op.INVALIDATE):
                break
        return 2**62

    for i, code in enumerate(stream.op):
        op, b = Op(code), int(stream.block[i])
        lo, hi, nvram = int(stream.lo[i]), int(stream.hi[i]), held[stream.client[b]]
        old = nvram.get(b)
        if op is Op.WRITE:
            if old is None and len(nvram) == size:
                victim = max(nvram, key=lambda b: (following(b, i), b))
                counts[Count.REPLACED] += nvram[victim][1] - nvram[victim][0]
                counts[Count.BLOCKS_OUT] += 1
                del nvram[victim]
            new = (min(old[0], lo), max(old[1], hi)) if old else (lo, hi)
            more = new[1] - new[0] - (old[1] - old[0] if old else 0)
            counts[Count.OVERWRITTEN] += max(hi - lo - more, 0)
            counts[Count.GAP] += max(more - (hi - lo), 0)
            nvram[b] = new
        elif old is None:
            continue
        elif op is Op.CUT:
            gone = max(old[1] - max(lo, old[0]), 0)
            counts[Count.DELETED] += gone
            nvram[b] = (old[0], old[1] - gone)
            if old[1] - gone == old[0]:
                del nvram[b]
        elif op in (Op.DELETE, Op.RECALL, Op.INVALIDATE):
            counts[Count.DELETED if op is Op.DELETE else Count.RECALLED] += old[1] - old[0]
            counts[Count.BLOCKS_OUT] += op is not Op.DELETE
            del nvram[b]
    counts[Count.REMAINING] = sum(hi - lo for nvram in held for lo, hi in nvram.values())
    return counts


def random_stream(chance: random.Random, ops: str = "", length: int = 60) -> Stream:
    """Return a short stream of 1 to 3 clients; `ops` are the kinds, by their first letters, or drawn."""
    letters = ops or chance.choice(["rrwd", "rwwd", "wwdc", "rwfds", "rwcdfsi", "rrw", "rwl", "rwdcfsil"])
    kinds = {
        "r": Op.READ, "w": Op.WRITE, "d": Op.DELETE, "c": Op.CUT, "f": Op.FSYNC, "s": Op.RECALL,
        "i": Op.INVALIDATE, "l": Op.CLOSE,
    }  # fmt: skip
    clients, blocks, n = chance.randint(1, 3), chance.randint(2, 12), chance.randint(1, length)
    op, block, lo, hi, time, now = [], [], [], [], [], 0
    for _ in range(n):
        now += chance.choice([0, 0, 1, 2, 7, 20])
        kind, first = kinds[chance.choice(letters)], chance.randrange(BLOCK)
        op.append(kind)
        block.append(chance.randrange(blocks))
        lo.append(first if kind in (Op.READ, Op.WRITE, Op.CUT) else 0)
        hi.append(chance.randint(first + 1, BLOCK) if kind in (Op.READ, Op.WRITE) else 0)
        time.append(now)
    client = np.array([chance.randrange(clients) for _ in range(blocks)], np.int32)
    # Two blocks a file, and a file is of one client.
    client[1::2] = client[: len(client[1::2]) * 2 : 2]
    array = {"time": (time, np.int64), "op": (op, np.int8), "block": (block, np.int32)}
    array |= {"lo": (lo, np.int32), "hi": (hi, np.int32)}
    return Stream(
        **{name: np.array(values, kind) for name, (values, kind) in array.items()},
        client=client,
        file=(np.arange(blocks) // 2).astype(np.int32),
        span=np.array([chance.randint(1, BLOCK) for _ in range(blocks)], np.int32),
        clients=clients,
        files=blocks // 2 + 1,
        block_size=BLOCK,
        end=now + chance.choice([0, 3, 50]),
        read=sum(h - low for k, low, h in zip(op, lo, hi, strict=True) if k == Op.READ),
        written=sum(h - low for k, low, h in zip(op, lo, hi, strict=True) if k == Op.WRITE),
        passed_read=0,
        passed_written=0,
    )
