# SPDX-License-Identifier: Apache-2.0
"""File systems that can be under test, each with the programs of the guest's root that serve it."""

from dataclasses import dataclass

# The disk of the file system under test, in the guest.
TEST_DEVICE = "/dev/vdb"


@dataclass(frozen=True)
class FileSystem:
    """One file system.

    `mkfs` makes it: the command, to which a mode's options and the device are added; () if nothing is to be
    made. `smallest_mib` is the least disk that `mkfs` takes. After a crash its mount replays its log; then
    `check` reports what is wrong, or `repair` mends what cannot be mounted; the device is added to both. ext4
    has neither: riorecover has e2fsck check it before the mount. `config` are the options of the kernel that
    it needs beyond those every guest has. `on_disk`: the file map tells where on the disk a file's bytes
    lie, so that they can be changed there. `survives`: a reset leaves what was written to it.
    """

    mkfs: tuple[str, ...] = ()
    smallest_mib: int = 32
    check: tuple[str, ...] = ()
    repair: tuple[str, ...] = ()
    config: tuple[str, ...] = ()
    on_disk: bool = True
    survives: bool = True

    def stage0_parameters(self, name: str) -> list[str]:
        """What stage 0 is told; nothing for ext4."""
        if name == "ext4":
            return []
        steps = {"check": self.check, "repair": self.repair}
        told = [f"riobed.{step}={','.join(command)}" for step, command in steps.items() if command]
        return [f"riobed.filesystem={name}", *told]


FILE_SYSTEMS = {
    "ext4": FileSystem(
        # Tables written now, so that no kernel thread does it later during a trial.
        mkfs=("mke2fs", "-q", "-F", "-t", "ext4", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard"),
    ),
    "xfs": FileSystem(
        mkfs=("mkfs.xfs", "-q", "-f", "-K"),
        # mkfs.xfs refuses less since xfsprogs 5.19.
        smallest_mib=300,
        check=("xfs_repair", "-n"),
        repair=("xfs_repair", "-L"),
        config=("CONFIG_XFS_FS",),
    ),
    "btrfs": FileSystem(
        mkfs=("mkfs.btrfs", "-q", "-f", "-K"),
        # mkfs.btrfs refuses less than 109 MiB unless data and metadata are mixed.
        smallest_mib=112,
        check=("btrfs", "check", "--readonly"),
        repair=("btrfs", "rescue", "zero-log"),
        config=("CONFIG_BTRFS_FS",),
        # FIEMAP gives addresses of its own address space there.
        on_disk=False,
    ),
    "f2fs": FileSystem(
        mkfs=("mkfs.f2fs", "-q", "-f", "-t", "0"),
        smallest_mib=64,
        check=("fsck.f2fs", "--dry-run"),
        repair=("fsck.f2fs", "-f", "-y"),
        config=("CONFIG_F2FS_FS",),
    ),
    "tmpfs": FileSystem(on_disk=False, survives=False),
}
