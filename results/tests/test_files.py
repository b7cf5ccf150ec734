# SPDX-License-Identifier: Apache-2.0
"""A file is replaced whole or not at all, and nothing is left beside it."""

from pathlib import Path

import pytest
from riobed_results.files import replacing, write_whole


def test_a_file_is_replaced_only_when_all_went_well(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with pytest.raises(KeyError), replacing(path):
        raise KeyError
    assert list(tmp_path.iterdir()) == []
    write_whole(path, b"old", durable=True)
    with pytest.raises(KeyError), replacing(path) as new:
        new.write_bytes(b"half")
        raise KeyError
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (b"old", [path])
