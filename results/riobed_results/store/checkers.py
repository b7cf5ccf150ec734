# SPDX-License-Identifier: Apache-2.0
"""The programs that check and repair each file system after a crash, and what their exit statuses mean."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Checker:
    """The programs of one file system; the device is appended to each command.

    `check` only reports, but for ext4, whose check also repairs. Its exit status is read as bits: `errors`
    say that errors are there afterwards, `unable` that the program did not check, which is our own failure.

    `repair` runs if the mount fails, which replays the log; () if nothing does. `drops_log` says whether it
    throws the log away, None that its manual does not tell. `without_log` is the mount option that leaves the
    log out, for a mount that only reads.
    """

    check: tuple[str, ...]
    errors: int
    unable: int = 0
    repair: tuple[str, ...] = ()
    drops_log: bool | None = None
    without_log: str = ""

    def finds_errors(self, status: int) -> bool:
        """Return whether an exit status of `check` says that errors are there; a negative one is none."""
        return status >= 0 and bool(status & self.errors)

    def fails(self, status: int) -> bool:
        """Return whether an exit status of `check` says that it could not do its work."""
        return status >= 0 and bool(status & self.unable)


_ANY = 0xFF
# Usage, cancelled, shared library: e2fsck(8), section EXIT CODE. f2fs-tools took these statuses from there.
_UNABLE = 16 | 32 | 128
CHECKERS = {
    # e2fsck(8): 4 errors left, 8 operational error, such as a superblock that cannot be opened.
    "ext4": Checker(check=("e2fsck", "-fy"), errors=4 | 8, unable=_UNABLE),
    "xfs": Checker(
        check=("xfs_repair", "-n"),
        # xfs_repair(8): with -n 1 for corruption; 2 for a dirty log, which the mount must have replayed.
        errors=1 | 2,
        repair=("xfs_repair", "-L"),
        drops_log=True,
        without_log="norecovery",
    ),
    "btrfs": Checker(
        check=("btrfs", "check", "--readonly"),
        # btrfs-check(8): zero if it succeeds, other values are failures.
        errors=_ANY,
        repair=("btrfs", "rescue", "zero-log"),
        drops_log=True,
        without_log="rescue=nologreplay",
    ),
    "f2fs": Checker(
        check=("fsck.f2fs", "--dry-run"),
        # fsck/fsck.h of f2fs-tools. 1 is "corrected", but a dry run corrects nothing.
        errors=1 | 4 | 8,
        unable=_UNABLE,
        repair=("fsck.f2fs", "-f", "-y"),
        without_log="norecovery",
    ),
}
