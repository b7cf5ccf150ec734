# SPDX-License-Identifier: Apache-2.0
"""Crash titles, against a count by hand."""

import csv
import io
import random
from collections import Counter
from typing import Any

import pytest
from results_builders import fill
from riobed_results.errors import StoreError
from riobed_results.store.store import Store
from riobed_results.tables.crashes.stories import story_page, story_table
from riobed_results.tables.crashes.titles import title_page, title_table
from riobed_results.tables.framework.render import render

MODES = ["rio", "delayed"]


@pytest.mark.parametrize("seed", range(5))
def test_random_titles_against_a_count_by_hand(store: Store, seed: int) -> None:
    rng = random.Random(seed)
    rows: list[dict[str, Any]] = [
        {
            "mode": rng.choice(MODES),
            "crash_title": rng.choice(["BUG at fs/inode.c", "page fault in f|g", None]),
            "crash_kind": rng.choice(["oops", "panic"]),
            "corruption": rng.choice(["none", "direct"]),
            "fault_class": rng.choice(["kernel_text", "kernel_text", "none"]),
            "log_damage": rng.choice([None, "no end"]),
            "log": rng.choice([None, f"logs/{number}.log.gz"]),
        }
        for number in range(60)
    ]
    faulty = [row for row in rows if row["fault_class"] != "none"]
    by_hand = Counter((row["crash_title"] or "", row["crash_kind"]) for row in faulty)
    table = title_table(fill(store, *rows, {"outcome": "survived"}, modes=MODES))
    assert {(title.title, title.kind): title.total for title in table.titles} == by_hand
    assert [title.total for title in table.titles] == sorted(by_hand.values(), reverse=True)
    for title in table.titles:
        key = title.title or None, title.kind
        of_title = [row for row in faulty if (row["crash_title"], row["crash_kind"]) == key]
        assert title.crashes == {mode: sum(row["mode"] == mode for row in of_title) for mode in MODES}
        assert title.corrupted == sum(row["corruption"] == "direct" for row in of_title)
        assert title.damaged == sum(row["log_damage"] is not None for row in of_title)
        assert title.log == next((row["log"] for row in of_title if row["log"]), None)


def test_only_controls_have_no_titles(store: Store) -> None:
    with pytest.raises(StoreError, match="no crashes yet"):
        title_table(fill(store, {"fault_class": "none"}))


def test_a_title_is_the_same_text_in_the_table_of_stories(store: Store) -> None:
    results = fill(store, {"crash_title": "BUG\x1b[2J in\nf", "corruption": "direct"})
    pages = title_page(title_table(results)), story_page(story_table(results))
    assert "| panic | 1 | 1 | 1 |  |  |" in render(pages[0], "md")
    (title,), (story,) = (list(csv.DictReader(io.StringIO(render(page, "csv")))) for page in pages)
    assert title["title"] == story["crash"] == "BUG\\x1b[2J in\\nf"
