# SPDX-License-Identifier: Apache-2.0
"""Damaged places: what the oracles of a trial found wrong, as pages of files and blocks of the device.

The workload's check names files and offsets; recovery's checksums name inodes and pages. The guest, which is
then in stage 0, tells the inode of a file and the place of a page on the device. The check of a workload
other than memtest may name nothing; then only the checksums can be followed.
"""

import re
from dataclasses import dataclass

from riobed_results.store import CheckReport, Difference, RecoveryReport

from riobed.errors import InfraError
from riobed.guest import GUEST_DIR, PAGE, Guest
from riobed.propagation.follower import BlockRef
from riobed.trial import TrialRecord

# Limits on how many damages are followed, and how many pages of each.
_MOST = 32
_MOST_PAGES = 4
# Of this kind is what lies in a file's inode, so in none of its pages.
_ATTRIBUTES = "metadata"
_NUMBER = re.compile(rb"\d{1,18}")
# An empty line if there is none; debugfs has the same exit status either way.
_INODES = f'cd {GUEST_DIR} && for f; do stat -c %i -- "$f" 2>/dev/null || echo; done'
_BLOCKS = """while read -r ino page; do
	echo "$(debugfs -R "bmap <$ino> $page" "$0" 2>/dev/null)"
done"""


@dataclass(frozen=True)
class Damage:
    """One difference in words, and the pages it is in; empty if there is no page to follow."""

    what: str
    places: tuple[BlockRef, ...]


def damages(guest: Guest, record: TrialRecord) -> list[Damage]:
    """Return what is wrong after a trial; InfraError if the guest does not answer.

    Without a check (no crash, or the file system cannot be mounted) there are only the checksums.
    """
    found = _differences(guest, record.check) + _mismatches(record.recovery)
    blocks = _blocks(guest, [place for damage in found for place in damage.places if place.ino])
    return [
        Damage(
            damage.what,
            tuple(
                BlockRef(place.ino, place.index, blocks.get(place)) if place.ino else place
                for place in damage.places
            ),
        )
        for damage in found
    ]


def _mismatches(recovery: RecoveryReport | None) -> list[Damage]:
    """Return the cached pages whose checksum is not that of their last legal writer."""
    sums = recovery.checksums if recovery else None
    found = []
    for page in sums.mismatches[:_MOST] if sums else []:
        if page.metadata:
            place = BlockRef(0, page.index, page.index)
            found.append(Damage(f"checksum of block {page.index} of the device", (place,)))
        else:
            place = BlockRef(page.ino, page.index)
            found.append(Damage(f"checksum of page {page.index} of inode {page.ino}", (place,)))
    return found


def _differences(guest: Guest, check: CheckReport | None) -> list[Damage]:
    """Return the differences that the check lists in memtest's form: path, kind, offset, length."""
    known = check.differences[:_MOST] if check else []
    inodes = _inodes(guest, [each.path for each in known])
    return [
        Damage(_words(each), () if each.kind == _ATTRIBUTES else _pages(ino, each.offset, each.length))
        for each, ino in zip(known, inodes, strict=True)
    ]


def _words(found: Difference) -> str:
    return f"{found.path}: {found.kind}, {found.length} bytes from {found.offset}"


def _pages(ino: int, offset: int, length: int) -> tuple[BlockRef, ...]:
    if not ino:
        return ()
    first, last = offset // PAGE, max(offset, offset + length - 1) // PAGE
    return tuple(BlockRef(ino, index) for index in range(first, min(last, first + _MOST_PAGES - 1) + 1))


def _inodes(guest: Guest, paths: list[str]) -> list[int]:
    """Return the inode of each path, 0 for a path that does not exist."""
    if not paths:
        return []
    return _numbers(guest, ["/bin/sh", "-c", _INODES, "sh", *paths], b"", len(paths))


def _blocks(guest: Guest, places: list[BlockRef]) -> dict[BlockRef, int]:
    """Return the blocks of pages on the device; a page in a hole has none."""
    unique = list(dict.fromkeys(places))
    if not unique:
        return {}
    asked = "".join(f"{place.ino} {place.index}\n" for place in unique).encode()
    answers = _numbers(guest, ["/bin/sh", "-c", _BLOCKS, guest.mode.device], asked, len(unique))
    return {place: block for place, block in zip(unique, answers, strict=True) if block}


def _numbers(guest: Guest, argv: list[str], stdin: bytes, count: int) -> list[int]:
    """Return the number at the start of each line that a command in the guest prints, 0 if none."""
    lines = guest.machine.run(argv, stdin).stdout.split(b"\n")[:-1]
    if len(lines) != count:
        raise InfraError(f"the guest does not say where the damage is: {b' '.join(lines)[:100]!r}")
    return [int(match[0]) if (match := _NUMBER.match(line)) else 0 for line in lines]
