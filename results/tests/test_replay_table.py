# SPDX-License-Identifier: Apache-2.0
"""The match rate comes from stored replays alone, and is that of crash titles."""

from pathlib import Path

import pytest
from results_builders import campaign
from riobed_results.errors import StoreError
from riobed_results.tables.controls.replays import (
    Ending,
    ReplayRun,
    add_replay,
    read_replays,
    replay_page,
    replay_table,
)

ON = campaign().provenance


def ending(title: str | None, corruption: str = "none") -> Ending:
    crash = {"outcome": "crash", "crash_kind": "oops", "crash_title": title, "corruption": corruption}
    none = dict.fromkeys(crash, None) | {"outcome": "discard"}
    at = {"time_to_crash_s": 0.5, "first_activation_s": None if corruption == "direct" else 0.25}
    at |= {"activated": 1, "corruption_where": None}
    return Ending.model_validate((crash if title else none) | at)


def run(position: int, fault_class: str, now: Ending) -> ReplayRun:
    names = {"campaign": "c", "mode": "rio", "fault_class": fault_class, "seed": "1", "accelerator": "tcg"}
    return ReplayRun.model_validate(
        {**names, "position": position, "then": ending("page fault in f"), "now": now, "on": ON}
    )


RUNS = [
    run(3, "pointer", ending("page fault in f")),
    run(1, "kernel_heap", ending("page fault in g")),
    run(2, "pointer", ending("page fault in f", "direct")),
    run(4, "kernel_heap", ending(None)),
]


def test_only_equal_titles_match() -> None:
    table = replay_table(RUNS)
    assert list(table.classes) == ["pointer", "kernel_heap"]
    pointer = table.classes["pointer"]
    assert (pointer.replays, pointer.outcome, pointer.crash_title) == (2, 2, 2)
    assert (pointer.corruption, pointer.moment) == (1, 1)
    heap = table.classes["kernel_heap"]
    assert (heap.outcome, heap.crash_title, heap.corruption) == (1, 0, 1)
    assert (table.total.replays, table.total.crash_title) == (4, 2)
    assert replay_page(table).grids[0].foot == [["Total", "2 of 4 (50.0 %)", "6.8 to 93.2 %", "3", "2", "3"]]
    # Clopper-Pearson for 2 of 4, from a table of the beta distribution.
    share = table.total.share
    assert share.share == 0.5
    assert (share.low, share.high) == (pytest.approx(0.0676, abs=1e-4), pytest.approx(0.9324, abs=1e-4))


def test_replays_are_kept_in_a_folder(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="make it with 'riobed replay --crashes'"):
        read_replays(tmp_path)
    add_replay(tmp_path, RUNS[0])
    assert read_replays(tmp_path) == RUNS[:1]
    with pytest.raises(StoreError, match="no replay is stored yet"):
        replay_table([])
