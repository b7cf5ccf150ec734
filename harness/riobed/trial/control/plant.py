# SPDX-License-Identifier: Apache-2.0
"""The positive control `planted`: one bit is changed behind the workload's back, and an oracle must find it.

In modes that restore memory, `stray` changes a cached page like a stray store: no window is open, so the
page's checksum is wrong. `entry` changes a page's registry entry, which recovery must then reject. `block`
changes a file's byte on the disk, below the file system; what memory has of it is clean by then, so that
nothing restores it. This needs a file system that tells where a file lies on the disk, and btrfs and tmpfs do
not. In every mode, `written` is a legal write to the wrong file, which updates every checksum.

ext4's own structures are changed in memory if the mode restores that, else on the disk: a name in a
`directory`, permissions, owner or size in an `inode`, the value of an `xattr`, the bit of a block in use in a
`bitmap`, and what is committed in the `journal`, on the disk or the NVDIMM. `writecache` changes which block
of the disk a block of dm-writecache's cache is taken for. `canary` changes a bit of the NVDIMM's canary,
which is in no file.

The workload has stopped, or stands still in the middle of a step until the reset. In neither case can it
write over the change.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from riobed.errors import InfraError
from riobed.faults import Kind
from riobed.guest import GUEST_DIR, PAGE, Guest
from riobed.guest.memory import registry
from riobed.guest.memory.layout import ENTRY_SIZE
from riobed.trial.control import structures
from riobed.trial.control.blocks import at_once, change_on_disk, freeze_and_thaw, paused
from riobed.trial.control.change import Plant, files
from riobed.trial.control.ext4 import Bit
from riobed.trial.control.extents import disk_offset
from riobed.trial.control.writecache import BLOCK_BITS, entry
from riobed.vm import flip_bit

PLANTED = "planted"

_ONE = ["count=1", "status=none"]
# Number of draws: a drawn byte may lie in a hole of its file.
_DRAWS = 20


def plant(guest: Guest, kind: Kind, rng: random.Random, step: int | None = None) -> Plant:
    """Change one bit. Nothing of the workload may run; `step` is where it stands still, None if it has ended.

    Draws uniformly over the bytes of a kind. Raises InfraError if there is nothing to change.
    """
    change = _KINDS[kind](guest, rng)
    return change if step is None else replace(change, during="step", step=step)


def note_e2fsck(guest: Guest, change: Plant) -> Plant:
    """Return the change with what e2fsck said of it in the recovery that has just been."""
    log = guest.machine.read_file("/run/e2fsck.log")
    return replace(change, e2fsck=structures.named_by_e2fsck(change, log))


def _stray(guest: Guest, rng: random.Random) -> Plant:
    return _in_dirty_page(guest, rng, "stray")


def _entry(guest: Guest, rng: random.Random) -> Plant:
    return _in_dirty_page(guest, rng, "entry")


def _in_dirty_page(guest: Guest, rng: random.Random, kind: Kind) -> Plant:
    """Change a byte of a dirty page of a file, or the page's entry; a clean page is not restored."""
    sizes = {ino: size for size, ino, _name in files(guest)}
    with paused(guest) as (memory, listed):
        pages = {
            page: min(sizes[page.ino] - page.index * PAGE, PAGE)
            for page in listed
            if page.state == registry.DIRTY and sizes.get(page.ino, 0) > page.index * PAGE
        }
        if not pages:
            raise InfraError("planted: no dirty page of a file is in memory")
        page = rng.choices(list(pages), list(pages.values()))[0]
        if kind == "entry":
            bit = rng.randrange(8 * ENTRY_SIZE)
            memory[page.entry + bit // 8] ^= 1 << bit % 8
            return Plant(kind, page.ino, page.index * PAGE, bit)
        byte, bit = rng.randrange(pages[page]), rng.randrange(8)
        memory[page.address + byte] ^= 1 << bit
        return Plant(kind, page.ino, page.index * PAGE + byte, bit)


def _placed(guest: Guest, rng: random.Random) -> Iterator[tuple[int, int, int]]:
    """Yield inode and offset of random bytes of files, and where each is on the device under test."""
    for _ in range(_DRAWS):
        ino, offset, name = _byte_of_a_file(guest, rng)
        freeze_and_thaw(guest)
        extents = guest.machine.run(["/bin/sh", "-c", 'filefrag -e -v -b1 "$0"', name])
        if (byte := disk_offset(extents.stdout, offset)) is not None:
            yield ino, offset, byte


def _block(guest: Guest, rng: random.Random) -> Plant:
    for ino, offset, on_disk in _placed(guest, rng):
        bit = rng.randrange(8)
        changed = change_on_disk(guest, on_disk // PAGE, at_once(Bit(on_disk % PAGE, bit)))
        return Plant("block", ino, offset, bit, where=changed and changed.where)
    raise InfraError(f"planted: none of {_DRAWS} bytes has an address on the disk")


def _writecache(guest: Guest, rng: random.Random) -> Plant:
    """The cache takes a file's block for another one of the disk, and has none, or an older one, of that."""
    if not (nvdimm := guest.machine.config.nvdimm):
        raise InfraError("planted: the machine has no NVDIMM")
    for ino, _, on_disk in _placed(guest, rng):
        with registry.mapped(nvdimm.path) as memory:
            byte = entry(memory, on_disk)
        if byte is not None:
            at, bit = divmod(rng.randrange(*BLOCK_BITS), 8)
            flip_bit(guest.machine.config, byte + at, bit)
            return Plant("writecache", ino, byte + at, bit, where="nvdimm")
    raise InfraError(f"planted: none of {_DRAWS} blocks is in the cache of the disk")


def _written(guest: Guest, rng: random.Random) -> Plant:
    bit = rng.randrange(8)
    ino, offset, name = _byte_of_a_file(guest, rng)
    old = guest.machine.run(["/bin/dd", f"if={name}", "bs=1", f"skip={offset}", *_ONE])
    if len(old.stdout) != 1:
        raise InfraError(f"planted: inode {ino} cannot be read")
    new = bytes([old.stdout[0] ^ 1 << bit])
    put = ["/bin/dd", f"of={name}", "bs=1", f"seek={offset}", *_ONE, "conv=notrunc,fsync"]
    if guest.machine.run(put, stdin=new).status:
        raise InfraError(f"planted: inode {ino} cannot be written")
    return Plant("written", ino, offset, bit)


def _byte_of_a_file(guest: Guest, rng: random.Random) -> tuple[int, int, str]:
    """Return inode, offset and name of a random byte that the workload's check looks at."""
    pieces = [(0, size, ino, name) for size, ino, name in files(guest)]
    if guest.workload.names_places:
        pieces = _places(guest, {name: ino for _, _, ino, name in pieces})
    start, size, ino, name = rng.choices(pieces, [size for _, size, *_ in pieces])[0]
    return ino, start + rng.randrange(size), name


def _places(guest: Guest, inos: Mapping[str, int]) -> list[tuple[int, int, int, str]]:
    """Return offset, length, inode and name of each piece that the workload names; InfraError without one."""
    told = guest.machine.run(guest.workload.command("places", seed=0))
    lines = [line.split(" ", 2) for line in told.stdout.decode("utf-8", "replace").splitlines()]
    try:
        found = [(int(start), int(size), f"{GUEST_DIR}/{path}") for start, size, path in lines]
    except ValueError:
        found = []
    if told.status or not found or any(name not in inos for _, _, name in found):
        raise InfraError("planted: the workload does not say where its bytes are")
    return [(start, size, inos[name], name) for start, size, name in found]


def _canary(guest: Guest, rng: random.Random) -> Plant:
    nvdimm = guest.machine.config.nvdimm
    if not nvdimm or not nvdimm.canary:
        raise InfraError("planted: the machine has no canary")
    byte, bit = nvdimm.used + rng.randrange(nvdimm.canary), rng.randrange(8)
    flip_bit(guest.machine.config, byte, bit)
    return Plant("canary", 0, byte, bit, where="nvdimm")


_KINDS: dict[str, Callable[[Guest, random.Random], Plant]] = {
    "stray": _stray,
    "entry": _entry,
    "block": _block,
    "written": _written,
    "writecache": _writecache,
    "canary": _canary,
    **structures.KINDS,
}
