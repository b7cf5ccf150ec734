# SPDX-License-Identifier: Apache-2.0
"""A profile has what each mode executes, where it executes it: in which file system, mode and part.

That it has each instruction once is what `riobed profile` checks itself.
"""

from pathlib import Path

import pytest
from riobed.commands.profile import ProfileRow, ProfileTable, Request, profile_text, profiles

pytestmark = pytest.mark.extended

WORKLOAD = """
name: writing
description: A file that is written and a loop.
start: "true"
check: "true"
prepare: mkdir -p {dir}
measure:
  write: head -c 1048576 /dev/zero >{dir}/file
  loop: n=0; while [ $n -lt 20000 ]; do n=$((n + 1)); done
"""


def share(table: ProfileTable, column: str, part: str, name: str) -> float:
    """Of what a mode executes in a part, the share in a function or in files whose names begin so."""

    def count(rows: list[ProfileRow]) -> int:
        return sum(row.mode if column == "mode" else row.over for row in rows)

    of_part = [row for row in table.rows if row.part == part]
    return count([row for row in of_part if name == row.function or row.file.startswith(name)]) / count(
        of_part
    )


def test_a_profile_tells_where_instructions_are_executed(tmp_path: Path) -> None:
    (tmp_path / "workload.yaml").write_text(WORKLOAD)
    table = profiles(Request("rio", "memory", None, tmp_path, 1, 64), None)
    assert (table.workload, {row.part for row in table.rows}) == ("writing", {"write", "loop"})
    # The programs are on ext4 in both.
    assert share(table, "mode", "write", "fs/ext4/") > 0.05 > 0.01 > share(table, "over", "write", "fs/ext4/")
    assert share(table, "over", "write", "mm/shmem.c") > 0.01 > share(table, "mode", "write", "mm/shmem.c")
    for column in ("mode", "over"):
        assert share(table, column, "write", "user mode") < 0.5 < share(table, column, "loop", "user mode")
    lines = profile_text(table, 5, "md").splitlines()
    total = sum(row.mode - row.over for row in table.rows) / 1e6
    assert [f"{total:.2f}" in line for line in lines if line.startswith("| Total")] == [True, True]
