# SPDX-License-Identifier: Apache-2.0
"""The content of the file system under test: listed in the guest, compared here entry by entry."""

from collections.abc import Iterator
from dataclasses import dataclass

from riobed.errors import InfraError
from riobed.vm import Machine

# A listing reads every file, in an emulated guest.
_LIST_S = 1800.0
_END = b"end of listing"
# Names may hold any byte but NUL. The size of a directory is not compared: it is up to the file system.
_SCRIPT = rf"""cd /mnt/test &&
find . -path ./lost+found -prune -o -type d -printf '%p\0%y\0%m %n %U:%G\0\0' \
	-o -printf '%p\0%y\0%m %n %U:%G %s\0%l\0' && printf '\0' &&
find . -path ./lost+found -prune -o -type f -print0 | xargs -0r sha256sum -z &&
printf '%s' '{_END.decode()}'"""


@dataclass(frozen=True)
class Entry:
    """One file: kind as find's %y, its attributes (mode, links, owner, size), content."""

    kind: str
    attributes: str
    content: str


Tree = dict[bytes, Entry]


def list_tree(machine: Machine) -> Tree:
    """Return everything below the mount point; InfraError if the guest cannot list it."""
    result = machine.run(["/bin/sh", "-c", _SCRIPT], timeout=_LIST_S)
    if result.status:
        said = result.stderr.decode("utf-8", "replace").strip().splitlines() or ["says nothing"]
        raise InfraError(f"listing of the file system under test, status {result.status}: {said[-1]}")
    return parse(result.stdout)


def parse(listing: bytes) -> Tree:
    """Parse a listing as _SCRIPT prints it; InfraError if it is incomplete or not a listing."""
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
    for path in sorted(before.keys() | after.keys()):
        old, new = before.get(path), after.get(path)
        if old == new:
            continue
        # A file name may hold newlines and control characters.
        name = ascii(path.decode("utf-8", "surrogateescape"))
        if new is None:
            yield f"{name}: missing"
        elif old is None:
            yield f"{name}: extra"
        else:
            pairs = zip(
                ("type", "attributes", "content"),
                (old.kind, old.attributes, old.content),
                (new.kind, new.attributes, new.content),
                strict=True,
            )
            changes = [f"{what} {a} became {b}" for what, a, b in pairs if a != b]
            yield f"{name}: {', '.join(changes)}"
