# SPDX-License-Identifier: Apache-2.0
"""What is told of a corruption, also when a workload or a stranger wrote what is stored."""

from typing import Any

import pytest
from results_builders import campaign, faults, trial
from riobed_results.errors import StoreError
from riobed_results.store.models import FaultRow
from riobed_results.store.queries import read_results
from riobed_results.store.store import Store
from riobed_results.tables.render import render
from riobed_results.tables.stories import Story, story_page, story_table

CHECK = {
    "equal": False,
    "difference_count": 3,
    "differences": [
        {
            "path": "tree/f1",
            "kind": "content",
            "offset": 4096,
            "length": 7,
            "detail": "found 1e, should be b0",
        },
        {"path": "tree/f2", "kind": "missing", "offset": 0, "length": 0, "detail": ""},
    ],
}
PAGE = {"ino": 12, "index": 1, "dirty": True, "metadata": False}
RECOVERY = {"mount_error": 0, "checksums": {"intact": 9, "corrupt": 1, "changing": 0, "mismatches": [PAGE]}}


def story(store: Store, **fields: Any) -> Story:
    added = store.add_campaign(campaign("told", ["rio"], ["kernel_text"]))
    store.add_trial(trial(added.id, 0, **{"corruption": "direct"} | fields))
    (found,) = story_table(read_results(store)).stories
    return found


def test_a_story_has_fault_crash_bytes_class_and_oracle(store: Store) -> None:
    found = story(
        store,
        check=CHECK,
        recovery=RECOVERY,
        faults=faults(2),
        injected=2,
        time_to_crash_s=1.25,
        workload_status="mismatch tree/f1",
        workload_mismatch=True,
        log="logs/0.log.gz",
    )
    assert found.activated == [
        "mov rbp, rsp became mov rsp, rsp, in vfs_read at fs/read_write.c:450, after 0.250 s"
    ]
    assert (found.crash_kind, found.crash_title, found.seconds) == ("panic", "panic: it died", 1.25)
    assert (found.differing, len(found.differences)) == (3, 2)
    assert str(found.differences[0]) == ("tree/f1: content, 7 bytes from 4096 (found 1e, should be b0)")
    assert str(found.differences[1]) == "tree/f2: missing"
    assert found.mismatches == ["dirty data, inode 12, page 1"]
    assert (found.corruption, found.oracles) == ("direct", ["check", "checksums", "read"])
    (line,) = story_page(story_table(read_results(store))).grids[0].body
    assert line[-3] == "tree/f1: content, 7 bytes from 4096 (found 1e, should be b0) and 2 more"
    assert line[-1] == "check and checksums and read"


def test_the_first_fault_is_the_one_activated_first(store: Store) -> None:
    hit = {"calls": 12, "extra": 3}
    late, early, never, unknown = (
        FaultRow(index=i, fault_class="copy_overrun", injected=True, activated=a, activated_s=s, params=hit)
        for i, (a, s) in enumerate([(True, 2.0), (True, 0.5), (False, None), (None, None)])
    )
    found = story(store, faults=[late, early, never, unknown])
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
    assert story(store, check=check, recovery=recovery).oracles == oracles


@pytest.mark.parametrize(
    "check",
    [
        {},
        {"differences": None},
        {"differences": "x", "difference_count": "many"},
        {
            "differences": [
                None,
                1,
                "a",
                {},
                {"path": 3, "kind": []},
                {"path": "p", "kind": "k", "offset": "x"},
            ]
        },
    ],
)
def test_a_check_of_any_shape_ends_no_story(store: Store, check: Any) -> None:
    found = story(store, check=check)
    assert (found.differences, found.differing) == ([], None)
    assert "not told" in render(story_page(story_table(read_results(store))), "md")


def test_planted_changes_and_sound_crashes_are_no_stories(store: Store) -> None:
    added = store.add_campaign(campaign())
    store.add_trial(trial(added.id, 0, fault_class="planted", corruption="direct"))
    store.add_trial(trial(added.id, 1))
    store.add_trial(trial(added.id, 2, "discard"))
    with pytest.raises(StoreError, match="no corruption to tell of"):
        story_table(read_results(store))
