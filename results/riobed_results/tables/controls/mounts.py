# SPDX-License-Identifier: Apache-2.0
"""Whether file systems that replay their own log could be mounted after a crash, and what that took."""

from collections.abc import Sequence

from riobed_results.store import Row, Vocabulary, how_many
from riobed_results.tables.framework.by_mode import ModeCounts, Value


def _lines(rows: Sequence[Row], _: Vocabulary) -> dict[str, Value]:
    return {
        "Mounts after a crash": how_many(rows),
        "Mount failed": how_many(row for row in rows if row.first_mount_failed),
        "Log could not be replayed": how_many(row for row in rows if row.log_unreplayable),
        "Repair threw the log away": how_many(row for row in rows if row.log_dropped),
        "No mount even after that": how_many(row for row in rows if row.never_mounted),
        "Mount failed, no file lost": how_many(
            row for row in rows if row.first_mount_failed and row.corruption == "none"
        ),
        "Check left errors": how_many(row for row in rows if row.errors_left),
    }


MOUNTS = ModeCounts(
    name="mounts",
    title="Mounts that replay a log",
    help="Whether file systems other than ext4 could be mounted after a crash, or had to be repaired.",
    section="controls",
    note="Trials whose file system replays its log when it is mounted, as XFS, btrfs and F2FS do. ext4 is "
    "not counted: e2fsck replays its journal before the mount.",
    legend={
        "Log could not be replayed": "the mount failed, and one that leaves the log out succeeded.",
        "Repair threw the log away": "it ran since the mount had failed, and what only the log had is lost "
        "(xfs_repair -L, btrfs rescue zero-log).",
        "No mount even after that": "all files count as lost.",
        "Check left errors": "by its exit status, after a mount that succeeded.",
    },
    wants=lambda row: row.outcome != "infra_error" and row.first_mount_failed is not None,
    lines=_lines,
)
