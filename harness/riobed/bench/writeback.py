# SPDX-License-Identifier: Apache-2.0
"""The timers of write-back, for a processor that is faster than another by a factor."""

from typing import Any

from riobed.guest import CacheMode

# The kernel's defaults in centiseconds (mm/page-writeback.c, fs/xfs/xfs_globals.c).
_PAGES = {"vm.dirty_expire_centisecs": 3000, "vm.dirty_writeback_centisecs": 500}
_XFS = {"fs.xfs.xfssyncd_centisecs": 3000}
# The shortest that the kernel takes.
_SHORTEST = {"fs.xfs.xfssyncd_centisecs": 100}
# After how many seconds a journal or tree is committed (fs/jbd2/journal.c, fs/btrfs/fs.h); at least one.
_COMMIT_S = {"ext4": 5, "btrfs": 30}


def scale_writeback_timers(mode: CacheMode, times: float) -> CacheMode:
    """Return the mode with its write-back timers divided by `times`, as far as they can be set."""
    if times == 1:
        return mode
    delays = _PAGES | (_XFS if mode.filesystem == "xfs" else {})
    sysctls = {
        key: max(_SHORTEST.get(key, 1), round(mode.sysctls.get(key, usual) / times))
        for key, usual in delays.items()
    }
    changed: dict[str, Any] = {"sysctls": mode.sysctls | sysctls}
    if _commits(mode):
        changed["mount"] = f"{mode.mount},commit={max(1, round(_COMMIT_S[mode.filesystem] / times))}"
    return mode.model_copy(update=changed)


def _commits(mode: CacheMode) -> bool:
    """Whether the mode's file system commits by itself, after a time that the mode does not set."""
    journal = not any("^has_journal" in word for word in mode.mkfs)
    return mode.filesystem in _COMMIT_S and journal and "commit=" not in mode.mount
