# SPDX-License-Identifier: Apache-2.0
"""Plant a change in what ext4 keeps beside the content of files: see riobed.trial.control.plant."""

import os
import random
from collections.abc import Callable
from functools import partial
from pathlib import PurePosixPath

from riobed.errors import InfraError
from riobed.guest import GUEST_DIR, PAGE, Guest
from riobed.guest.settings.filesystems import NVDIMM_DEVICE
from riobed.trial.control import ext4
from riobed.trial.control.blocks import (
    MOUNT_POINT,
    at_once,
    change_block,
    change_nvdimm,
    change_on_disk,
    changeable,
)
from riobed.trial.control.change import Plant, files, listing
from riobed.trial.control.ext4 import Bit

# Number of draws: what is drawn may be clean in memory, or not be there.
_DRAWS = 20
# -n: a cached block gets its checksum only when it is written.
_DEBUGFS = ["debugfs", "-n"]
# debugfs 1.47.2 miscounts the blocks of a journal whose superblock is in its second block, as on a device.
# So it gets a copy that has it in the first one, too. The numbers of the blocks stay as they are.
_COPY = "/tmp/riobed-journal"
_COPY_JOURNAL = (
    f"dd if={NVDIMM_DEVICE} of={_COPY} bs={PAGE} skip=1 count=1 iflag=direct &&"
    f" dd if={NVDIMM_DEVICE} of={_COPY} bs={PAGE} skip=1 seek=1 iflag=direct conv=sparse"
)
# Number of files that are asked for extended attributes.
_ASKED = 300


def directory(guest: Guest, rng: random.Random) -> Plant:
    """Change a bit of a name in a directory."""
    tree = {PurePosixPath(name): ino for _, ino, name in listing(guest)}
    names = [path for path in tree if path != PurePosixPath(GUEST_DIR)]

    def draw() -> Plant | None:
        if not names:
            return None
        path = rng.choice(names)
        ino, name = tree[path.parent], os.fsencode(path.name)
        for block in ext4.numbers(_debugfs(guest, f"blocks <{ino}>")):
            if bit := change_block(guest, block, partial(ext4.bit_of_name, name=name, rng=rng)):
                return _plant("directory", ino, block, bit)
        return None

    return _drawn("name", draw)


def inode(guest: Guest, rng: random.Random) -> Plant:
    """Change a bit of a file's permissions, owner or size."""
    places = _places(guest, [ino for _, ino, _ in files(guest)])

    def draw() -> Plant | None:
        can_change = changeable(guest)
        if not (drawn := [(ino, *place) for ino, place in places.items() if place[0] in can_change]):
            return None
        ino, block, at = rng.choice(drawn)
        bit = change_block(guest, block, partial(ext4.bit_of_inode, at=at, rng=rng))
        return bit and _plant("inode", ino, block, bit)

    return _drawn("inode", draw)


def xattr(guest: Guest, rng: random.Random) -> Plant:
    """Change a bit of the value of a file's extended attribute."""
    inos = [ino for _, ino, _ in files(guest)]
    having = ext4.with_attributes(_asked(guest, "ea_list", rng.sample(inos, min(len(inos), _ASKED))))
    inode_places = _places(guest, having)

    def draw() -> Plant | None:
        if not having:
            return None
        ino = rng.choice(having)
        places: list[tuple[int, int | None]] = [inode_places[ino]]
        if own := ext4.attribute_block(_debugfs(guest, f"stat <{ino}>")):
            places.insert(0, (own, None))
        for where, start in places:
            if bit := change_block(guest, where, partial(ext4.bit_of_attribute, at=start, rng=rng)):
                return _plant("xattr", ino, where, bit)
        return None

    return _drawn("extended attribute", draw)


def bitmap(guest: Guest, rng: random.Random) -> Plant:
    """Change the bit of a file's block in the bitmap of blocks in use."""
    inos = [ino for _, ino, _ in files(guest)]
    groups = _debugfs(guest, "stats")

    def draw() -> Plant | None:
        ino = rng.choice(inos)
        if not (used := ext4.numbers(_debugfs(guest, f"blocks <{ino}>"))):
            return None
        of = rng.choice(used)
        block, place = ext4.bitmap_place(groups, of)
        bit = change_block(guest, block, partial(ext4.bit_in_use, place=place))
        return bit and _plant("bitmap", ino, block, bit, of)

    return _drawn("block in use", draw)


def journal(guest: Guest, rng: random.Random) -> Plant:
    """Change a bit of a committed transaction that is not checkpointed."""
    guest.machine.run(["/bin/sync", "--file-system", MOUNT_POINT])
    dump, outside = "logdump -a", guest.mode.nvdimm == "journal"
    if outside:
        if (done := guest.machine.run(["/bin/sh", "-c", _COPY_JOURNAL])).status:
            raise InfraError(f"planted: dd: {done.stderr.decode('utf-8', 'replace').strip()[-200:]}")
        dump += f" -f {_COPY}"
    if not (logged := ext4.logged_blocks(_debugfs(guest, dump, "-D"))):
        raise InfraError("planted: no committed transaction is in the journal alone")
    number, what = rng.choice(logged)
    chosen = Bit(rng.randrange(PAGE), rng.randrange(8), what)
    if outside:
        return _plant("journal", 0, number, change_nvdimm(guest, number * PAGE + chosen.offset, chosen))
    (block,) = ext4.numbers(_debugfs(guest, f"bmap <{ext4.JOURNAL_INO}> {number}")) or [0]
    if not block:
        raise InfraError(f"planted: debugfs does not find block {number} of the journal")
    changed = change_on_disk(guest, block, at_once(chosen))
    return _plant("journal", ext4.JOURNAL_INO, block, changed or chosen)


KINDS: dict[str, Callable[[Guest, random.Random], Plant]] = {
    kind.__name__: kind for kind in (directory, inode, bitmap, xattr, journal)
}


def named_by_e2fsck(plant: Plant, log: bytes) -> bool | None:
    """Return whether e2fsck found the change, by its log; None if the workload's check has to find it."""
    if plant.kind == "journal":
        return ext4.e2fsck_names_journal(log)
    return None if plant.of is None else ext4.e2fsck_names_block(log, plant.of)


def _plant(kind: str, ino: int, block: int, bit: Bit, of: int | None = None) -> Plant:
    return Plant(kind, ino, bit.offset, bit.bit, block=block, part=bit.part or None, of=of, where=bit.where)


def _drawn(what: str, draw: Callable[[], Plant | None]) -> Plant:
    for _ in range(_DRAWS):
        if plant := draw():
            return plant
    raise InfraError(f"planted: none of {_DRAWS} draws found a {what} to change")


def _places(guest: Guest, inos: list[int]) -> dict[int, tuple[int, int]]:
    """Return block and offset of these inodes; InfraError if debugfs does not find one of them."""
    found = ext4.inode_places(_asked(guest, "imap", inos))
    if set(found) != set(inos):
        raise InfraError("planted: debugfs does not find every inode")
    return found


def _asked(guest: Guest, request: str, inos: list[int]) -> bytes:
    """Ask debugfs the same of each of these inodes; return echo and output of every request."""
    lines = "".join(f"{request} <{ino}>\n" for ino in inos).encode()
    return guest.machine.run([*_DEBUGFS, "-f", "-", guest.mode.device], stdin=lines).stdout


def _debugfs(guest: Guest, request: str, *options: str) -> bytes:
    """Ask debugfs (e2fsprogs), which sees the mounted file system through its cache, with -D past it."""
    return guest.machine.run([*_DEBUGFS, *options, "-R", request, guest.mode.device]).stdout
