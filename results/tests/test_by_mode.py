# SPDX-License-Identifier: Apache-2.0
"""Tables by mode: what resets without a fault and in recovery cost, and which oracle found what."""

import csv
import io
import itertools
import json
import random
from collections import Counter
from typing import Any

import pytest
from results_builders import campaign, trial
from riobed_results.store.models import FaultRow
from riobed_results.store.queries import read_results
from riobed_results.store.store import Store
from riobed_results.tables.by_mode import Design, mode_page, mode_table
from riobed_results.tables.losses import NO_FAULT, RECOVERY_CRASH
from riobed_results.tables.oracles import ORACLES
from riobed_results.tables.planted import PLANTED
from riobed_results.tables.registry import campaign_pages
from riobed_results.tables.render import render
from riobed_results.tables.starts import STARTS

MODES = ["rio", "rio-protected"]
EQUAL = {"equal": True, "difference_count": 0}
# What a riorecover says that knows of no checksums.
OLD = {"entries": {"rejected": 0}, "metadata": {"written": 10}, "data": {"pages": 100}, "mount_error": 0}


def report(pages: int = 100, rejected: int = 0, corrupt: int = 0, phase: str = "") -> dict[str, Any]:
    sums = {"intact": 90, "corrupt": corrupt, "changing": 1, "mismatches": []}
    made = OLD | {"entries": {"rejected": rejected}, "data": {"pages": pages}, "checksums": sums}
    cut = {"planned_s": 0.1, "at_s": 0.11, "phase": phase}
    return made | {"interrupted": cut} if phase else made


def differing(count: int) -> dict[str, Any]:
    return {"equal": False, "difference_count": count}


def filled(store: Store, *fields: dict[str, Any], fault_class: str = "none") -> Store:
    """A campaign with these trials; a crash loses nothing unless its fields say more."""
    added = store.add_campaign(campaign("resets", MODES, [fault_class]))
    base: dict[str, Any] = {"fault_class": fault_class, "check": EQUAL, "phases": {"check": 1.0}}
    for position, more in enumerate(fields):
        store.add_trial(trial(added.id, position, **base | {"recovery": report()} | more))
    return store


def column(store: Store, design: Design, mode: str = "rio") -> dict[str, Any]:
    return {name: cells[mode] for name, cells in mode_table(read_results(store), design).lines.items()}


def test_resets_without_a_fault(store: Store) -> None:
    filled(
        store,
        {"recovery": report(pages=90)},
        {"recovery": report(pages=190, rejected=2)},
        {"recovery": report(pages=290, corrupt=3), "check": differing(5), "corruption": "direct"},
        {"recovery": report(pages=4), "check": {"equal": False}, "corruption": "indirect"},
        {"recovery": report() | {"entries": {"rejected": 0, "senseless": 3}}},
        {"recovery": report() | {"mount_error": 22}, "check": None, "corruption": "indirect"},
        {"recovery": report(phase="e2fsck")},
        {"fault_class": "kernel_text", "recovery": report(rejected=7)},
        {"outcome": "discard", "recovery": None, "check": None},
        {"mode": "rio-protected"},
    )
    assert column(store, NO_FAULT) == {
        "Resets": 6,
        "Lost or changed a file": 3,
        "Files lost or changed": 6,
        "Checksum mismatches": 3,
        "Registry entries rejected": 5,
        "Pages restored, median": 110.0,
    }
    assert column(store, NO_FAULT, "rio-protected")["Resets"] == 1


def test_resets_in_recovery(store: Store) -> None:
    filled(
        store,
        {"recovery": report(phase="registry")},
        {"recovery": report(phase="e2fsck", rejected=1)},
        {"recovery": report(phase="e2fsck"), "check": differing(2), "corruption": "indirect"},
        {"recovery": report(phase="later")},
        # Too late: what it lost would not be a crash in recovery's doing.
        {"recovery": report(phase="done", pages=0), "check": differing(9), "corruption": "indirect"},
        {"recovery": report(pages=7, rejected=3)},
    )
    assert column(store, RECOVERY_CRASH) == {
        "Resets in recovery": 4,
        "in its phase registry": 1,
        "in its phase save": 0,
        "in its phase metadata": 0,
        "in its phase e2fsck": 2,
        "in its phase data": 0,
        "in its phase later": 1,
        "Everything restored": 3,
        "Lost or changed a file": 1,
        "Files lost or changed": 2,
        "Checksum mismatches": 0,
        "Registry entries rejected": 1,
        "Pages restored, median": 110.0,
        "Resets after its end": 1,
    }
    # A mode without a trial: zeros would be a claim.
    assert set(column(store, RECOVERY_CRASH, "rio-protected").values()) == {None}


def test_which_oracle_found_what(store: Store) -> None:
    found: list[dict[str, Any]] = [
        {},
        {"crash_kind": "trap"},
        {"recovery": report(corrupt=1)},
        {"check": differing(1), "corruption": "indirect"},
        {"check": differing(1), "corruption": "indirect"},
        {"recovery": report(corrupt=2), "check": differing(1), "corruption": "direct"},
        # No checksums: not in this table.
        {"recovery": OLD, "check": differing(1), "corruption": "unclassified"},
        {"recovery": None, "check": differing(1), "corruption": "unclassified"},
        # Controls: what they find was no fault's doing.
        {"fault_class": "none"},
        {"fault_class": "planted", "recovery": report(corrupt=1), "corruption": "direct"},
        {"fault_class": "none", "mode": "rio-protected"},
    ]
    assert column(filled(store, *found, fault_class="kernel_text"), ORACLES) == {
        "Crashes": 6,
        "Protection traps": 1,
        "Direct: check and checksums": 1,
        "Indirect: check alone": 2,
        "Checksums alone": 1,
        "Nothing found": 2,
    }
    assert set(column(store, ORACLES, "rio-protected").values()) == {None}


def test_without_checksums_none_were_right(store: Store) -> None:
    filled(store, {"recovery": OLD})
    assert column(store, NO_FAULT)["Checksum mismatches"] is None
    page = mode_page(NO_FAULT, mode_table(read_results(store), NO_FAULT))
    assert "| Checksum mismatches | - | - |" in render(page, "md")


def test_as_text(store: Store) -> None:
    filled(store, {"recovery": report(pages=91)}, {"recovery": report(pages=92)}, {"mode": "rio-protected"})
    page = mode_page(NO_FAULT, mode_table(read_results(store), NO_FAULT))
    text = render(page, "md")
    assert "|  | rio | rio-protected |\n|:--|--:|--:|\n| Resets | 2 | 1 |\n" in text
    assert "| Pages restored, median | 101.5 | 110 |" in text
    lines = list(csv.reader(io.StringIO(render(page, "csv"))))
    assert lines[:2] == [["line", "rio", "rio-protected"], ["Resets", "2", "1"]]
    stored = json.loads(render(page, "json"))["lines"]
    assert stored["Pages restored, median"] == {"rio": 101.5, "rio-protected": 110.0}


def test_a_campaign_has_the_tables_that_say_something_of_it(store: Store) -> None:
    filled(store, {"recovery": OLD})
    assert list(campaign_pages(read_results(store))) == ["phases", "no-fault"]
    for name, fields, pages in [
        ("cut", {"fault_class": "none", "recovery": report(phase="data")}, {"recovery-crash"}),
        ("faults", {"recovery": report()}, {"corruption", "titles", "oracles"}),
        ("before", {"recovery": OLD}, {"corruption", "titles"}),
    ]:
        added = store.add_campaign(campaign(name, ["rio"]))
        store.add_trial(trial(added.id, 0, check=EQUAL, phases={"check": 1.0}, **fields))
        assert set(campaign_pages(read_results(store, name))) == {"phases", *pages}


def test_trials_from_power_on_beside_those_from_the_snapshot(store: Store) -> None:
    text = {"fault_class": "kernel_text"}
    rows = [{**text, "phases": {"restore": 1.0}, "restore_checked": n < 2} for n in range(6)]
    rows += [{**text, "fresh_boot": True, "crash": n == 0} for n in range(4)]
    added = store.add_campaign(campaign("starts", ["rio"]))
    for position, fields in enumerate(rows):
        outcome = "crash" if fields.pop("crash", True) else "discard"
        store.add_trial(trial(added.id, position, outcome, **fields))
    store.add_trial(trial(added.id, 99, "infra_error", **text))
    store.add_trial(trial(added.id, 100, fault_class="none"))
    assert "starts" in campaign_pages(read_results(store))
    # Of 7 crashes among 10 trials 1 or none is among 4 of them: 4 of 120 ways, and no likelier ones.
    assert column(store, STARTS) == {
        "From the snapshot": 6,
        "Memory compared with the snapshot's": 2,
        "From the snapshot: crashed": 6,
        "From power-on": 4,
        "From power-on: crashed": 1,
        "Crashed, within fault classes: p": 0.033,
    }


def p_by_hand(classes: list[tuple[int, int, int, int]]) -> float:
    """Of all ways to choose the trials that began with a boot: how many are no likelier, by their crashes."""
    sums = Counter({0: 1})
    for crashed, discarded, boots, _ in classes:
        trials = [1] * crashed + [0] * discarded
        ways = Counter(map(sum, itertools.combinations(trials, boots)))
        sums = sum((Counter({a + b: n * m for b, m in ways.items()}) for a, n in sums.items()), Counter())
    seen = sums[sum(of_class[-1] for of_class in classes)]
    return sum(count for count in sums.values() if count <= seen) / sum(sums.values())


@pytest.mark.parametrize("seed", range(8))
def test_starts_against_all_ways_they_could_have_fallen(store: Store, seed: int) -> None:
    rng = random.Random(seed)
    added = store.add_campaign(campaign("starts", ["rio"]))
    classes = []
    for name in ("kernel_text", "pointer", "off_by_one"):
        rows = [(rng.random() < 0.5, n == 0 or rng.random() < 0.4) for n in range(rng.randrange(5, 9))]
        booted = [crashed for crashed, fresh in rows if fresh]
        crashed = sum(crashed for crashed, _ in rows)
        classes.append((crashed, len(rows) - crashed, len(booted), sum(booted)))
        with store.session() as session:
            session.add_all(
                trial(
                    added.id,
                    100 * len(classes) + n,
                    "crash" if crashed else "discard",
                    fault_class=name,
                    fresh_boot=fresh,
                )
                for n, (crashed, fresh) in enumerate(rows)
            )
    assert column(store, STARTS)["Crashed, within fault classes: p"] == round(p_by_hand(classes), 3)


def test_a_class_that_never_crashes_says_nothing_of_starts(store: Store) -> None:
    added = store.add_campaign(campaign("starts", ["rio"]))
    for position in range(20):
        always = position < 15
        fault_class = "kernel_text" if always else "off_by_one"
        fresh = position % 5 == 4 if always else position != 15
        outcome = "crash" if always else "discard"
        store.add_trial(trial(added.id, position, outcome, fault_class=fault_class, fresh_boot=fresh))
    assert column(store, STARTS)["Crashed, within fault classes: p"] is None


def test_planted_changes(store: Store) -> None:
    def planted(kind: str, corruption: str, **fields: Any) -> dict[str, Any]:
        fault = FaultRow(index=0, fault_class="planted", injected=True, params={"kind": kind})
        return {"corruption": corruption, "faults": [fault]} | fields

    no_checksums = {"mode": "write-through", "recovery": OLD}
    filled(
        store,
        planted("stray", "direct", recovery=report(corrupt=1)),
        planted("stray", "indirect"),
        planted("entry", "direct", recovery=report(rejected=1)),
        planted("written", "indirect"),
        planted("written", "none"),
        planted("block", "unclassified", **no_checksums),
        planted("written", "unclassified", **no_checksums),
        planted("written", "direct", **no_checksums),
        {"outcome": "infra_error"},
        fault_class="planted",
    )
    lines = mode_table(read_results(store), PLANTED).lines
    assert [cells["rio"] for cells in lines.values()] == [5, 2, 1, 0, 2, 4, 3, 1]
    assert [cells["write-through"] for cells in lines.values()] == [3, 0, 0, 1, 2, 3, 2, 0]
    assert "planted" in campaign_pages(read_results(store))
