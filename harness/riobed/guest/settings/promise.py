# SPDX-License-Identifier: Apache-2.0
"""What a file system promises of files after a crash, beyond what was synced.

Linux promises what fsync(2), fdatasync(2), sync(2), syncfs(2) and O_SYNC made durable. What else is there is
up to each file system. Quotations are from Documentation/ of Linux 6.12.
"""

from dataclasses import dataclass

# States that a workload's check tells of (workloads/memtest/README.md). These no file system permits.
_NEVER = frozenset({"unsynced", "damaged"})
# These it may permit: a check that found them says that files differ.
_PERHAPS = frozenset({"stale", "misplaced"})
WRONG = _NEVER | _PERHAPS
# As after no step, and permitted unless data are in the journal.
_OUT_OF_STEP = frozenset({"zeroed", "torn", "renamed"})
# s. vm.dirty_expire_centisecs and vm.dirty_writeback_centisecs by default (mm/page-writeback.c).
_EXPIRE, _WRITEBACK = 3000, 500
# Centiseconds from a commit to the next, by default. ext4: "The default value is 5 seconds"
# (admin-guide/ext4.rst, commit=). XFS: fs.xfs.xfssyncd_centisecs (admin-guide/xfs.rst). btrfs: 30 s
# (btrfs(5), commit=). F2FS: "60 seconds by default" (ABI/testing/sysfs-fs-f2fs, cp_interval).
_COMMITS = {"ext4": 500, "xfs": 3000, "btrfs": 3000, "f2fs": 6000}
_XFS_COMMIT = "fs.xfs.xfssyncd_centisecs"


@dataclass(frozen=True)
class Promise:
    """What breaks the promise of a mode that is judged by what was synced.

    `broken` are states of files. No change may be lost that is older than `window_s` seconds; None: any may.
    """

    broken: frozenset[str]
    window_s: float | None


def broken_states(filesystem: str, mkfs: tuple[str, ...], mount: str) -> frozenset[str]:
    """Return the states of files that a file system with these options promises not to leave.

    data=journal brings "both data and metadata into a consistent state". data=writeback: "incorrect data" may
    "appear in files which were written shortly before the crash" (admin-guide/ext4.rst). Without a journal a
    rename is no transaction either. All others permit any mixture of the blocks that were written since the
    last sync, and zeros there. This holds for data=ordered, too: with delayed allocation the new size may be
    committed before the data are written (mpage_map_and_submit_extent() in fs/ext4/inode.c).
    """
    options = mount.split(",")
    if filesystem != "ext4":
        return WRONG
    if any("^has_journal" in word for word in mkfs):
        return _NEVER
    if "data=writeback" in options:
        return WRONG - {"stale"}
    return WRONG | _OUT_OF_STEP if "data=journal" in options else WRONG


def window_s(filesystem: str, mount: str, sysctls: dict[str, int]) -> float | None:
    """Return the age in seconds above which no change may be lost; None if nothing limits it.

    Data expire, the flusher that wakes up next writes them, and the next commit makes them permanent. Of the
    first two: "Data which has been dirty in-memory for longer than this interval will be written out next
    time a flusher thread wakes up" (admin-guide/sysctl/vm.rst).
    """
    commit = _COMMITS.get(filesystem)
    writeback = sysctls.get("vm.dirty_writeback_centisecs", _WRITEBACK)
    # "Setting this to zero disables periodic writeback altogether."
    if commit is None or writeback == 0:
        return None
    options = dict(option.split("=", 1) for option in mount.split(",") if "=" in option)
    if options.get("commit", "").isdecimal():
        # Of ext4: "Setting it to 0 will have the same effect as leaving it at the default".
        commit = 100 * int(options["commit"]) or commit
    if filesystem == "xfs":
        commit = sysctls.get(_XFS_COMMIT, commit)
    return (sysctls.get("vm.dirty_expire_centisecs", _EXPIRE) + writeback + commit) / 100
