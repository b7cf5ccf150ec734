# SPDX-License-Identifier: Apache-2.0
"""What is told of a corruption, also when a workload or a stranger wrote what is stored."""

from pathlib import Path
from typing import Any

import pytest
from results_builders import faults, fill, trial
from riobed_results.errors import StoreError
from riobed_results.report.report import report
from riobed_results.rules.explained import explained_by
from riobed_results.store.logs import Links
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
        "mov rbp, rsp (4889e5) became mov rsp, rsp (4889e4), in vfs_read at fs/read_write.c:450, "
        "after 0.250 s"
    ]
    assert (found.crash_kind, found.crash_title, found.seconds) == ("panic", "panic: it died", 1.25)
    first = "tree/f1: content, 7 bytes from 4096 (found 1e)"
    assert (found.differing, list(map(str, found.differences))) == (3, [first, "tree/f2: missing"])
    assert found.mismatches == ["dirty data, inode 12, page 1"]
    assert (found.corruption, found.oracles) == ("direct", ["check", "checksums", "read"])
    assert (found.clock, line[5]) == ("trial", "1.25*")
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
    ("guest", "shown", "first", "last"),
    [
        # Of three activations the last came 20 ms after the first line of the report, the second at it.
        ({"injection_guest_s": 5.0, "crash_guest_s": 6.5}, "1.50", "after 0.500 s", "while the crash was"),
        ({"injection_guest_s": 5.0, "crash_guest_s": 99.0}, "94.00", "after 0.500 s", "after 1.520 s"),
        # By another clock, and before an activation: the crash is not told.
        ({"injection_guest_s": 5.0}, "-", "after 0.500 s", "after 1.520 s"),
        ({"injection_guest_s": 5.0, "time_to_crash_s": 1.6}, "1.60*", "after 0.500 s", "after 1.520 s"),
    ],
)
def test_a_story_has_one_clock(
    store: Store, guest: dict[str, float], shown: str, first: str, last: str
) -> None:
    many = faults(3)
    for fault, seconds in zip(many, (0.5, 1.501, 1.52), strict=True):
        fault.activated, fault.activated_s = True, seconds
    found, line, _ = told(store, **{"faults": many, "time_to_crash_s": 1.25} | guest)
    assert line[5] == shown and found.activated[0].endswith(first)
    assert last in found.activated[2]
    assert found.activated[1].endswith("after 1.500 s" if shown == "1.50" else "after 1.501 s")


def test_a_flip_that_changes_no_instruction_says_so(store: Store) -> None:
    (same,) = faults(1)
    same.old, same.new, same.old_asm, same.new_asm = "4889fd", "488bef", *["mov rbp, rdi"] * 2
    found, *_ = told(store, faults=[same])
    said = "mov rbp, rdi (4889fd) became the same instruction (488bef), without effect, in vfs_read"
    assert found.activated[0].startswith(said)


def test_an_address_is_shown_as_the_symbol_that_the_row_has(store: Store) -> None:
    params = {"routine": "memcpy", "to": "1a", "caller": "ffffffff812ae2f3", "caller_symbol": "iput+0x93"}
    hits = [FaultRow(index=n, fault_class="copy_overrun", injected=True, activated=True) for n in (0, 1)]
    hits[0].params, hits[1].params = params, {"caller": "ffffffff812ae2f3"}
    found, *_ = told(store, faults=hits)
    assert found.activated == ["routine memcpy, to 1a, caller iput+0x93", "caller ffffffff812ae2f3"]


def test_what_the_kernel_outlived_is_in_its_story(store: Store, path: Path) -> None:
    found, *_ = told(store, complaints=2, first_complaint="warning in <iput>")
    assert (found.complaints, found.first_complaint) == (2, "warning in <iput>")
    page = report(store, None, Links(path.parent, path.parent))
    assert "2, the first: warning in &lt;iput&gt;" in page


def overrun(at: int, copied: int, extra: int, **more: Any) -> FaultRow:
    params = {"to": f"{at:x}", "length": copied, "extra": extra, "direction": "from_user"} | more
    return FaultRow(index=3, fault_class="copy_overrun", injected=True, activated=True, params=params)


def stretch(offset: int, length: int, detail: str = "found 1e, should be 2f") -> dict[str, Any]:
    return {"path": "f", "kind": "content", "offset": offset, "length": length, "detail": detail}


@pytest.mark.parametrize(
    ("fault", "difference", "explained"),
    [
        # The rest of its own page, up to the end of the overrun or of the page, in any page of a file.
        (overrun(0xFFFF888004001000, 100, 7), stretch(5 * 4096 + 100, 7), True),
        (overrun(0xFFFF888004001F00, 100, 1024), stretch(0xF64, 156), True),
        # The page behind that, from its start; also if the copy ended at the end of its page.
        (overrun(0xFFFF888004001F00, 100, 1024), stretch(4096, 868), True),
        (overrun(0xFFFF888004001000, 4096, 1), stretch(8192, 1), True),
        (overrun(0xFFFF888004001000, 8, 9000), stretch(8192, 4096), True),
        # A page more that lies behind it in the file, too.
        (overrun(0xFFFF888004001F00, 100, 1024), stretch(0xF64, 1024), True),
        # Neither another place nor another length.
        (overrun(0xFFFF888004001000, 100, 7), stretch(101, 7), False),
        (overrun(0xFFFF888004001000, 100, 7), stretch(100, 6), False),
        (overrun(0xFFFF888004001000, 100, 7), stretch(0, 7), False),
        # A size is no stretch of bytes, and a program's memory no file.
        (overrun(0xFFFF888004001000, 100, 7), stretch(100, 7, "size 100, should be 107"), False),
        (overrun(0x7FFF00001000, 100, 7, direction="to_user"), stretch(100, 7), False),
        # Rows that do not tell, or are damaged.
        (overrun(0, 100, 7, to="?"), stretch(100, 7), None),
        (overrun(0, 100, 7, length=None), stretch(100, 7), None),
    ],
)
def test_an_overrun_explains_wrong_bytes_of_its_place_and_length(
    store: Store, path: Path, fault: FaultRow, difference: dict[str, Any], explained: bool | None
) -> None:
    check = {"equal": False, "difference_count": 1, "differences": [difference]}
    found, *_ = told(store, faults=[fault], injected=1, check=check)
    assert found.explained_by == (None if explained is None else ["copy_overrun 3"] * explained)
    page = report(store, None, Links(path.parent, path.parent))
    assert ("copy_overrun 3, by place and length" in page) == bool(explained)


def test_what_explains_nothing() -> None:
    """No overrun happened; or one did, and the check did not tell where bytes are wrong."""
    bad: dict[str, Any] = {"corruption": "indirect"}
    assert explained_by(trial(1, 0, **bad, faults=faults(1), check=CHECK)) == []
    untold = trial(1, 0, **bad, faults=[overrun(0, 100, 7)], check={"difference_count": 2})
    assert explained_by(untold) is None


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
