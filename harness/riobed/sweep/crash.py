# SPDX-License-Identifier: Apache-2.0
"""The crash points of a recording: the memory and the disk of each, recovered on the host and judged.

A point is the moment after a store. If the store changed nothing, or a page that is not listed, recovery
finds the same as at the point before. Such a point is counted, and not recovered again.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from riobed.guest import Layout
from riobed.guest.workload.tree import Tree
from riobed.sweep.changes import Change
from riobed.sweep.judge import Between, Content, unexplained
from riobed.sweep.logged_recovery import LoggedRecovery
from riobed.sweep.memory import Memory
from riobed.sweep.recording import Recording, copy_sparse
from riobed.sweep.recovery import Damaged, Programs, Recovery

# A file of this name in the folder of a case tells its processes to end before the next state.
STOP = "stop"


@dataclass
class Found:
    """How many states of a share were compared, and one line for each thing that is unexplained.

    `points` is how many crash points there are in a recovery, of all shares.
    """

    points: int = 0
    compared: int = 0
    unexplained: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Share:
    """The states of a recording that one process takes: each `step`-th one from `first` on.

    Of the stores of a copy, only each `copy_step`-th one counts. Memory and disk of its first state that is
    unexplained are kept in a folder in `evidence`.
    """

    first: int
    step: int
    copy_step: int
    evidence: Path


@dataclass(frozen=True)
class State:
    """What recovery may find: the number of its first crash point, and the disk."""

    number: int
    disk: Path


def states(recording: Recording, memory: Memory, copy_step: int) -> Iterator[State]:
    """Bring memory from one state to the next, from before the first change to after the last."""
    disk, number, copied = recording.disks[0], 0, 0
    last = Change(0, b"", store=True)
    yield State(number, disk)
    for change in recording.changes:
        if not change.content:
            disk = recording.disks[1]
        seen = memory.apply(change)
        if not change.store:
            continue
        number += 1
        copied = copied + 1 if _continues(last, change) else 0
        last = change
        if seen and not copied % copy_step:
            yield State(number, disk)
    yield State(number, recording.disks[1])


def _continues(last: Change, change: Change) -> bool:
    """Whether a store goes on, upwards or downwards, where the one before it ended, as those of a copy do."""
    upwards = change.physical == last.physical + len(last.content)
    return upwards or change.physical + len(change.content) == last.physical


def crash(
    recording: Recording, between: Between, layout: Layout, programs: Programs, share: Share, folder: Path
) -> Found:
    """Recover and judge a share of a recording's states; InfraError if the host fails."""
    place = Path(tempfile.mkdtemp(dir=folder))
    try:
        recovery = Recovery(programs, layout, place)
        contents = _contents(recording, recovery, layout, place) if any(between.values()) else []
        found = Found()
        with _memory(recording, layout, place) as memory:
            for count, state in enumerate(states(recording, memory, share.copy_step)):
                if (folder / STOP).exists():
                    break
                if count % share.step == share.first:
                    found.compared += 1
                    said = _judged(recording.trees, between, contents, recovery, memory, state.disk)
                    _note(found, f"point {state.number}", said, memory, state.disk, share)
        return found
    finally:
        shutil.rmtree(place)


def whole_recovery(recording: Recording, layout: Layout, programs: Programs, folder: Path) -> LoggedRecovery:
    """Recover what an operation left when it had ended, with a log; InfraError if the host fails."""
    place = Path(tempfile.mkdtemp(dir=folder))
    try:
        with _memory(recording, layout, place) as memory:
            for change in recording.changes:
                memory.apply(change)
            disk = Path(shutil.copy(recording.disks[1], place / "logged"))
            return Recovery(programs, layout, place).log(memory, disk, place)
    finally:
        shutil.rmtree(place)


def crash_recovery(
    recording: Recording,
    whole: LoggedRecovery,
    layout: Layout,
    programs: Programs,
    share: Share,
    folder: Path,
) -> Found:
    """Cut a whole recovery short at each write, recover again and judge, for a share.

    A state has some of the writes, the first ones, and a registry of that time. InfraError if the host fails.
    """
    place = Path(tempfile.mkdtemp(dir=folder))
    try:
        recovery, found = Recovery(programs, layout, place), Found()
        with _memory(recording, layout, place) as memory:
            for change in recording.changes:
                memory.apply(change)
            disk = Path(shutil.copy(recording.disks[1], place / "disk"))
            for number in _states_of_recovery(whole, memory, disk):
                if (folder / STOP).exists():
                    break
                found.points += 1
                if found.points % share.step == share.first:
                    found.compared += 1
                    trees = (recording.trees[1], recording.trees[1])
                    said = _judged(trees, {}, [], recovery, memory, disk)
                    _note(found, f"write {number}", said, memory, disk, share)
        return found
    finally:
        shutil.rmtree(place)


def _note(found: Found, state: str, said: list[str], memory: Memory, disk: Path, share: Share) -> None:
    if said and not found.unexplained:
        kept = share.evidence / state.replace(" ", "-")
        kept.mkdir(parents=True, exist_ok=True)
        copy_sparse(memory.path, kept / "memory")
        copy_sparse(disk, kept / "disk")
    found.unexplained += [f"{state}: {each}" for each in said]


def _states_of_recovery(whole: LoggedRecovery, memory: Memory, disk: Path) -> Iterator[int]:
    """Bring disk and registry from one state to the next; yield how many writes the disk has."""
    first = memory.registry
    with disk.open("r+b") as file:
        for number in range(len(whole.log.writes) + 1):
            if number:
                write = whole.log.writes[number - 1]
                file.seek(write.offset)
                file.write(write.data)
                file.flush()
            for registry in whole.at(number, first):
                memory.registry = registry
                yield number


@contextmanager
def _memory(recording: Recording, layout: Layout, folder: Path) -> Iterator[Memory]:
    path = Path(shutil.copy(recording.memory, folder / "memory"))
    memory = Memory(path, layout)
    try:
        yield memory
    finally:
        memory.close()


def _contents(recording: Recording, recovery: Recovery, layout: Layout, folder: Path) -> list[Content]:
    """Return what files have before and after the operation."""
    with _memory(recording, layout, folder) as memory:
        before = _read_all(recovery, memory, recording.disks[0])
        for change in recording.changes:
            memory.apply(change)
        after = _read_all(recovery, memory, recording.disks[1])
    return [before.__getitem__, after.__getitem__]


def _read_all(recovery: Recovery, memory: Memory, disk: Path) -> dict[bytes, bytes]:
    with recovery.of(memory, disk) as (tree, _):
        files = [path for path, entry in (tree or {}).items() if entry.kind == "f"]
        return {path: recovery.content(path) for path in files}


def _judged(
    trees: tuple[Tree, Tree],
    between: Between,
    contents: list[Content],
    recovery: Recovery,
    memory: Memory,
    disk: Path,
) -> list[str]:
    try:
        with recovery.of(memory, disk) as (tree, said):
            if tree is None:
                return [said]
            return unexplained(*trees, tree, between, [*contents, recovery.content])
    except Damaged as error:
        return [str(error)]
