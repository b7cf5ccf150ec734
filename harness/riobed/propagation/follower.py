# SPDX-License-Identifier: Apache-2.0
"""Follower: from a fault to a damaged block, by the events of the log that touched it.

The paper leaves this as future work (section 3.3, note 2). A damaged place is a page of a file or a block of
the device. The log has page frames, pages and sectors; this module maps them to each other.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from riobed.guest import PAGE
from riobed.guest.memory.registry import FREE, STATE_MASK
from riobed.propagation.log import Event

# Only the last events of a busy page are kept: the crash is at the end.
_KEPT = 1000
# Pages reported as being changed at one moment: the latest ones.
_CHANGING = 4
_SECTORS = PAGE // 512
# Without KASLR (Documentation/arch/x86/x86_64/mm.rst); RAM ends far below the direct map's end.
_DIRECT_MAP = 0xFFFF888000000000
_DIRECT_MAP_SIZE = 1 << 40


@dataclass(frozen=True)
class BlockRef:
    """A page of a file (`index` counts pages), or with inode 0 block `index` of the device.

    `block` is where it lies on the device, in units of 4 KiB, None if that is not known.
    """

    ino: int
    index: int
    block: int | None = None


@dataclass
class PropagationPath:
    """The events of a place: their number, the last of them, and its last entry before injection."""

    place: BlockRef
    total: int = 0
    events: deque[Event] = field(default_factory=lambda: deque(maxlen=_KEPT))
    before: Event | None = None
    # Sectors that the place is known to have been written to.
    sectors: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        if self.place.block is not None:
            self.sectors.add(self.place.block * _SECTORS)

    def take(self, event: Event, start_ns: int | None) -> None:
        """Count an event of the place; an event before `start_ns` only updates the page's state."""
        if start_ns is not None and event.ns < start_ns:
            self.before = event if event.kind == "entry" else self.before
            return
        self.total += 1
        self.events.append(event)


@dataclass(frozen=True)
class Change:
    """A page that was being changed at some moment, and the event that began it."""

    ino: int
    index: int
    event: Event


class Follower:
    """Gives each event to the places it touched; `start_ns` is the time of injection.

    `changing` has the pages that were being changed at each requested moment (ns).
    """

    def __init__(self, places: Iterable[BlockRef], start_ns: int | None, moments: Iterable[int] = ()) -> None:
        self.paths = [PropagationPath(place) for place in dict.fromkeys(places)]
        self._start_ns = start_ns
        self._by_page = {(path.place.ino, path.place.index): path for path in self.paths}
        # The content of each page frame, from its latest entry.
        self._holds: dict[int, tuple[int, int]] = {}
        # Events of page frames without an entry yet: they were listed before the log began.
        self._unknown: dict[int, list[Event]] = {}
        # For each page frame, the event that began a change which has not ended.
        self._begun: dict[int, Event] = {}
        self.changing: dict[int, list[Change]] = {}
        self._moments = sorted(set(moments), reverse=True)
        self.first_ns: int | None = None

    def follow(self, events: Iterable[Event]) -> list[PropagationPath]:
        """Process all events in order; return each place's path, with what touched it."""
        for event in events:
            self.first_ns = event.ns if self.first_ns is None else self.first_ns
            self._pass_moments(event.ns)
            match event.kind:
                case "entry":
                    self._entry(event)
                case "change":
                    self._change(event)
                case "window" | "verify":
                    self._frame(event.words["pfn"], event)
                case "trap":
                    offset = event.words["address"] - _DIRECT_MAP
                    if 0 <= offset < _DIRECT_MAP_SIZE:
                        self._frame(offset // PAGE, event)
                case "write":
                    self._write(event)
                case "done":
                    self._done(event)
        self._pass_moments(None)
        return self.paths

    def _pass_moments(self, now_ns: int | None) -> None:
        """Record what is being changed at the moments before `now_ns` (None: at all remaining ones)."""
        while self._moments and (now_ns is None or self._moments[-1] < now_ns):
            self.changing[self._moments.pop()] = [
                Change(*self._holds[pfn], event)
                for pfn, event in list(self._begun.items())[-_CHANGING:]
                if pfn in self._holds
            ]

    def _change(self, event: Event) -> None:
        pfn = event.words["pfn"]
        if event.words["changes"]:
            self._begun.setdefault(pfn, event)
        else:
            self._begun.pop(pfn, None)
        self._frame(pfn, event)

    def _give(self, page: tuple[int, int] | None, event: Event) -> None:
        path = self._by_page.get(page) if page else None
        if path:
            path.take(event, self._start_ns)

    def _entry(self, event: Event) -> None:
        pfn, state = event.words["pfn"], event.words["state"]
        held = self._holds.get(pfn)
        page = None
        if state & STATE_MASK != FREE:
            page = (event.words["ino"], event.words["index"])
            for earlier in self._unknown.pop(pfn, ()):
                self._give(page, earlier)
        if held != page:
            # It left the frame.
            self._give(held, event)
        self._give(page, event)
        if page:
            self._holds[pfn] = page
        else:
            self._holds.pop(pfn, None)

    def _frame(self, pfn: int, event: Event) -> None:
        held = self._holds.get(pfn)
        if held:
            self._give(held, event)
        else:
            self._unknown.setdefault(pfn, []).append(event)

    def _write(self, event: Event) -> None:
        for path in self.paths:
            sector = _sector_of(path.place, event.words)
            # A block of the device also goes to the journal, where the next one overwrites it.
            if sector is not None and path.place.ino:
                path.sectors.add(sector)
            if sector is not None or _overlap(path, event.words):
                path.take(event, self._start_ns)

    def _done(self, event: Event) -> None:
        for path in self.paths:
            if _overlap(path, event.words):
                path.take(event, self._start_ns)


def _sector_of(place: BlockRef, words: dict[str, int]) -> int | None:
    """Return the sector that a write puts the page into, None if the page is not part of it."""
    holder = {"f": words["ino"], "b": 0}.get(chr(words["of"]))
    ahead = place.index - words["index"]
    if holder != place.ino or not 0 <= ahead < -(-words["bytes"] // PAGE):
        return None
    return words["sector"] + ahead * _SECTORS


def _overlap(path: PropagationPath, words: dict[str, int]) -> bool:
    """Return whether the sectors of a request overlap the place."""
    start, end = words["sector"], words["sector"] + -(-words["bytes"] // 512)
    return any(start < sector + _SECTORS and sector < end for sector in path.sectors)
