# SPDX-License-Identifier: Apache-2.0
"""Reference: the models of NVRAM in plain Python, a set and a search for each decision; and small streams."""

from collections.abc import Callable, Collection, Iterable
from itertools import combinations
from random import Random

import numpy as np
from riobed_caches.models.count import COUNTS, Count
from riobed_caches.models.segments import Part, Segment
from riobed_caches.stream.ops import Op, Stream

LETTERS = {"r": Op.READ, "w": Op.WRITE, "d": Op.DELETE, "f": Op.FSYNC, "c": Op.RECALL}
SPAN = 12
Operation = tuple[int, Op, int, int, int]


def stream_of(
    operations: Iterable[Operation], client: list[int], file: list[int], span: list[int], end: int = 0
) -> Stream:
    """Return a stream of operations (time, op, block, lo, hi) on blocks of these clients, files and sizes."""
    columns = list(zip(*operations, strict=True)) or [()] * 5
    time, op, block, lo, hi = columns
    written = sum(h - low for o, low, h in zip(op, lo, hi, strict=True) if o == Op.WRITE)
    return Stream(
        time=np.array(time, np.int64),
        op=np.array(op, np.int8),
        block=np.array(block, np.int32),
        lo=np.array(lo, np.int32),
        hi=np.array(hi, np.int32),
        client=np.array(client, np.int32),
        file=np.array(file, np.int32),
        span=np.array(span, np.int32),
        clients=max(client) + 1,
        files=max(file) + 1,
        block_size=max(span),
        end=max([*time, end]),
        read=0,
        written=written,
        passed_read=0,
        passed_written=0,
    )


def words(text: str) -> Stream:
    """Return a stream of whole blocks of one client, of words as `w3`."""
    named = [(LETTERS[word[0]], int(word[1:])) for word in text.split()]
    blocks = max(block for _, block in named) + 1
    operations = [(number, op, block, 0, SPAN) for number, (op, block) in enumerate(named)]
    return stream_of(operations, [0] * blocks, [0] * blocks, [SPAN] * blocks)


def random_stream(seed: int, ops: str = "", clients: int = 3, scale: int = 1) -> Stream:
    """Return a small stream of all that can happen, or of `ops` (letters); blocks have 2 to 12 `scale`."""
    draw = Random(seed)
    blocks = draw.randint(2, 9)
    span = [draw.randint(2, SPAN) * scale for _ in range(blocks)]
    kinds = (
        [LETTERS[letter] for letter in ops]
        if ops
        else [Op.READ, Op.WRITE] * draw.randint(3, 8) + list(Op)[:8]
    )
    operations, time = [], 0
    for _ in range(draw.randint(5, 50)):
        time += draw.choice((0, 1, 1_000_000, 5_000_000, 20_000_000))
        block, op = draw.randrange(blocks), draw.choice(kinds)
        lo, hi = sorted(draw.sample(range(span[block] + 1), 2))
        if draw.random() < 0.4:
            lo, hi = 0, span[block]
        operations.append((time, op, block, lo, hi))
    client = [draw.randint(1, clients) - 1 for _ in range(blocks)]
    return stream_of(operations, client, [draw.randrange(3) for _ in range(blocks)], span, time + 31_000_000)


class Memory(dict[int, int]):
    """Blocks and their keys, of one client."""

    def first(self) -> int:
        return min(self, key=lambda block: self[block])


class Model:
    """What the models have in common; a subclass reads and writes."""

    def __init__(self, stream: Stream, volatile: int, nv: int) -> None:
        self.stream, self.sizes = stream, (volatile, nv)
        self.op, self.block, self.span = stream.op.tolist(), stream.block.tolist(), stream.span.tolist()
        self.memories = [(Memory(), Memory()) for _ in range(stream.clients)]
        self.dirty: dict[int, range] = {}
        self.counts = np.zeros(COUNTS, np.int64)
        self.now = 0
        self.last: dict[int, int] = {}
        # After each operation: what volatile memory, NVRAM and the dirty blocks are.
        self.held: list[tuple[set[int], set[int], set[int]]] = []

    def run(self, at: Iterable[int] = ()) -> tuple[np.ndarray, np.ndarray]:
        stream, before = self.stream, []
        for number, (op, block) in enumerate(zip(self.op, self.block, strict=True)):
            self.now = number
            before.append(self.dirty_bytes())
            lo, hi = int(stream.lo[self.now]), int(stream.hi[self.now])
            self.v, self.n = self.memories[stream.client[block]]
            if op == Op.READ:
                self.read(block)
            elif op == Op.WRITE:
                self.write(block, lo, hi)
            else:
                self.command(op, block, lo)
            if op in (Op.READ, Op.WRITE):
                self.last[block] = self.now
            self.held.append(self.holds())
        before.append(self.dirty_bytes())
        self.counts[Count.REMAINING] = self.dirty_bytes()
        return self.counts, np.array([before[number] for number in at], np.int64)

    def read(self, block: int) -> None:
        raise NotImplementedError

    def write(self, block: int, lo: int, hi: int) -> None:
        raise NotImplementedError

    def command(self, op: int, block: int, lo: int) -> None:
        if op in (Op.RECALL, Op.INVALIDATE):
            self.send(block, Count.RECALLED)
        if op in (Op.CUT, Op.DELETE):
            first = lo if op == Op.CUT else 0
            old = self.dirty.pop(block, range(0))
            kept = [byte for byte in old if byte < first]
            self.counts[Count.DELETED] += len(old) - len(kept)
            if kept:
                self.dirty[block] = range(kept[0], kept[-1] + 1)
        if op in (Op.DELETE, Op.INVALIDATE):
            self.v.pop(block, None)
            self.n.pop(block, None)

    def dirty_bytes(self) -> int:
        return sum(len(bytes_) for bytes_ in self.dirty.values())

    def holds(self) -> tuple[set[int], set[int], set[int]]:
        return (
            {block for v, _ in self.memories for block in v},
            {block for _, n in self.memories for block in n},
            set(self.dirty),
        )

    def missed(self, block: int) -> None:
        self.counts[Count.READ_MISSES] += 1
        self.counts[Count.FETCHED] += self.span[block]

    def send(self, block: int, cause: Count) -> bool:
        """Write a block to the server if it is dirty, and return whether it was."""
        old = self.dirty.pop(block, range(0))
        if old:
            self.counts[cause] += len(old)
            self.counts[Count.BLOCKS_OUT] += 1
            self.counts[Count.NV_READS] += 1
        return bool(old)

    def make_dirty(self, block: int, lo: int, hi: int) -> None:
        old, new = set(self.dirty.get(block, ())), set(range(lo, hi))
        both = old | new
        whole = range(min(both), max(both) + 1)
        self.counts[Count.OVERWRITTEN] += len(old & new)
        self.counts[Count.GAP] += len(whole) - len(both)
        self.counts[Count.NV_WRITES] += 1
        self.counts[Count.BUS] += hi - lo
        self.dirty[block] = whole

    def take_from_volatile(self, block: int, lo: int, hi: int) -> None:
        if block not in self.v:
            self.counts[Count.WRITE_MISSES] += 1
        elif hi - lo < self.span[block]:
            self.counts[Count.BUS] += self.span[block]
        self.v.pop(block, None)

    def copy(self, block: int, worth: int, key: int) -> None:
        """Copy a block that left NVRAM to volatile memory, if there is room or a block that is worth less."""
        if self.sizes[0] and len(self.v) == self.sizes[0] and self.v[self.v.first()] < worth:
            del self.v[self.v.first()]
        if len(self.v) < self.sizes[0]:
            self.v[block] = key
            self.counts[Count.BUS] += self.span[block]

    def following(self, kinds: Collection[Op], ends: Collection[Op], block: int) -> int | None:
        """Return the number of the next operation of these kinds on the block, before one that ends it."""
        for number in range(self.now + 1, len(self.op)):
            if self.block[number] == block and self.op[number] in kinds:
                return number
            if self.block[number] == block and self.op[number] in ends:
                return None
        return None


Choice = Callable[["Unified"], int]


class Unified(Model):
    """000's unified model; `choose` returns the victim of NVRAM."""

    def __init__(self, stream: Stream, volatile: int, nv: int, choose: Choice) -> None:
        super().__init__(stream, volatile, nv)
        self.choose = choose
        self.last_write: dict[int, int] = {}

    def read(self, block: int) -> None:
        if block in self.n:
            self.n[block] = self.now
            self.counts[Count.NV_READS] += 1
            return
        if block not in self.v:
            self.missed(block)
            if len(self.v) == self.sizes[0] and len(self.n) < self.sizes[1]:
                return self.fetch_to_nv(block)
            if len(self.v) == self.sizes[0]:
                if not self.v or self.n[self.n.first()] < self.v[self.v.first()]:
                    self.give_up(self.choose(self))
                    return self.fetch_to_nv(block)
                del self.v[self.v.first()]
        self.v[block] = self.now

    def fetch_to_nv(self, block: int) -> None:
        self.n[block] = self.now
        self.counts[Count.NV_WRITES] += 1

    def write(self, block: int, lo: int, hi: int) -> None:
        if block not in self.n:
            self.take_from_volatile(block, lo, hi)
            if len(self.n) == self.sizes[1]:
                victim = self.choose(self)
                if self.give_up(victim):
                    self.copy(victim, self.last[victim], self.last[victim])
        self.n[block] = self.now
        self.make_dirty(block, lo, hi)
        self.last_write[block] = self.now

    def give_up(self, victim: int) -> bool:
        del self.n[victim]
        return self.send(victim, Count.REPLACED)


class WriteAside(Model):
    """000's write-aside model."""

    def read(self, block: int) -> None:
        if block not in self.v:
            self.missed(block)
        self.access(block)

    def write(self, block: int, lo: int, hi: int) -> None:
        if block not in self.v:
            self.counts[Count.WRITE_MISSES] += 1
        self.access(block)
        if block not in self.n and len(self.n) == self.sizes[1]:
            self.send(self.n.first(), Count.REPLACED)
            del self.n[self.n.first()]
        self.n[block] = self.now
        self.make_dirty(block, lo, hi)

    def access(self, block: int) -> None:
        if block not in self.v and len(self.v) == self.sizes[0]:
            old = self.v.first()
            self.send(old, Count.REPLACED)
            del self.v[old]
            self.n.pop(old, None)
        self.v[block] = self.now
        if block in self.n:
            self.n[block] = self.now

    def command(self, op: int, block: int, lo: int) -> None:
        super().command(op, block, lo)
        if block not in self.dirty:
            self.n.pop(block, None)

    def run(self, at: Iterable[int] = ()) -> tuple[np.ndarray, np.ndarray]:
        counts, before = super().run(at)
        counts[Count.NV_READS] = 0
        counts[Count.BUS] = 2 * self.stream.written
        return counts, before


class NvLru(Model):
    """003's NVLRU; NBM and NV-MIN have other keys, and copy their victims."""

    def read(self, block: int) -> None:
        if block in self.n:
            self.counts[Count.NV_READS] += 1
            self.n[block] = self.nv_key(block)
        else:
            if block not in self.v:
                self.missed(block)
                if len(self.v) == self.sizes[0]:
                    del self.v[self.v.first()]
            self.v[block] = self.volatile_key(block)

    def write(self, block: int, lo: int, hi: int) -> None:
        if block not in self.n:
            self.take_from_volatile(block, lo, hi)
            if len(self.n) == self.sizes[1]:
                victim = self.n.first()
                del self.n[victim]
                self.send(victim, Count.REPLACED)
                self.keep(victim)
        self.n[block] = self.nv_key(block)
        self.make_dirty(block, lo, hi)

    def nv_key(self, block: int) -> int:
        return self.now

    def volatile_key(self, block: int) -> int:
        return self.now

    def keep(self, victim: int) -> None:
        pass


class Nbm(NvLru):
    """003's NBM."""

    def __init__(self, stream: Stream, volatile: int, nv: int) -> None:
        super().__init__(stream, volatile, nv)
        self.reads: dict[int, int] = {}
        self.writes: dict[int, int] = {}

    def read(self, block: int) -> None:
        self.reads[block] = self.now
        super().read(block)

    def write(self, block: int, lo: int, hi: int) -> None:
        self.writes[block] = self.now
        super().write(block, lo, hi)

    def command(self, op: int, block: int, lo: int) -> None:
        super().command(op, block, lo)
        if op in (Op.DELETE, Op.INVALIDATE):
            self.reads.pop(block, None)

    def nv_key(self, block: int) -> int:
        return self.writes[block]

    def keep(self, victim: int) -> None:
        if victim in self.reads:
            self.copy(victim, self.reads[victim], self.reads[victim])


class NvMin(NvLru):
    """003's NV-MIN. The further away, the smaller the key."""

    gone = frozenset({Op.DELETE, Op.INVALIDATE})

    def nv_key(self, block: int) -> int:
        found = self.following({Op.WRITE, Op.DELETE}, {Op.RECALL, Op.INVALIDATE}, block)
        return -self.never(block) if found is None else -found

    def volatile_key(self, block: int) -> int:
        access = self.following({Op.READ, Op.WRITE}, self.gone, block)
        if access is None or self.op[access] == Op.WRITE:
            return -self.never(block)
        return -access

    def never(self, block: int) -> int:
        return len(self.op) + block

    def keep(self, victim: int) -> None:
        # The victim is not the block of the operation, so that its future is the same as after its last one.
        read = self.following({Op.READ}, self.gone, victim)
        if read is not None:
            self.copy(victim, -read, self.volatile_key(victim))


def fewest_accesses(stream: Stream, volatile: int, nv: int) -> int:
    """Return the fewest storage accesses of any decisions: which clean blocks stay, which dirty one goes."""
    costs = {(frozenset[int](), frozenset[int]()): 0}
    for op, block in zip(stream.op.tolist(), stream.block.tolist(), strict=True):
        after: dict[tuple[frozenset[int], frozenset[int]], int] = {}
        for (clean, dirty), cost in costs.items():
            if op == Op.READ:
                cost += block not in clean | dirty
                choices = [(clean | ({block} - dirty), dirty, cost)]
            elif block in dirty or len(dirty) < nv:
                choices = [(clean - {block}, dirty | {block}, cost)]
            else:
                choices = [(clean - {block} | {old}, dirty - {old} | {block}, cost + 1) for old in dirty]
            for may_stay, now_dirty, now_cost in choices:
                for size in range(min(volatile, len(may_stay)) + 1):
                    for stay in combinations(sorted(may_stay), size):
                        state = (frozenset(stay), frozenset(now_dirty))
                        after[state] = min(now_cost, after.get(state, now_cost))
        costs = after
    return min(costs.values())


def segments(stream: Stream, buffer: int) -> tuple[np.ndarray, int]:
    """Return what the fast `segments` returns."""
    counts = np.zeros((len(Segment), len(Part)), np.int64)
    cache: dict[int, int] = {}  # dirty block: since when
    safe: set[int] = set()
    lowest: dict[int, int] = {}
    scanned = 0
    span, file = stream.span.tolist(), stream.file.tolist()

    def parts(blocks: set[int]) -> tuple[int, int, int]:
        files = len({file[block] for block in blocks})
        return sum(span[block] for block in blocks), -(-files // 32) * 4096, 512

    def force(blocks: set[int], why: Segment) -> None:
        for block in blocks:
            del cache[block]
        safe.update(blocks)
        if why == Segment.FULL or sum(span[block] for block in safe) > buffer:
            counts[why] += (1, *parts(safe))
            safe.clear()

    def scan(now: int) -> None:
        nonlocal scanned
        while scanned + 5_000_000 <= now:
            scanned += 5_000_000
            if old := {block for block, since in cache.items() if since + 30_000_000 <= scanned}:
                force(old, Segment.TIMER)

    for number, code in enumerate(stream.op.tolist()):
        op, block, lo = Op(code), int(stream.block[number]), int(stream.lo[number])
        scan(int(stream.time[number]))
        if op == Op.WRITE:
            if block in cache or block in safe:
                lowest[block] = min(lowest[block], lo)
                continue
            if sum(parts(safe | {*cache, block})) > 512 << 10:
                force(set(cache), Segment.FULL)
            cache[block], lowest[block] = int(stream.time[number]), lo
        elif op == Op.DELETE or (op == Op.CUT and lo <= lowest.get(block, lo)):
            cache.pop(block, None)
            safe.discard(block)
        elif op == Op.FSYNC and block in cache:
            force(set(cache), Segment.FSYNC)
    scan(stream.end)
    return counts, sum(span[block] for block in safe | set(cache))
