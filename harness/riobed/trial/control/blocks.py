# SPDX-License-Identifier: Apache-2.0
"""Change bits behind the guest's back: in its RAM, and on its disk below the file system."""

from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from mmap import mmap
from pathlib import PurePosixPath

from riobed.errors import InfraError
from riobed.guest import GUEST_DIR, PAGE, Guest
from riobed.guest.memory import registry
from riobed.trial.control.ext4 import Bit
from riobed.trial.control.writecache import cached
from riobed.vm import WritesDisk, flip_bit

MOUNT_POINT = str(PurePosixPath(GUEST_DIR).parent)
# Frozen, a file system has written everything to its place, and its journal is empty.
_FREEZE = f"fsfreeze -f {MOUNT_POINT} && fsfreeze -u {MOUNT_POINT}"

Choose = Callable[[bytes], Bit | None]


def at_once(bit: Bit) -> Choose:
    """Choose this bit, whatever the block has."""
    return lambda content: bit


@contextmanager
def paused(guest: Guest) -> Iterator[tuple[mmap, list[registry.Listed]]]:
    """Stop the guest; give its RAM, and the pages that the registry lists."""
    guest.machine.pause()
    try:
        with registry.mapped(guest.machine.ram_path()) as memory:
            yield memory, registry.listed(memory, guest.setup.layout(guest.mode))
    finally:
        guest.machine.resume()


def change_block(guest: Guest, block: int, choose: Choose) -> Bit | None:
    """Change the bit that `choose` finds in a block of metadata, where the mode keeps it; return the bit.

    None if it finds none, or if memory is what the mode restores and does not have the block for that.
    """
    if guest.mode.restores_memory:
        return _change_in_memory(guest, block, choose)
    freeze_and_thaw(guest)
    return change_on_disk(guest, block, choose)


def changeable(guest: Guest) -> Container[int]:
    """Return the blocks of metadata that `change_block` can change now: in memory, those that are dirty."""
    if not guest.mode.restores_memory:
        return range(1 << 32)
    with paused(guest) as (_, pages):
        return {page.index for page in pages if page.state == registry.DIRTY | registry.METADATA}


def _change_in_memory(guest: Guest, block: int, choose: Choose) -> Bit | None:
    """A clean block is not restored, and the checksum of one that is being changed is not known."""
    with paused(guest) as (memory, pages):
        for page in pages:
            if page.state == registry.DIRTY | registry.METADATA and page.index == block:
                if found := choose(memory[page.address : page.address + PAGE]):
                    memory[page.address + found.offset] ^= 1 << found.bit
                return found
    return None


def freeze_and_thaw(guest: Guest) -> None:
    """Let the guest write all that it has, so that nothing of it overwrites a change of the disk later."""
    if (done := guest.machine.run(["/bin/sh", "-c", _FREEZE])).status:
        raise InfraError(f"planted: fsfreeze: {done.stderr.decode('utf-8', 'replace').strip()[-200:]}")


def change_on_disk(guest: Guest, block: int, choose: Choose) -> Bit | None:
    """Change the bit that `choose` finds in a block of the disk, past every cache; None if it finds none."""
    content = _on_disk(guest, block)
    if not (found := choose(content)):
        return None
    byte, value = block * PAGE + found.offset, content[found.offset] ^ 1 << found.bit
    if (place := _in_nvdimm(guest, byte)) is not None:
        changed = change_nvdimm(guest, place, found)
    elif isinstance(guest.machine, WritesDisk):
        guest.machine.write_disk(byte, value)
        changed = found._replace(where="disk")
    else:
        raise InfraError(f"planted: {guest.machine.config.name} cannot write its disk from outside")
    if _on_disk(guest, block)[found.offset] != value:
        raise InfraError(f"planted: the disk's byte {byte} cannot be written")
    return changed


def change_nvdimm(guest: Guest, place: int, bit: Bit) -> Bit:
    """Change the bit of the NVDIMM's byte at `place` from outside."""
    flip_bit(guest.machine.config, place, bit.bit)
    return bit._replace(where="nvdimm")


def _in_nvdimm(guest: Guest, byte: int) -> int | None:
    """Return where the NVDIMM has a byte of the device under test; None if only the disk has it."""
    nvdimm = guest.machine.config.nvdimm
    if guest.mode.nvdimm != "cache" or not nvdimm:
        return byte if guest.mode.nvdimm == "filesystem" else None
    with registry.mapped(nvdimm.path) as memory:
        return cached(memory, byte)


def _on_disk(guest: Guest, block: int) -> bytes:
    argv = ["/bin/dd", f"if={guest.mode.device}", f"bs={PAGE}", f"skip={block}", "count=1", "status=none"]
    read = guest.machine.run([*argv, "iflag=direct"]).stdout
    if len(read) != PAGE:
        raise InfraError(f"planted: block {block} of the disk cannot be read")
    return read
