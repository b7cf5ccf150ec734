# SPDX-License-Identifier: Apache-2.0
"""What the user gives for files to copy into a guest."""

from pathlib import Path

import pytest
from riobed.commands.shell import parse_put
from riobed.errors import UsageError


@pytest.mark.parametrize("target", ["/mnt/test/x", "/x", "/x/", "/a b/c:d", "//x"])
def test_source_and_target(tmp_path: Path, target: str) -> None:
    assert parse_put(f"{tmp_path}:{target}") == (tmp_path, target)


@pytest.mark.parametrize("entry", [
    "", ":", "file", "file:", ":/x", "file:relative", "file:./x", "file:/", "file://", "file.no:/x",
])  # fmt: skip
def test_wrong_use(tmp_path: Path, entry: str) -> None:
    (tmp_path / "file").touch()
    given = entry.replace("file", str(tmp_path / "file"))
    with pytest.raises(UsageError, match=r"^--put .*: (want SRC:DST|.*\.no does not exist)"):
        parse_put(given)
