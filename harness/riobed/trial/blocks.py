# SPDX-License-Identifier: Apache-2.0
"""Change bits behind the guest's back: in its RAM, and on its disk below the file system."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from mmap import mmap
from pathlib import PurePosixPath

from riobed.errors import InfraError
from riobed.guest import GUEST_DIR, PAGE, Guest, Layout, registry
from riobed.trial.ext4 import Bit
from riobed.trial.writecache import cached
from riobed.vm import WritesDisk

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
            yield memory, registry.listed(memory, Layout(guest.machine.config.memory))
    finally:
        guest.machine.resume()


def change_block(guest: Guest, block: int, choose: Choose) -> Bit | None:
    """Change the bit that `choose` finds in a block of metadata, where the mode keeps it; return the bit.

    None if it finds none, or if memory is what the mode restores and does not have the block for that.
    """
    if guest.mode.restores_memory:
        return _change_in_memory(guest, block, choose)
    settle(guest)
    return change_on_disk(guest, block, choose)


def _change_in_memory(guest: Guest, block: int, choose: Choose) -> Bit | None:
    """A clean block is not restored, and the checksum of one that is being changed is not known."""
    with paused(guest) as (memory, pages):
        for page in pages:
            if page.state == registry.DIRTY | registry.METADATA and page.index == block:
                if found := choose(memory[page.address : page.address + PAGE]):
                    memory[page.address + found.offset] ^= 1 << found.bit
                return found
    return None


def settle(guest: Guest) -> None:
    """Let the guest write all that it has, so that nothing of it overwrites a change of the disk later."""
    if (done := guest.machine.run(["/bin/sh", "-c", _FREEZE])).status:
        raise InfraError(f"planted: fsfreeze: {done.stderr.decode('utf-8', 'replace').strip()[-200:]}")


def change_on_disk(guest: Guest, block: int, choose: Choose) -> Bit | None:
    """Change the bit that `choose` finds in a block of the disk, past every cache; None if it finds none."""
    content = _on_disk(guest, block)
    if not (found := choose(content)):
        return None
    byte, value = block * PAGE + found.offset, content[found.offset] ^ 1 << found.bit
    _write_device(guest, byte, value)
    if _on_disk(guest, block)[found.offset] != value:
        raise InfraError(f"planted: the disk's byte {byte} cannot be written")
    return found


def _write_device(guest: Guest, byte: int, value: int) -> None:
    """Set a byte of the device under test from outside: on the disk, or in the NVDIMM if that has it."""
    machine, nvdimm, use = guest.machine, guest.machine.config.nvdimm, guest.mode.nvdimm
    if use in ("filesystem", "cache") and nvdimm:
        with registry.mapped(nvdimm.path) as memory:
            place = byte if use == "filesystem" else cached(memory, byte)
            if place is not None:
                memory[place] = value
                return
    if not isinstance(machine, WritesDisk):
        raise InfraError(f"planted: {machine.config.name} cannot write its disk from outside")
    machine.write_disk(byte, value)


def _on_disk(guest: Guest, block: int) -> bytes:
    argv = ["/bin/dd", f"if={guest.mode.device}", f"bs={PAGE}", f"skip={block}", "count=1", "status=none"]
    read = guest.machine.run([*argv, "iflag=direct"]).stdout
    if len(read) != PAGE:
        raise InfraError(f"planted: block {block} of the disk cannot be read")
    return read
