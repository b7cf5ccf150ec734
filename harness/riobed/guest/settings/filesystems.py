# SPDX-License-Identifier: Apache-2.0
"""The file systems that can be tested, with the guest's programs that make and check them."""

from dataclasses import dataclass

from riobed_results.store import CHECKERS, Checker

# In the guest: the disk that all file systems under test are on but those on the NVDIMM, the NVDIMM, and the
# disk together with its cache there.
TEST_DISK = "/dev/vdb"
NVDIMM_DEVICE = "/dev/pmem0"
CACHED_DISK = "/dev/dm-0"


@dataclass(frozen=True)
class FileSystem:
    """One file system.

    `mkfs` is the command that makes it; a mode's options and the device are appended. It is () for a file
    system that is only mounted. `smallest_mib` is the smallest disk that `mkfs` accepts, in MiB.

    `checker` has the programs that check and repair it after a crash; None for one that is made anew then.
    riorecover itself knows those of ext4, which it runs before the mount.

    `config` lists the kernel options that it needs beyond GUEST_NEEDS. `on_disk` says whether FIEMAP gives a
    file's disk addresses, so that its bytes can be changed on the disk. `survives` says whether its content
    survives a reset.
    """

    mkfs: tuple[str, ...] = ()
    smallest_mib: int = 32
    checker: Checker | None = None
    config: tuple[str, ...] = ()
    on_disk: bool = True
    survives: bool = True

    def stage0_parameters(self, name: str) -> list[str]:
        """Return the kernel parameters that tell stage 0 about it; none for ext4."""
        if name == "ext4":
            return []
        told = [f"riobed.filesystem={name}"]
        if self.checker:
            told.append(f"riobed.check={','.join(self.checker.check)}")
            told.append(f"riobed.repair={','.join(self.checker.repair)}")
            told.append(f"riobed.without_log={self.checker.without_log}")
        return told


FILE_SYSTEMS = {
    "ext4": FileSystem(
        # Write the tables now; otherwise a kernel thread does it later, during a trial.
        mkfs=("mke2fs", "-q", "-F", "-t", "ext4", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard"),
        checker=CHECKERS["ext4"],
    ),
    "xfs": FileSystem(
        mkfs=("mkfs.xfs", "-q", "-f", "-K"),
        # The minimum of mkfs.xfs since xfsprogs 5.19.
        smallest_mib=300,
        checker=CHECKERS["xfs"],
        config=("CONFIG_XFS_FS",),
    ),
    "btrfs": FileSystem(
        mkfs=("mkfs.btrfs", "-q", "-f", "-K"),
        # mkfs.btrfs needs 109 MiB unless data and metadata are mixed.
        smallest_mib=112,
        checker=CHECKERS["btrfs"],
        config=("CONFIG_BTRFS_FS",),
        # Here FIEMAP gives logical addresses of btrfs, not disk addresses.
        on_disk=False,
    ),
    "f2fs": FileSystem(
        mkfs=("mkfs.f2fs", "-q", "-f", "-t", "0"),
        smallest_mib=64,
        checker=CHECKERS["f2fs"],
        config=("CONFIG_F2FS_FS",),
    ),
    "tmpfs": FileSystem(on_disk=False, survives=False),
}
