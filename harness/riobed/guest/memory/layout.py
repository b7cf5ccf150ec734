# SPDX-License-Identifier: Apache-2.0
"""The layout of the guest's physical memory, chosen so that the file cache survives a reset.

A reset followed by the start of stage 0 overwrites three ranges (measured on QEMU's pc machine with SeaBIOS):
the first megabyte; the boot window, where the firmware loads stage 0's kernel, which runs there and later
starts the production kernel; and the top of RAM, where the firmware puts the initrd and its ACPI tables.
The file cache must stay out of these ranges, and stage 0 must use nothing else. Non-volatile memory, if there
is any, lies above RAM, where a reset overwrites nothing.
"""

from dataclasses import dataclass

from riobed.errors import UsageError

MIB = 1 << 20
PAGE = 4096

# A bzImage runs from its preferred address (CONFIG_PHYSICAL_START) upwards.
STAGE0_START = 16 * MIB
# What stage 0 needs whatever RAM there is. kexec refuses a kernel that needs more than half of it
# (sanity_check_segment_list()), and ours needs 21 MiB.
STAGE0_SIZE = 76 * MIB
# For the programs that check other file systems than ext4, and for a distribution's kernel.
OTHERS_STAGE0_SIZE, LARGE_STAGE0_SIZE = 92 * MIB, 224 * MIB
# Of each page of RAM riorecover has 24 bytes in a list (entries.h), and 16 if it saves memory (save.h).
_RECOVERY_BYTES = 40
# It maps memory in chunks of this size (memory.c).
_CHUNK = 2 * MIB
# Stage 0's initrd (kernel image, e2fsck, tools) and the firmware's tables.
TOP_SIZE = 16 * MIB
# The registry's parts behind its header page (the kernel's uapi/linux/rio_registry.h): struct rio_entry for
# each page of RAM, and one page of the operation log for so many, within these bounds.
ENTRY_SIZE = 32
_PAGES_PER_LOG_PAGE = 256
_MIN_LOG_PAGES, _MAX_LOG_PAGES = 64, 512
MIN_RAM = 256 * MIB
# What the production kernel and its programs need beside files; on top of it, one page of RAM's description
# (struct page, 64 bytes) for 64 pages. Measured with 512 MiB, of which files could have about 290.
_OTHERS = 64 * MIB
_PAGES_DESCRIBED = 64
# RAM above this is split around the PCI hole of the machine type pc (QEMU hw/i386/pc_piix.c).
MAX_RAM = 3072 * MIB
# Where QEMU's machine type pc may have memory modules if RAM is not split (pc_get_device_memory_range()).
NVDIMM_START = 4096 * MIB
# Linux maps it in parts of 2 MiB (memremap_compat_align()). The smallest has room for a file system.
NVDIMM_UNIT = 2 * MIB
MIN_NVDIMM, MAX_NVDIMM = 16 * MIB, 16384 * MIB


@dataclass(frozen=True)
class Layout:
    """The layout of one machine's memory; all sizes and addresses in bytes.

    `stage0` is what stage 0 needs whatever RAM there is. `nvdimm` is 0 if it has none. Its last `canary`
    bytes have the canary (riobed.vm.nvdimm.canary).
    """

    ram: int
    stage0: int = STAGE0_SIZE
    nvdimm: int = 0
    canary: int = 0

    def __post_init__(self) -> None:
        if not MIN_RAM <= self.ram <= MAX_RAM or self.ram % MIB:
            raise UsageError(
                f"memory of {self.ram} bytes: want whole MiB from {MIN_RAM // MIB} to {MAX_RAM // MIB} MiB"
            )
        fits = MIN_NVDIMM <= self.nvdimm <= MAX_NVDIMM and not self.nvdimm % NVDIMM_UNIT
        if self.nvdimm and not fits:
            raise UsageError(
                f"NVDIMM of {self.nvdimm} bytes: want an even number of MiB from {MIN_NVDIMM // MIB} to "
                f"{MAX_NVDIMM // MIB} MiB"
            )
        room = max(self.nvdimm - MIN_NVDIMM, 0)
        if not 0 <= self.canary <= room or self.canary % NVDIMM_UNIT:
            raise UsageError(
                f"canary of {self.canary} bytes: want an even number of MiB up to {room // MIB} MiB, which "
                f"leaves {MIN_NVDIMM // MIB} MiB of the NVDIMM"
            )

    @property
    def window(self) -> int:
        """Size in bytes of the boot window: whole chunks, because no mapping of riorecover may touch it."""
        return self.stage0 + self.ram // PAGE * _RECOVERY_BYTES // _CHUNK * _CHUNK

    @property
    def registry_start(self) -> int:
        """Address of the registry's header page."""
        return STAGE0_START + self.window

    @property
    def registry_size(self) -> int:
        """Size in bytes of a header page, an entry per page of RAM and the log, rounded up to whole MiB."""
        pages = self.ram // PAGE
        log_pages = min(max(pages // _PAGES_PER_LOG_PAGE, _MIN_LOG_PAGES), _MAX_LOG_PAGES)
        entry_pages = -(-pages * ENTRY_SIZE // PAGE)
        need = (1 + entry_pages + log_pages) * PAGE
        return -(-need // MIB) * MIB

    @property
    def cache_room(self) -> int:
        """Bytes that the production kernel can have in the file cache, about."""
        beside = self.registry_start + self.registry_size + TOP_SIZE + _OTHERS
        return max(self.ram - beside - self.ram // _PAGES_DESCRIBED, 0)

    @property
    def kept(self) -> range:
        """The bytes of RAM that a reset and stage 0 leave alone, whatever the production kernel has there."""
        return range(self.registry_start, self.ram - TOP_SIZE)

    @property
    def registry(self) -> str:
        """SIZE@START, as the kernel parameter and riorecover expect it."""
        return f"{self.registry_size:#x}@{self.registry_start:#x}"

    @property
    def swap_size(self) -> int:
        """Size in bytes of a disk on which riorecover can save all of RAM, rounded up to whole MiB."""
        # A header and, for each page, 16 bytes of the table (riorecover's save.h).
        need = 2 * PAGE + self.ram // PAGE * 16 + self.ram
        return -(-need // MIB) * MIB

    @property
    def keepout(self) -> str:
        """Value of the production kernel's rio.keepout=."""
        # Not the first MiB: Linux must be able to put its real-mode trampoline there, and then reserves
        # that MiB itself (reserve_real_mode() in arch/x86/realmode/init.c).
        window = self.kept.start - MIB
        return f"{window:#x}@{MIB:#x},{TOP_SIZE:#x}@{self.kept.stop:#x}"

    @property
    def nvdimm_places(self) -> list[str]:
        """SIZE!START for `memmap=`, which tells the production kernel of non-volatile memory without ACPI.

        The canary is a device of its own, so that nothing of the other leads there.
        """
        return [*self._used_nvdimm, *_non_volatile(self.canary, NVDIMM_START + self.nvdimm - self.canary)]

    @property
    def _used_nvdimm(self) -> list[str]:
        return _non_volatile(self.nvdimm - self.canary, NVDIMM_START)

    @property
    def nvdimm_range(self) -> str:
        """START:END of the NVDIMM in physical memory, hexadecimal, as the emulator's plugins expect it."""
        return f"{NVDIMM_START:x}:{NVDIMM_START + self.nvdimm:x}"

    @property
    def canary_range(self) -> str:
        """START:END of the canary, as `nvdimm_range`."""
        end = NVDIMM_START + self.nvdimm
        return f"{end - self.canary:x}:{end:x}"

    @property
    def stage0_parameters(self) -> list[str]:
        """Kernel parameters that confine stage 0 to the boot window, and to what is used of the NVDIMM."""
        return [
            "memmap=exactmap",
            "memmap=639K@0",
            f"memmap={self.window // MIB}M@{STAGE0_START // MIB}M",
            # With CONFIG_IO_STRICT_DEVMEM, /dev/mem refuses what follows the window, up to the next
            # 16 MiB: the "RAM buffer" of e820__reserve_resources_late() in arch/x86/kernel/e820.c.
            "iomem=relaxed",
            *(f"memmap={place}" for place in self._used_nvdimm),
        ]


def _non_volatile(size: int, start: int) -> list[str]:
    return [f"{size // MIB}M!{start // MIB}M"] if size else []
