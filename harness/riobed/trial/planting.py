# SPDX-License-Identifier: Apache-2.0
"""The positive control `planted`: one bit is changed behind the workload's back, and the check must find it.

In modes that restore memory, `stray` changes a cached page like a stray store: no window is open, so the
page's checksum is wrong. `entry` changes a page's registry entry, which recovery must then reject. In modes
that keep only the disk, `block` changes the disk below the file system; this needs a file system that tells
where a file lies on the disk, and btrfs and tmpfs do not. In every mode, `written` is a legal write to the
wrong file, which updates every checksum.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from mmap import mmap
from typing import Any, Literal

from riobed.errors import InfraError
from riobed.guest import GUEST_DIR, PAGE, TEST_DEVICE, CacheMode, Guest, Layout, registry
from riobed.guest.layout import ENTRY_SIZE
from riobed.trial.extents import place
from riobed.vm import WritesDisk

PLANTED = "planted"

Kind = Literal["stray", "entry", "block", "written"]

_FIND = f"find {GUEST_DIR} -type f -size +0 -printf '%s %i %p\\0'"
_SECTOR = 512
_ONE = ["count=1", "status=none"]
# Number of draws: a drawn byte may lie in a hole of its file.
_DRAWS = 20


@dataclass(frozen=True)
class Plant:
    """The change: bit `bit` of byte `offset` of the file with inode `ino`.

    For kind `entry`, `bit` is one of the 256 bits of the entry of the page at `offset`.
    """

    kind: Kind
    ino: int
    offset: int
    bit: int

    def as_stored(self) -> dict[str, Any]:
        """Return the change as the parameters of a fault."""
        return asdict(self)


def plant(guest: Guest, rng: random.Random) -> Plant:
    """Change one bit, by one of the kinds that the cache mode has. The workload must have stopped.

    Draws uniformly over the kinds, then over the bytes. Raises InfraError if there is nothing to change.
    """
    return rng.choice(_kinds(guest.mode))(guest, rng)


def _kinds(mode: CacheMode) -> tuple[Callable[[Guest, random.Random], Plant], ...]:
    if mode.restores_memory:
        return _stray, _entry, _written
    return (_block, _written) if mode.file_system.on_disk else (_written,)


def _stray(guest: Guest, rng: random.Random) -> Plant:
    bit = rng.randrange(8)
    with _dirty_page(guest, rng) as (memory, page, size):
        byte = rng.randrange(size)
        memory[page.address + byte] ^= 1 << bit
    return Plant("stray", page.ino, page.index * PAGE + byte, bit)


def _entry(guest: Guest, rng: random.Random) -> Plant:
    bit = rng.randrange(8 * ENTRY_SIZE)
    with _dirty_page(guest, rng) as (memory, page, _size):
        memory[page.entry + bit // 8] ^= 1 << bit % 8
    return Plant("entry", page.ino, page.index * PAGE, bit)


@contextmanager
def _dirty_page(guest: Guest, rng: random.Random) -> Iterator[tuple[mmap, registry.Listed, int]]:
    """Return a dirty page of a file in a paused guest, and how many of its bytes the file has.

    The content of a clean page is not restored.
    """
    sizes = {ino: size for size, ino, _name in _files(guest)}
    guest.machine.pause()
    with registry.mapped(guest.machine.ram_path()) as memory:
        listed = registry.listed(memory, Layout(guest.machine.config.memory))
        pages = {
            page: min(sizes[page.ino] - page.index * PAGE, PAGE)
            for page in listed
            if page.state == registry.DIRTY and sizes.get(page.ino, 0) > page.index * PAGE
        }
        if not pages:
            raise InfraError("planted: no dirty page of a file is in memory")
        page = rng.choices(list(pages), list(pages.values()))[0]
        yield memory, page, pages[page]
    guest.machine.resume()


def _block(guest: Guest, rng: random.Random) -> Plant:
    bit = rng.randrange(8)
    for _ in range(_DRAWS):
        ino, offset, name = _byte_of_a_file(guest, rng)
        extents = guest.machine.run(["/bin/sh", "-c", 'sync "$0" && filefrag -e -v -b1 "$0"', name])
        if (on_disk := place(extents.stdout, offset)) is not None:
            changed = _on_disk(guest, on_disk) ^ 1 << bit
            if not isinstance(guest.machine, WritesDisk):
                raise InfraError(f"planted: {guest.machine.config.name} cannot write its disk from outside")
            guest.machine.write_disk(on_disk, changed)
            if _on_disk(guest, on_disk) != changed:
                raise InfraError(f"planted: the disk's byte {on_disk} cannot be written")
            return Plant("block", ino, offset, bit)
    raise InfraError(f"planted: none of {_DRAWS} bytes has an address on the disk")


def _on_disk(guest: Guest, byte: int) -> int:
    """Read from the disk, past every cache."""
    sector, rest = divmod(byte, _SECTOR)
    argv = ["/bin/dd", f"if={TEST_DEVICE}", f"bs={_SECTOR}", f"skip={sector}", *_ONE, "iflag=direct"]
    read = guest.machine.run(argv).stdout
    if len(read) != _SECTOR:
        raise InfraError(f"planted: sector {sector} of the disk cannot be read")
    return read[rest]


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
    """Return inode, offset and name of a random byte."""
    files = _files(guest)
    if not files:
        raise InfraError("planted: no file to change")
    size, ino, name = rng.choices(files, [size for size, *_ in files])[0]
    return ino, rng.randrange(size), name


def _files(guest: Guest) -> list[tuple[int, int, str]]:
    """Return size in bytes, inode and name of each file that is not empty."""
    found = guest.machine.run(["/bin/sh", "-c", _FIND])
    if found.status:
        raise InfraError("planted: the files cannot be listed")
    lines = [line.split(b" ", 2) for line in found.stdout.split(b"\0") if line]
    return [(int(size), int(ino), name.decode("utf-8", "surrogateescape")) for size, ino, name in lines]
