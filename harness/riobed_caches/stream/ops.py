# SPDX-License-Identifier: Apache-2.0
"""What a cache of blocks sees: one operation on one block of one client."""

from dataclasses import dataclass, replace
from enum import IntEnum

from riobed_caches.compiled import Int8s, Int32s, Int64s

BLOCK = 4096


class Op(IntEnum):
    """What happens to a block; `lo` and `hi` are bytes within it.

    READ, WRITE: of the bytes from `lo` to before `hi`. DELETE: the block is gone, its dirty bytes die. CUT:
    the bytes from `lo` on are gone. FSYNC: its bytes must be safe. RECALL: its dirty bytes go to the server;
    it stays, clean. INVALIDATE: it leaves the cache; a RECALL was before, if it could be dirty. CLOSE: a
    handle that wrote it is closed.

    The others are of `Actions` alone. PASSED_READ, PASSED_WRITE: as READ and WRITE, of a file that is not
    cached. SAFE_WRITE: a WRITE and then an FSYNC of its bytes. SYNC: an FSYNC of each file of a client.
    """

    READ = 0
    WRITE = 1
    DELETE = 2
    CUT = 3
    FSYNC = 4
    RECALL = 5
    INVALIDATE = 6
    CLOSE = 7
    PASSED_READ = 8
    PASSED_WRITE = 9
    SAFE_WRITE = 10
    SYNC = 11


@dataclass(frozen=True)
class Actions:
    """What clients did to whole files, sorted by time; the trace and its consistency protocol in one list.

    Of each action `time` in µs, `op`, `pair` and the bytes from `start` to before `end`. A pair is a dense id
    of a file at a client; `client` and `file` have those of each pair. A CUT has the new size in `start`.
    `pair` is the client for a SYNC, and the file for a CUT or a DELETE, which are of the file at each client.
    `last` is the time of the end.
    """

    time: Int64s
    op: Int8s
    pair: Int32s
    start: Int64s
    end: Int64s
    client: Int32s
    file: Int32s
    clients: int
    files: int
    last: int

    def first(self, number: int) -> "Actions":
        """Return the first `number` actions."""
        names = ("time", "op", "pair", "start", "end")
        return replace(self, **{name: getattr(self, name)[:number] for name in names})


@dataclass(frozen=True)
class Stream:
    """Operations on blocks, sorted by time. A block is a client's: two clients never share one.

    `time` is in µs. `block` is a dense id; of each block, `client` is the client, `file` a dense id of the
    client's file, and `span` how many of its bytes are ever used, which is what a miss fetches. `read` and
    `written` are what programs moved; `passed_read` and `passed_written` the part that passed the caches by,
    because a file was shared (concurrent write-sharing).
    """

    time: Int64s
    op: Int8s
    block: Int32s
    lo: Int32s
    hi: Int32s
    client: Int32s
    file: Int32s
    span: Int32s
    clients: int
    files: int
    block_size: int
    end: int
    read: int
    written: int
    passed_read: int
    passed_written: int

    @property
    def blocks(self) -> int:
        """Return how many blocks there are."""
        return len(self.client)
