# SPDX-License-Identifier: Apache-2.0
"""A server of shared files in plain Python, byte by byte; and random traces of several clients."""

import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from riobed_caches.stream.lifetimes import Fate
from riobed_caches.trace.builder import Builder
from riobed_caches.trace.events import Event, Flag
from riobed_caches.trace.file import Trace
from riobed_caches.trace.header import Has, Header


@dataclass
class File:
    """A file: who has it open (client, writing) by handle, its dirty bytes and their birth, its writer."""

    handles: dict[int, tuple[int, bool]] = field(default_factory=dict)
    born: dict[int, int] = field(default_factory=dict)
    writer: int | None = None
    shared: bool = False


@dataclass
class Server:
    """Runs a trace, and notes for each byte that was written how old it was when it ended, and how."""

    trace: Trace
    files: dict[int, File] = field(default_factory=lambda: defaultdict(File))
    ended: "Counter[tuple[Fate, int]]" = field(default_factory=Counter)

    def run(self) -> "Counter[tuple[Fate, int]]":
        columns = {name: values.tolist() for name, values in self.trace.columns.items()}
        for at in range(len(self.trace)):
            self.step({name: values[at] for name, values in columns.items()})
        for file in self.files.values():
            self.end(file, list(file.born), Fate.REMAINING, round(self.trace.seconds * 1e6))
        return self.ended

    def end(self, file: File, where: list[int], fate: Fate, now: int) -> None:
        for byte in where:
            self.ended[fate, now - file.born.pop(byte)] += 1

    def step(self, event: dict[str, int]) -> None:
        kind, now, client = Event(event["event"]), event["time"], event["client"]
        file = self.files[event["file"]]
        if kind is Event.OPEN:
            self.open(file, event["handle"], client, bool(event["flags"] & Flag.FOR_WRITING), now)
            if event["flags"] & Flag.EMPTIED:
                self.end(file, list(file.born), Fate.DELETED, now)
            return
        if event["handle"] in file.handles and file.handles[event["handle"]][0] != client:
            writing = file.handles[event["handle"]][1]
            self.close(file, event["handle"])
            self.open(file, event["handle"], client, writing, now)
        if kind is Event.CLOSE:
            self.close(file, event["handle"])
        elif kind is Event.WRITE:
            where = range(event["offset"], event["offset"] + event["length"])
            self.end(file, [byte for byte in where if byte in file.born], Fate.OVERWRITTEN, now)
            if file.shared:
                self.ended[Fate.CONCURRENT, 0] += len(where)
            else:
                file.born.update(dict.fromkeys(where, now))
                file.writer = client
        elif kind is Event.TRUNCATE:
            self.end(file, [byte for byte in file.born if byte >= event["size"]], Fate.DELETED, now)
        elif kind is Event.DELETE:
            self.end(file, list(file.born), Fate.DELETED, now)

    def open(self, file: File, handle: int, client: int, writing: bool, now: int) -> None:
        if file.writer not in (None, client):
            self.end(file, list(file.born), Fate.CALLED_BACK, now)
        file.handles[handle] = (client, writing)
        clients = {client for client, _ in file.handles.values()}
        if not file.shared and len(clients) > 1 and any(writing for _, writing in file.handles.values()):
            file.shared = True
            self.end(file, list(file.born), Fate.CALLED_BACK, now)

    def close(self, file: File, handle: int) -> None:
        del file.handles[handle]
        if not file.handles:
            file.shared = False


def random_trace(chance: random.Random, length: int = 80) -> Trace:
    """Return a short trace of up to 3 clients and 3 files, in which handles may move to another client."""
    builder, now, opened, number, generation = Builder(), 0, {}, 0, Counter()
    for client in range(3):
        builder.add(0, Event.SYNC, client=client)
    for _ in range(length):
        now += chance.choice([0, 0, 1, 3, 20])
        name, client = chance.randrange(3), chance.randrange(3)
        kind = chance.choice("oooccrrwwwwwtdm")
        if kind == "o":
            number += 1
            flags = chance.choice([Flag.FOR_READING, Flag.FOR_WRITING, Flag.FOR_WRITING | Flag.EMPTIED])
            builder.add(now, Event.OPEN, (name, generation[name]), client=client, handle=number, flags=flags)
            opened[number] = ((name, generation[name]), client, flags)
        elif kind == "d":
            builder.add(now, Event.DELETE, (name, generation[name]), client=client)
            # A deleted file may still be open, but its id is not used by another one.
            generation[name] += 1
        elif kind == "t":
            builder.add(
                now, Event.TRUNCATE, (name, generation[name]), client=client, size=chance.randrange(20)
            )
        elif opened:
            handle = chance.choice(list(opened))
            file, client, flags = opened[handle]
            if kind == "m":
                client = chance.randrange(3)
                opened[handle] = (file, client, flags)
            if kind == "c":
                builder.add(now, Event.CLOSE, file, client=client, handle=handle)
                del opened[handle]
            else:
                event = Event.WRITE if kind == "w" and flags & Flag.FOR_WRITING else Event.READ
                span = {"offset": chance.randrange(20), "length": chance.randrange(1, 12)}
                builder.add(now, event, file, client=client, handle=handle, **span)
    return builder.trace(
        Header(recorder="test", source="random", clock="none", has=list(Has), seconds=now / 1e6 + 1)
    )
