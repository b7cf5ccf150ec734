# SPDX-License-Identifier: Apache-2.0
"""What is told of a corruption, also when a workload or a stranger wrote what is stored."""

from typing import Any

import pytest
from results_builders import faults, fill
from riobed_results.errors import StoreError
from riobed_results.store.store import Store
from riobed_results.store.trial import FaultRow
from riobed_results.tables.crashes.stories import Story, story_page, story_table
from riobed_results.tables.framework.render import render

FIRST = {"path": "tree/f1", "kind": "content", "offset": 4096, "length": 7, "detail": "found 1e"}
SECOND = {"path": "tree/f2", "kind": "missing", "offset": 0, "length": 0, "detail": ""}
CHECK = {"equal": False, "difference_count": 3, "differences": [FIRST, SECOND]}
PAGE = {"ino": 12, "index": 1, "dirty": True, "metadata": False}
RECOVERY = {"mount_error": 0, "checksums": {"intact": 9, "corrupt": 1, "changing": 0, "mismatches": [PAGE]}}


def told(store: Store, **fields: Any) -> tuple[Story, list[str], str]:
    """The story of the only trial, its line in the table, and the whole of it."""
    table = story_table(fill(store, {"corruption": "direct"} | fields, modes=["rio"]))
    (found,), (line,) = table.stories, story_page(table).grids[0].body
    return found, line, render(story_page(table), "md")


def test_a_story_has_fault_crash_bytes_class_and_oracle(store: Store) -> None:
    seen: dict[str, Any] = {"faults": faults(2), "injected": 2, "workload_mismatch": True}
    found, line, _ = told(store, check=CHECK, recovery=RECOVERY, time_to_crash_s=1.25, **seen)
    assert found.activated == [
        "mov rbp, rsp became mov rsp, rsp, in vfs_read at fs/read_write.c:450, after 0.250 s"
    ]
    assert (found.crash_kind, found.crash_title, found.seconds) == ("panic", "panic: it died", 1.25)
    first = "tree/f1: content, 7 bytes from 4096 (found 1e)"
    assert (found.differing, list(map(str, found.differences))) == (3, [first, "tree/f2: missing"])
    assert found.mismatches == ["dirty data, inode 12, page 1"]
    assert (found.corruption, found.oracles) == ("direct", ["check", "checksums", "read"])
    assert (line[-3], line[-1]) == (f"{first} and 2 more", "check and checksums and read")


def test_the_first_fault_is_the_one_activated_first(store: Store) -> None:
    hit: dict[str, Any] = {
        "fault_class": "copy_overrun",
        "injected": True,
        "params": {"calls": 12, "extra": 3},
    }
    seen = [(True, 2.0), (True, 0.5), (False, None), (None, None)]
    late_first = [FaultRow(index=i, activated=a, activated_s=s, **hit) for i, (a, s) in enumerate(seen)]
    found, *_ = told(store, faults=late_first)
    assert found.activated == ["calls 12, extra 3, after 0.500 s", "calls 12, extra 3, after 2.000 s"]


@pytest.mark.parametrize(
    ("check", "recovery", "oracles"),
    [
        (CHECK, None, ["check"]),
        (CHECK, {"checksums": {"intact": 9, "corrupt": 0, "changing": 0}}, ["check"]),
        (None, {"mount_error": 22}, ["mount"]),
        ({"equal": False}, {}, ["check"]),
        (None, None, ["recovery"]),
    ],
)
def test_who_found_it(store: Store, check: Any, recovery: Any, oracles: list[str]) -> None:
    assert told(store, check=check, recovery=recovery)[0].oracles == oracles


@pytest.mark.parametrize(
    "check",
    [
        {},
        {"differences": None},
        {"differences": "x", "difference_count": "many"},
        {"differences": [None, 1, "a", {}, {"path": 3, "kind": []}, FIRST | {"offset": "x"}]},
    ],
)
def test_a_check_of_any_shape_ends_no_story(store: Store, check: Any) -> None:
    found, _, shown = told(store, check=check)
    assert (found.differences, found.differing) == ([], None) and "not told" in shown


def test_planted_changes_and_sound_crashes_are_no_stories(store: Store) -> None:
    rows = [{"fault_class": "planted", "corruption": "direct"}, {}, {"outcome": "survived"}]
    with pytest.raises(StoreError, match="no corruption to tell of"):
        story_table(fill(store, *rows))
