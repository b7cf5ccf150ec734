# SPDX-License-Identifier: Apache-2.0
"""Find what ext4 keeps on its disk: its blocks, from what debugfs says, and bits in them that matter.

Offsets are those of Linux's fs/ext4/ext4.h and fs/ext4/xattr.h. Blocks have 4096 bytes.
"""

import itertools
import re
import struct
from collections.abc import Iterator
from random import Random
from typing import Literal, NamedTuple

from riobed.errors import InfraError

_INODE_PLACE = re.compile(rb"Inode (\d+) is part of .*\s+located at block (\d+), offset (0x[0-9a-f]+)")
_PER_GROUP = re.compile(rb"^Blocks per group:\s+(\d+)", re.MULTILINE)
_BITMAP = re.compile(rb"Group\s+(\d+): block bitmap at (\d+)")
_ATTRIBUTES = re.compile(rb"File ACL: (\d+)")
_EA_LIST = re.compile(rb"ea_list <(\d+)>")
_USERS = b"\n  user."
_LOG = re.compile(
    rb"expected sequence (\d+), type \d+ \((\w+) (?:block|table)\) at block (\d+)|"
    rb"FS block (\d+) logged at journal block (\d+) \(flags|Revoke FS block (\d+)"
)
_DIFFERENCES = re.compile(rb"Block bitmap differences:(.*)")
_RANGE = re.compile(rb"[-+](?:\((\d+)--(\d+)\)|(\d+))")
_BAD_LOG = re.compile(rb"ournal checksum error|transaction \d+ was corrupt|Invalid checksum recovering")

JOURNAL_INO = 8
_DIRENT = struct.Struct("<IHBB")
_MADE_A_SLASH = (ord("."), 0)
_XATTR = struct.Struct("<BBHIII")
_XATTR_MAGIC = (0xEA020000).to_bytes(4, "little")
_XATTR_HEADER = 32
_USER = 1
_GOOD_OLD_SIZE = 128
_MODE, _OWNER, _SIZE, _LINKS = 0, 2, 4, 26
_PERMISSIONS, _OWNER_BITS = 9, 16
# A larger size than it has, but not so large that a check which reads the file takes long.
_SIZE_BITS = 20


class Bit(NamedTuple):
    """Bit `bit` of byte `offset` of a block, what it is part of, and the device it was changed on, if any."""

    offset: int
    bit: int
    part: str = ""
    where: Literal["nvdimm", "disk"] | None = None


def inode_places(said: bytes) -> dict[int, tuple[int, int]]:
    """Return block and offset of each inode from the output of one `imap` or more."""
    return {int(ino): (int(block), int(at, 16)) for ino, block, at in _INODE_PLACE.findall(said)}


class _Logged(NamedTuple):
    """What a transaction has in block `block` of the journal; `of`: a copy's or a revocation's block."""

    sequence: int
    what: str
    block: int
    of: int


def numbers(said: bytes) -> list[int]:
    """Return the blocks that `blocks` or `bmap` lists."""
    return [int(word) for word in said.split() if word.isdigit()]


def bitmap_place(said: bytes, block: int) -> tuple[int, Bit]:
    """Return the bitmap's block, and the bit of `block` in it, from the output of `stats`.

    InfraError if there is none.
    """
    per_group, bitmaps = _PER_GROUP.search(said), dict(_BITMAP.findall(said))
    group, index = divmod(block, int(per_group[1])) if per_group else (-1, 0)
    if (bitmap := bitmaps.get(b"%d" % group)) is None:
        raise InfraError(f"planted: debugfs finds no bitmap for block {block}")
    return int(bitmap), Bit(*divmod(index, 8))


def attribute_block(said: bytes) -> int:
    """Return the block of an inode's extended attributes from the output of `stat`; 0 if it has none."""
    found = _ATTRIBUTES.search(said)
    return int(found[1]) if found else 0


def with_attributes(said: bytes) -> list[int]:
    """Return the inodes with a user's attribute, from echo and output of an `ea_list <INODE>` for each."""
    answers = _EA_LIST.split(said)
    return [int(ino) for ino, answer in zip(answers[1::2], answers[2::2], strict=True) if _USERS in answer]


def logged_blocks(said: bytes) -> list[tuple[int, str]]:
    """Return the journal's blocks of committed transactions that are not checkpointed, and what each is.

    `said` is the output of `logdump -a`, which begins where a recovery would. A copy of a block that its own
    or a later transaction revokes is left out: no recovery looks at it (do_one_pass in fs/jbd2/recovery.c).
    """
    committed: list[_Logged] = []
    running: list[_Logged] = []
    sequence = 0
    for began, kind, block, of, copy, gone in _LOG.findall(said):
        if began:
            sequence = int(began)
        what = kind.decode() or ("copy" if copy else "revoked")
        running.append(_Logged(sequence, what, int(block or copy or 0), int(of or gone or 0)))
        if what == "commit":
            committed += running
            running = []
    revoked = {each.of: each.sequence for each in committed if each.what == "revoked"}
    replayed = [each for each in committed if each.what != "copy" or each.sequence > revoked.get(each.of, -1)]
    return [(each.block, each.what) for each in replayed if each.what in ("descriptor", "copy", "commit")]


def live_names(directory: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield the names in a block of a directory, and the offset of each; not `.` and `..`.

    Ends where the block makes no sense.
    """
    at = 0
    while at + _DIRENT.size <= len(directory):
        ino, length, name_length, _type = _DIRENT.unpack_from(directory, at)
        start = at + _DIRENT.size
        name = directory[start : start + name_length]
        if length < _DIRENT.size or length % 4 or name_length > length - _DIRENT.size:
            return
        if ino and name not in (b".", b".."):
            yield name, start
        at += length


def bit_of_name(directory: bytes, name: bytes, rng: Random) -> Bit | None:
    """Draw a bit of a name in a block of a directory; None if the name is not there.

    None that makes a slash of a dot: e2fsck puts a dot where a name has a slash (check_name in its pass2.c).
    """
    if (place := dict(live_names(directory)).get(name)) is None:
        return None
    every = itertools.product(range(len(name)), range(8))
    at, bit = rng.choice([(at, bit) for at, bit in every if (name[at], bit) != _MADE_A_SLASH])
    return Bit(place + at, bit, "name")


def bit_of_inode(block: bytes, at: int, rng: Random) -> Bit | None:
    """Draw a bit of the permissions, the owner or the size of the inode at `at`; None if it is not in use.

    Of the size only bits that make it larger: e2fsck takes blocks behind the end for part of the file, and
    might restore the right size.
    """
    (links,) = struct.unpack_from("<H", block, at + _LINKS)
    (size,) = struct.unpack_from("<I", block, at + _SIZE)
    bits = {
        "permissions": (_MODE, range(_PERMISSIONS)),
        "owner": (_OWNER, range(_OWNER_BITS)),
        "size": (_SIZE, [bit for bit in range(_SIZE_BITS) if not size >> bit & 1]),
    }
    part = rng.choice([part for part, (_, some) in bits.items() if some])
    field, some = bits[part]
    byte, bit = divmod(rng.choice(some), 8)
    return Bit(at + field + byte, bit, part) if links else None


def bit_in_use(block: bytes, place: Bit) -> Bit | None:
    """Return that bit of a bitmap if it is set, else None."""
    return place if block[place.offset] >> place.bit & 1 else None


def bit_of_attribute(block: bytes, at: int | None, rng: Random) -> Bit | None:
    """Draw a bit of the value of a user's extended attribute; None if there is none.

    They are in the inode at `at`, or for None in a block of their own.
    """
    if at is None:
        magic, base, first = 0, 0, _XATTR_HEADER
    else:
        (more,) = struct.unpack_from("<H", block, at + _GOOD_OLD_SIZE)
        magic = at + _GOOD_OLD_SIZE + more
        base = first = magic + 4
    if block[magic : magic + 4] != _XATTR_MAGIC:
        return None
    end = len(block) - base
    values = [(start, size) for start, size in _values(block, first) if start + size <= end]
    if not values:
        return None
    start, size = rng.choice(values)
    return Bit(base + start + rng.randrange(size), rng.randrange(8), "inode" if base else "block")


def _values(block: bytes, at: int) -> Iterator[tuple[int, int]]:
    """Yield where the value of each of a user's attributes begins, and its size, in bytes."""
    while at + _XATTR.size <= len(block) and block[at : at + 4] != bytes(4):
        name_length, space, start, elsewhere, size, _hash = _XATTR.unpack_from(block, at)
        if space == _USER and size and not elsewhere:
            yield start, size
        at += (_XATTR.size + name_length + 3) // 4 * 4


def e2fsck_names_block(log: bytes, block: int) -> bool:
    """Return whether e2fsck found the bit of that block wrong in its bitmap."""
    ranges = [found for line in _DIFFERENCES.findall(log) for found in _RANGE.findall(line)]
    return any(int(first or only) <= block <= int(last or only) for first, last, only in ranges)


def e2fsck_names_journal(log: bytes) -> bool:
    """Return whether e2fsck found a wrong checksum in the journal."""
    return bool(_BAD_LOG.search(log))
