# SPDX-License-Identifier: Apache-2.0
"""From page frames, pages and sectors to damaged places: each event goes where it belongs, and only there."""

from riobed.propagation import follower as propagation
from riobed.propagation.follower import BlockRef, Follower, PropagationPath
from riobed.propagation.log import Event

DIRECT_MAP = 0xFFFF888000000000
CLEAN, DIRTY, METADATA = 1, 2, 0x40
PAGE_2 = BlockRef(75, 2)


def event(kind: str, ns: int, **words: int) -> Event:
    return Event(kind, ns, 0, 91, "memtest", words, ())


def entry(ns: int, pfn: int, ino: int, index: int, state: int = DIRTY) -> Event:
    return event("entry", ns, pfn=pfn, dev=1, ino=ino, index=index, state=state, crc=0)


def change(ns: int, pfn: int, changes: int = 1) -> Event:
    return event("change", ns, pfn=pfn, changes=changes)


def write(ns: int, sector: int, size: int, of: str, ino: int, index: int) -> Event:
    return event("write", ns, sector=sector, bytes=size, of=ord(of), ino=ino, index=index)


def done(ns: int, sector: int, size: int) -> Event:
    return event("done", ns, sector=sector, bytes=size, status=0)


def way(place: BlockRef, *events: Event, start_ns: int | None = None) -> PropagationPath:
    (found,) = Follower([place], start_ns).follow(events)
    return found


def moments(found: PropagationPath) -> list[int]:
    return [event.ns for event in found.events]


def test_events_of_a_page_frame_belong_to_the_page_it_holds() -> None:
    found = way(
        PAGE_2,
        entry(1, 10, 75, 2),
        entry(2, 11, 75, 3),
        change(3, 10),
        change(4, 11),
        event("window", 5, pfn=10, open=1),
        event("verify", 6, pfn=10, intact=1),
        event("trap", 7, ip=1, address=DIRECT_MAP + 10 * 4096 + 17),
        event("trap", 8, ip=1, address=DIRECT_MAP + 11 * 4096),
        event("trap", 9, ip=1, address=17),
    )
    assert moments(found) == [1, 3, 5, 6, 7]


def test_a_page_frame_that_gets_another_page() -> None:
    ours, free, other = entry(1, 10, 75, 2), entry(2, 10, 0, 0, 0), entry(4, 10, 80, 2)
    assert moments(way(PAGE_2, ours, free, change(3, 10), other, change(5, 10))) == [1, 2]
    found = way(PAGE_2, entry(1, 10, 80, 2), change(2, 10), entry(3, 10, 75, 2), change(4, 10))
    assert moments(found) == [3, 4]
    # Replaced without having been free.
    assert moments(way(PAGE_2, entry(1, 10, 75, 2), entry(2, 10, 80, 2), change(3, 10))) == [1, 2]


def test_a_change_comes_before_the_entry_that_names_its_page() -> None:
    assert moments(way(PAGE_2, change(1, 10), entry(2, 10, 75, 2), change(3, 10, 0))) == [1, 2, 3]
    assert moments(way(PAGE_2, change(1, 10), entry(2, 10, 75, 3))) == []


def test_writes_of_a_page_wherever_they_go_and_what_then_reaches_the_disk() -> None:
    found = way(
        PAGE_2,
        done(1, 8008, 4096),
        write(2, 8000, 3 * 4096, "f", 75, 1),
        write(3, 9000, 4096, "f", 75, 3),
        write(4, 9100, 4096, "f", 76, 2),
        write(5, 9200, 4096, "b", 75, 2),
        done(6, 8000, 3 * 4096),
        done(7, 8000, 4096),
        done(8, 8008, 512),
        done(9, 8016, 4096),
        write(10, 9300, 100, "f", 75, 2),
        done(11, 9300, 512),
    )
    assert moments(found) == [2, 6, 8, 10, 11]


def test_whatever_is_written_to_the_block_of_a_page() -> None:
    found = way(
        BlockRef(75, 2, block=1000),
        write(1, 8000, 4096, "-", 0, 0),
        write(2, 8007, 512, "f", 80, 0),
        write(3, 8008, 512, "f", 80, 0),
        write(4, 7999, 512, "f", 80, 0),
        done(5, 7999, 1024),
    )
    assert moments(found) == [1, 2, 5]
    block = way(BlockRef(0, 1000, 1000), write(1, 1, 8192, "b", 9, 999), write(2, 8000, 1, "-", 0, 0))
    assert moments(block) == [1, 2]


def test_a_block_that_goes_to_the_journal_does_not_own_its_place_there() -> None:
    found = way(
        BlockRef(0, 49, 49),
        write(1, 16816, 4096, "b", 266338320, 49),
        done(2, 16816, 4096),
        write(3, 16816, 4096, "b", 266338320, 53),
        write(4, 392, 4096, "b", 266338320, 49),
        done(5, 392, 4096),
    )
    assert moments(found) == [1, 4, 5]


def test_before_the_faults_only_the_state_counts() -> None:
    first, last = entry(1, 10, 75, 2), entry(3, 10, 75, 2, CLEAN)
    found = way(PAGE_2, first, change(2, 10), last, change(4, 10), change(5, 10, 0), start_ns=5)
    assert (found.before, found.total, moments(found)) == (last, 1, [5])


def test_the_last_events_are_kept() -> None:
    found = way(PAGE_2, entry(0, 10, 75, 2), *(change(ns, 10) for ns in range(1, 3001)))
    assert (found.total, len(found.events), found.events[-1].ns) == (3001, propagation._KEPT, 3000)


def test_what_was_being_changed_when_a_fault_was_activated() -> None:
    follower = Follower([], None, [25, 35, 99, 5])
    changes = [change(10, 10), change(20, 11), entry(21, 11, 0, 7, DIRTY | METADATA)]
    ends = [change(30, 10, 0), change(40, 11, 0), change(41, 12)]
    follower.follow([entry(1, 10, 75, 2), *changes, *ends])
    named = {ns: [(c.ino, c.index, c.event.ns) for c in found] for ns, found in follower.changing.items()}
    assert named == {5: [], 25: [(75, 2, 10), (0, 7, 20)], 35: [(0, 7, 20)], 99: []}
    assert follower.first_ns == 1


def test_each_of_several_places_has_its_own_events() -> None:
    ways = Follower([PAGE_2, BlockRef(75, 3), PAGE_2], None).follow(
        [entry(1, 10, 75, 2), entry(2, 11, 75, 3), write(3, 8000, 8192, "f", 75, 2)]
    )
    assert {way.place: moments(way) for way in ways} == {PAGE_2: [1, 3], BlockRef(75, 3): [2, 3]}
