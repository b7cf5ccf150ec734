# SPDX-License-Identifier: Apache-2.0
"""What the user gives for files to copy into a guest."""

from pathlib import Path

import pytest
from riobed.commands.shell import parse_put
from riobed.errors import UsageError


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "file name"
    path.touch()
    return path


@pytest.mark.parametrize("target", ["/mnt/test/x", "/x", "/x/", "/a b/c:d", "//x"])
def test_source_and_target(source: Path, target: str) -> None:
    assert parse_put(f"{source}:{target}") == (source, target)
    assert parse_put(f"{source.parent}:{target}") == (source.parent, target)


@pytest.mark.parametrize(
    "entry", ["", ":", "file", "file:", ":/x", "file:relative", "file:./x", "file:/", "file://"]
)
def test_wrong_use(source: Path, entry: str) -> None:
    given = entry.replace("file", str(source))
    with pytest.raises(UsageError) as caught:
        parse_put(given)
    assert str(caught.value).startswith(f"--put {given}: want SRC:DST")


def test_a_source_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=rf"^--put {tmp_path}/no:/x: {tmp_path}/no does not exist$"):
        parse_put(f"{tmp_path}/no:/x")
