# SPDX-License-Identifier: Apache-2.0
"""Whether a recovered tree is the one before or after an operation, or what is documented in between."""

from collections.abc import Callable, Mapping, Sequence

from riobed.guest.workload.tree import Tree, changes
from riobed.sweep.operations import BETWEEN, PLACES

# The content of a file by its path: before, after, or as it was found.
Content = Callable[[bytes], bytes]
# What a crash may leave of data in one of PLACES, as a key of BETWEEN; nothing if it is empty or missing.
Between = Mapping[str, str]


def part(tree: Tree, place: str) -> Tree:
    """What a tree has in one of PLACES."""
    begin = b"/" + place.encode()
    return {path: entry for path, entry in tree.items() if path == begin or path.startswith(begin + b"/")}


def unexplained(
    before: Tree, after: Tree, found: Tree, between: Between, contents: Sequence[Content]
) -> list[str]:
    """Return one line for each path that a crash must not leave as it was found."""
    said = []
    rest = [tree.get(b"/") for tree in (before, after, found)]
    if rest[2] not in rest[:2]:
        said.append("/: differs")
    for place in PLACES:
        old, new, now = (part(tree, place) for tree in (before, after, found))
        if now in (old, new) or _is_between(old, new, now, between.get(place, ""), contents):
            continue
        said += [f"{path.decode('latin-1')}: {what} {more}".strip() for path, what, more in changes(old, now)]
    return said


def _is_between(old: Tree, new: Tree, now: Tree, between: str, contents: Sequence[Content]) -> bool:
    """Whether each file that is neither as before nor as after is one whose data may be in between."""
    if not between or not old.keys() <= now.keys() <= new.keys() | old.keys():
        return False
    test = BETWEEN[between]
    for path, entry in now.items():
        if entry in (old.get(path), new.get(path)):
            continue
        if path not in new or entry.kind != "f" or not _same_but_size(entry.attributes, new[path].attributes):
            return False
        before = contents[0](path) if path in old else b""
        if not test(before, contents[1](path), contents[2](path)):
            return False
    return True


def _same_but_size(one: str, other: str) -> bool:
    """Mode, links, owner and flags (tree.h), and extended attributes."""
    words = [text.split() for text in (one, other)]
    return all(word[:3] + word[4:] == words[0][:3] + words[0][4:] for word in words)
