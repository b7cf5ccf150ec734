# SPDX-License-Identifier: Apache-2.0
"""Writes of a log-structured file system on a server, with and without a non-volatile buffer (000, 3)."""

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from riobed_caches.compiled import Int8s, Int32s, Int64s, kernel
from riobed_caches.errors import TraceError
from riobed_caches.models.memories import NV, VOLATILE, Memories, drop, empty, first, has, held, put
from riobed_caches.rows import METADATA, SUMMARY
from riobed_caches.stream.ops import Op, Stream

# 000, 3: segments of half a megabyte.
SEGMENT = 512 << 10
# File descriptors in a metadata block: FS_BLOCK_SIZE / FSDM_MAX_FILE_DESC_SIZE of Sprite's fsdm.h.
DESCRIPTORS = METADATA // 128
# 000, 3: "dirty data older than 30 seconds is flushed from the cache every 5 seconds". In µs.
AGE = 30_000_000
SCAN = 5_000_000
_ALWAYS = np.iinfo(np.int64).max
_ALL, _BUFFERED = 0, 1


class Segment(IntEnum):
    """Why a segment was written: it was FULL, or data was old (TIMER), or a file was fsync'd (FSYNC)."""

    FULL = 0
    TIMER = 1
    FSYNC = 2


class Part(IntEnum):
    """What is counted of the segments of a kind: their number, and bytes of the parts of them."""

    NUMBER = 0
    DATA = 1
    METADATA = 2
    SUMMARY = 3


class _Log(NamedTuple):
    """Of _ALL dirty blocks and of the _BUFFERED ones (first index): blocks by file, bytes, and files."""

    blocks: Int32s
    bytes: Int64s
    files: Int64s


def segments(stream: Stream, buffer_bytes: int) -> tuple[Int64s, int]:
    """Return int64[Segment, Part] of a server's file system, and the bytes of dirty blocks at the end.

    The stream is what the server gets: WRITE, DELETE, CUT and FSYNC; other operations are ignored (000, 3).

    - A dirty block is written as a whole, `span` bytes of it. It is dirty from its first dirty byte on, until
      it is in a segment, or deleted, or all its dirty bytes are cut off.
    - All dirty blocks are written as a full segment, when the next one would not fit into it with its
      metadata and the summary.
    - At each multiple of SCAN, what is dirty for AGE is forced out. An FSYNC of a block forces out all that
      is dirty in the file system, if that block is, and is not in the buffer.
    - What is forced out goes to the non-volatile buffer. When there is more in it than `buffer_bytes`, it is
      written as a partial segment; 0 is no buffer. A write to a block in the buffer stays there.

    000 gives each segment "at least one" block of metadata. Here it has one for each DESCRIPTORS files or
    part of them; index blocks of large files are left out.

    Raises TraceError if the stream is not of one client, a block does not fit into a segment, or
    `buffer_bytes` is negative.
    """
    if stream.clients != 1:
        raise TraceError("stream", f"it has {stream.clients} clients", "give that of a server")
    if stream.block_size > SEGMENT - METADATA - SUMMARY:
        raise TraceError(
            "stream", f"blocks of {stream.block_size} bytes do not fit a segment", "use smaller ones"
        )
    if buffer_bytes < 0:
        raise TraceError("stream", f"a buffer of {buffer_bytes} bytes", "give 0 or more")
    counts = np.zeros((len(Segment), len(Part)), np.int64)
    log = _Log(np.zeros((2, stream.files), np.int32), np.zeros(2, np.int64), np.zeros(2, np.int64))
    ops = (stream.time, stream.op, stream.block, stream.lo, stream.file)
    _run(*ops, stream.end, empty(stream), log, counts, buffer_bytes)
    return counts, int(log.bytes[_ALL])


@kernel
def _run(
    time: Int64s,
    ops: Int8s,
    blocks: Int32s,
    lo: Int32s,
    file: Int32s,
    end: int,
    memories: Memories,
    log: _Log,
    counts: Int64s,
    buffer_bytes: int,
) -> None:
    for i in range(ops.size):
        _scan(memories, log, file, counts, buffer_bytes, time[i])
        op, block = ops[i], blocks[i]
        about = memories.blocks[block]
        dirty = has(memories, VOLATILE, block) or has(memories, NV, block)
        if op == Op.WRITE:
            if not dirty:
                if _is_full(log, file[block], about.span):
                    _force(memories, log, file, _ALWAYS)
                    _write(memories, log, file, counts, Segment.FULL)
                put(memories, VOLATILE, block, time[i])
                _count(log, _ALL, file[block], about.span, 1)
            about.begin = min(about.begin, lo[i]) if dirty else lo[i]
        elif dirty and (op == Op.DELETE or (op == Op.CUT and lo[i] <= about.begin)):
            _clean(memories, log, file, block)
        elif op == Op.FSYNC and has(memories, VOLATILE, block):
            _force(memories, log, file, _ALWAYS)
            if log.bytes[_BUFFERED] > buffer_bytes:
                _write(memories, log, file, counts, Segment.FSYNC)
    _scan(memories, log, file, counts, buffer_bytes, end)


@kernel
def _metadata(files: int) -> int:
    return (files + DESCRIPTORS - 1) // DESCRIPTORS * METADATA


@kernel
def _is_full(log: _Log, file: int, span: int) -> bool:
    """Return whether a block of the file does not fit any more."""
    files = log.files[_ALL] + (log.blocks[_ALL, file] == 0)
    return bool(log.bytes[_ALL] + span + _metadata(files) + SUMMARY > SEGMENT)


@kernel
def _scan(memories: Memories, log: _Log, file: Int32s, counts: Int64s, buffer_bytes: int, now: int) -> None:
    """Do the scans up to `now` that find old data."""
    while held(memories, VOLATILE, 0) > 0:
        old = first(memories, VOLATILE, 0).key + AGE
        scan = (old + SCAN - 1) // SCAN * SCAN
        if scan > now:
            return
        _force(memories, log, file, scan - AGE)
        if log.bytes[_BUFFERED] > buffer_bytes:
            _write(memories, log, file, counts, Segment.TIMER)


@kernel
def _force(memories: Memories, log: _Log, file: Int32s, since: int) -> None:
    """Move to the buffer what is dirty since then, or for longer."""
    while held(memories, VOLATILE, 0) > 0 and first(memories, VOLATILE, 0).key <= since:
        block = first(memories, VOLATILE, 0).block
        drop(memories, VOLATILE, block)
        put(memories, NV, block, 0)
        _count(log, _BUFFERED, file[block], memories.blocks[block].span, 1)


@kernel
def _write(memories: Memories, log: _Log, file: Int32s, counts: Int64s, why: int) -> None:
    """Write what is in the buffer as a segment."""
    counts[why, Part.NUMBER] += 1
    counts[why, Part.DATA] += log.bytes[_BUFFERED]
    counts[why, Part.METADATA] += _metadata(log.files[_BUFFERED])
    counts[why, Part.SUMMARY] += SUMMARY
    while held(memories, NV, 0) > 0:
        _clean(memories, log, file, first(memories, NV, 0).block)


@kernel
def _clean(memories: Memories, log: _Log, file: Int32s, block: int) -> None:
    span = memories.blocks[block].span
    if has(memories, NV, block):
        _count(log, _BUFFERED, file[block], span, -1)
    _count(log, _ALL, file[block], span, -1)
    drop(memories, VOLATILE, block)
    drop(memories, NV, block)


@kernel
def _count(log: _Log, which: int, file: int, span: int, change: int) -> None:
    """Count a block that comes (`change` is 1) or goes (-1)."""
    log.bytes[which] += change * span
    before = log.blocks[which, file] > 0
    log.blocks[which, file] += change
    log.files[which] += (log.blocks[which, file] > 0) - before
