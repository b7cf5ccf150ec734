# SPDX-License-Identifier: Apache-2.0
"""The log: whole lines in the order of their numbers count, whatever else lies in the chunks."""

import mmap
import random
import struct

import pytest
from riobed.guest.memory.chunks import CHUNK, MOST, find_chunks
from riobed.propagation.log import EventLog, read_event

ENTRY = b"7 entry 5567491910 0 91 memtest 7a40 266338320 75 2 82 fabe3906 811e5354 81296168"
CHANGE = b"8 change 5570629140 1 91 memtest 7a40 0"
WRITE = b"9 write 6000000000 0 12 kworker/u4:1 16816 8192 f 75 2 811e5354"
DONE = b"10 done 6000000500 0 0 swapper/0 16816 8192 0"
TRAP = b"11 trap 7 0 91 memtest ffffffff81234567 ffff888007a40004"


def test_what_each_kind_says() -> None:
    event = read_event(ENTRY)
    assert event is not None
    assert (event.kind, event.ns, event.cpu, event.pid, event.task) == ("entry", 5567491910, 0, 91, "memtest")
    page = {"pfn": 0x7A40, "dev": 266338320, "ino": 75, "index": 2}
    assert event.words == page | {"state": 0x82, "crc": 0xFABE3906}
    assert event.callers == (0xFFFFFFFF811E5354, 0xFFFFFFFF81296168)
    others = {line: read_event(line) for line in (CHANGE, WRITE, DONE, TRAP)}
    assert {event.kind: event.words for event in others.values() if event} == {
        "change": {"pfn": 0x7A40, "changes": 0},
        "write": {"sector": 16816, "bytes": 8192, "of": ord("f"), "ino": 75, "index": 2},
        "done": {"sector": 16816, "bytes": 8192, "status": 0},
        "trap": {"ip": 0xFFFFFFFF81234567, "address": 0xFFFF888007A40004},
    }


@pytest.mark.parametrize("line", [
    b"", b"entry", ENTRY[2:], ENTRY + b" 1 2 3 4 5", ENTRY + b" g", ENTRY + b"\r",
    ENTRY.replace(b"7a40", b"7A40"), ENTRY.replace(b"75", b"9" * 21),
    ENTRY.replace(b"memtest", b"mem test"), ENTRY.replace(b"memtest", b"\xffmemtest"),
    CHANGE.replace(b" 0", b""), b"1 nosuch 5 0 1 task 3", b"8 window 5 0 1 task 7a40 2",
    WRITE.replace(b" f ", b" x "), b"1" * 16 + CHANGE[1:], "٣ change 5 0 1 task 7a40 0".encode(),
])  # fmt: skip
def test_what_is_no_event(line: bytes) -> None:
    assert read_event(line) is None


def test_lines_come_back_in_order_from_a_ring() -> None:
    late = b"\n".join([b"21" + CHANGE[1:], b"22" + CHANGE[1:], b""])
    # The rest of a chunk that is not overwritten yet holds the end of an older line.
    early = b"e 7a40 0\n" + b"\n".join([b"19" + CHANGE[1:], b"20" + CHANGE[1:], b""])
    log = EventLog([late + bytes(100), early + bytes(7)])
    assert [line.split()[0] for line in log.lines] == [b"19", b"20", b"21", b"22"]
    assert (log.unreadable, log.lost) == (1, 18)
    assert log.text().count(b"\n") == 4
    assert [event.kind for event in log.events()] == ["change"] * 4


def test_no_line_at_all() -> None:
    log = EventLog([bytes(50)])
    assert (log.lines, log.unreadable, log.lost, list(log.events())) == ([], 0, 0, [])


def test_any_bytes_do_no_harm() -> None:
    rng = random.Random(5)
    good = b"\n".join([ENTRY, CHANGE, WRITE, DONE, TRAP, b""])
    for _ in range(300):
        garbled = bytearray(good)
        for _ in range(rng.randrange(40)):
            garbled[rng.randrange(len(garbled))] = rng.randrange(256)
        log = EventLog([bytes(garbled), rng.randbytes(500)])
        assert len(list(log.events())) == len(log.lines) <= 5 + 500


def test_chunks_are_where_their_headers_say() -> None:
    size = CHUNK
    header = struct.Struct("<8sQ")
    with mmap.mmap(-1, 8 * size + 100) as memory:
        assert find_chunks(memory) == []
        for place in (2, 5):
            header.pack_into(memory, place * size, b"RBDTRACE", place * size)
        # Copies of a header lie about: of another chunk, inside a chunk, at the end of RAM.
        header.pack_into(memory, 3 * size, b"RBDTRACE", 2 * size)
        header.pack_into(memory, 4 * size + 64, b"RBDTRACE", 4 * size + 64)
        header.pack_into(memory, 8 * size, b"RBDTRACE", 8 * size)
        line = CHANGE + b"\n"
        memory[2 * size + 16 : 2 * size + 16 + len(line)] = line
        found = find_chunks(memory)
    assert [len(chunk) for chunk in found] == [size - 16] * 2
    assert EventLog(found).lines == [CHANGE]


def test_headers_beyond_those_of_a_log_are_forged() -> None:
    with mmap.mmap(-1, (MOST + 3) * CHUNK) as memory:
        for place in range(0, len(memory), CHUNK):
            struct.pack_into("<8sQ", memory, place, b"RBDTRACE", place)
        assert len(find_chunks(memory)) == MOST
