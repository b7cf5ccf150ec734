# SPDX-License-Identifier: Apache-2.0
"""The structure: a room imports only what its entry allows, and no two files import each other."""

from graphlib import CycleError, TopologicalSorter

import pytest
from rooms import arrows as all_arrows
from rooms import reach, room


@pytest.fixture(scope="module")
def arrows() -> dict[str, set[str]]:
    return all_arrows()


def test_each_room_imports_only_what_lies_below_it(arrows: dict[str, set[str]]) -> None:
    upward = {
        f"{name} imports {target}"
        for name, targets in arrows.items()
        for target in targets
        if room(target) not in reach(room(name))
    }
    assert not upward


def test_no_file_imports_itself_by_way_of_others(arrows: dict[str, set[str]]) -> None:
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError as error:
        pytest.fail(f"circle: {' -> '.join(error.args[1])}")
