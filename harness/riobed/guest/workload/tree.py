# SPDX-License-Identifier: Apache-2.0
"""The content of the file system under test: listed in the guest, compared here entry by entry."""

import shlex
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from riobed.errors import InfraError
from riobed.vm import Machine

MOUNT = "/mnt/test"
# A listing reads every file, in an emulated guest.
_LIST_S = 1800.0
_END = b"end of listing"
# What find and xargs end with if something could not be read.
_UNREADABLE = (1, 123)


class TreeError(InfraError):
    """A part of the file system under test cannot be read."""


@dataclass(frozen=True)
class Entry:
    """One file: kind as find's %y, its attributes (mode, links, owner, size), content."""

    kind: str
    attributes: str
    content: str


Tree = dict[bytes, Entry]


def script(without: Collection[str] = (), times: bool = False) -> str:
    """Return a text for sh that lists the file system under test, without these folders and lost+found.

    With `times`, the times of the last writes are attributes, too.
    """
    # Names may hold any byte but NUL. The size of a directory is not compared: it is up to the file system.
    folders = ["./lost+found", *("." + each.removeprefix(MOUNT) for each in without)]
    skip = " -o ".join(f"-path {shlex.quote(folder)}" for folder in folders)
    begin, status = f"find . \\( {skip} \\) -prune -o", "%p\\0%y\\0%m %n %U:%G" + times * " %T@"
    return (
        f"cd {MOUNT} && {begin} -type d -printf '{status}\\0\\0' -o -printf '{status} %s\\0%l\\0' &&"
        f" printf '\\0' && {begin} -type f -print0 | xargs -0r sha256sum -z && printf '%s' '{_END.decode()}'"
    )


def read_listing(machine: Machine, text: str, timeout: float = _LIST_S) -> bytes:
    """Run a script() in the guest and return what it prints; of an empty one, nothing.

    TreeError if there is something unreadable, InfraError if it fails, AgentLost if it takes over `timeout`
    seconds.
    """
    if not text:
        return b""
    result = machine.run(["/bin/sh", "-c", text], timeout=timeout)
    if result.status:
        said = result.stderr.decode("utf-8", "replace").strip().splitlines() or ["says nothing"]
        kind = TreeError if result.status in _UNREADABLE else InfraError
        raise kind(f"listing of the file system under test, status {result.status}: {said[-1]}")
    return result.stdout


def list_tree(machine: Machine) -> Tree:
    """Return everything below the mount point; InfraError if the guest cannot list it."""
    return parse(read_listing(machine, script()))


def parse(listing: bytes) -> Tree:
    """Parse what a script() prints; InfraError if it is incomplete or not a listing."""
    if not listing.endswith(_END):
        raise InfraError("listing of the file system under test: cut short")
    # Names are not empty, so an empty one ends the first part.
    fields = listing.removesuffix(_END).split(b"\0")
    try:
        middle = next(n for n in range(0, len(fields), 4) if not fields[n])
        hashes = dict(_hash(line) for line in fields[middle + 1 : -1])
        return {
            path: Entry(kind.decode(), attributes.decode(), hashes.get(path, link.decode("latin-1")))
            for path, kind, attributes, link in zip(*(fields[n:middle:4] for n in range(4)), strict=True)
        }
    except (StopIteration, ValueError):
        raise InfraError("listing of the file system under test: is malformed") from None


def _hash(line: bytes) -> tuple[bytes, str]:
    digest, path = line.split(b"  ", 1)
    return path, digest.decode()


def differences(before: Tree, after: Tree) -> Iterator[str]:
    """Yield one line for each entry that differs, by path."""
    for path, kind, detail in changes(before, after):
        # A file name may hold newlines and control characters.
        name = ascii(path.decode("utf-8", "surrogateescape"))
        yield f"{name}: {detail or kind}"


def changes(before: Tree, after: Tree) -> Iterator[tuple[bytes, str, str]]:
    """Yield path, kind of difference, and more about it of each entry that differs, by path.

    A kind is missing, extra, type, attributes, or content, the first of them that it is.
    """
    for path in sorted(before.keys() | after.keys()):
        old, new = before.get(path), after.get(path)
        if new is None:
            yield path, "missing", ""
        elif old is None:
            yield path, "extra", ""
        elif old != new:
            pairs = zip(
                ("type", "attributes", "content"),
                (old.kind, old.attributes, old.content),
                (new.kind, new.attributes, new.content),
                strict=True,
            )
            told = [(what, f"{what} {a} became {b}") for what, a, b in pairs if a != b]
            yield path, told[0][0], ", ".join(text for _, text in told)
