# SPDX-License-Identifier: Apache-2.0
"""Controls that fail are said above the table, those that hold are not."""

import json
from pathlib import Path
from typing import Any

import pytest
from results_builders import Invoke, campaign, trial
from riobed_results.store.models import FaultRow
from riobed_results.store.queries import read_results
from riobed_results.store.store import Store
from riobed_results.tables.controls import failed_controls, losing_modes, missing_controls
from riobed_results.tables.registry import CAMPAIGN_TABLES, campaign_pages
from riobed_results.tables.render import render

CLASSES = ["none", "planted", "kernel_text"]
SUMS = {"intact": 5, "corrupt": 0, "changing": 0, "mismatches": []}
RECOVERY = {"entries": {"rejected": 0}, "metadata": {"written": 1}, "data": {"pages": 1}, "checksums": SUMS}


def planted(kind: str, corruption: str, mode: str = "rio") -> dict[str, Any]:
    fault = FaultRow(index=0, fault_class="planted", injected=True, params={"kind": kind})
    return {"fault_class": "planted", "mode": mode, "corruption": corruption, "faults": [fault]} | {
        "recovery": RECOVERY
    }


def reset(corruption: str = "none", mode: str = "rio") -> dict[str, Any]:
    return {"fault_class": "none", "mode": mode, "corruption": corruption, "recovery": RECOVERY}


def astray(**changes: Any) -> dict[str, Any]:
    return reset() | {"recovery": RECOVERY | changes}


def filled(store: Store, *fields: dict[str, Any], spec: str = "") -> Store:
    row = campaign("controlled", ["rio", "delayed"], ["kernel_text"] if spec else CLASSES)
    row.spec += spec
    added = store.add_campaign(row)
    for position, more in enumerate(fields):
        store.add_trial(trial(added.id, position, **more))
    return store


@pytest.mark.parametrize(
    ("fields", "sentences"),
    [
        ([{}], []),
        ([{"corruption": "direct"}], []),
        ([reset(), reset("indirect", "delayed"), reset("none", "delayed")], []),
        ([planted("stray", "direct"), planted("entry", "direct"), planted("written", "indirect")], []),
        ([planted("entry", "indirect")], ["mode rio: 1 of 1 planted changes were found but wrongly classed"]),
        ([reset("none", "delayed")] * 2, ["mode delayed: none of 2 resets without a fault lost anything"]),
        ([reset(), reset("direct")], ["mode rio: 1 of 2 resets without a fault lost or changed a file"]),
        ([planted("stray", "none")], ["mode rio: 1 of 1 planted changes were not found"]),
        (
            [planted("stray", "indirect"), planted("written", "indirect")],
            ["mode rio: 1 of 2 planted changes were found but wrongly classed"],
        ),
        (
            [reset("direct"), planted("written", "none")],
            ["mode rio: 1 of 1 resets", "mode rio: 1 of 1 planted changes were not found"],
        ),
        (
            [reset(), astray(checksums=SUMS | {"corrupt": 1})],
            ["mode rio: 1 of 2 resets without a fault left a page or registry entry with a wrong checksum"],
        ),
        (
            [reset(), astray(entries={"rejected": 1}), astray(registry="damaged")],
            ["mode rio: 2 of 3 resets without a fault left a page or registry entry with a wrong checksum"],
        ),
        (
            [reset(), astray(entries={"rejected": 0, "senseless": 2})],
            ["mode rio: 1 of 2 resets without a fault left a registry entry that makes no sense"],
        ),
        # What a guest that died by itself lost is no reset's doing.
        (
            [reset(), reset("direct") | {"crash_kind": "oops"}],
            ["mode rio: 1 of 2 guests without a fault crashed by themselves"],
        ),
        # Where data is lost anyway, the check finds something after each change.
        ([planted("stray", "indirect", "delayed"), planted("written", "none", "delayed")], []),
    ],
)
def test_which_controls_failed(store: Store, fields: list[dict[str, Any]], sentences: list[str]) -> None:
    found = failed_controls(read_results(filled(store, *fields)).rows)
    assert len(found) == len(sentences)
    assert all(said in sentence for said, sentence in zip(sentences, found, strict=True))


def test_a_mode_of_ones_own_may_lose_data(store: Store) -> None:
    own = "own_modes: {kept: {sync_writes: true}, gone: {sync_writes: true, filesystem: tmpfs}, late: {}}\n"
    rows = [reset("unclassified", mode) for mode in ("kept", "gone", "late")]
    results = read_results(filled(store, *rows, spec=own))
    (sentence,) = failed_controls(results.rows, losing_modes(results.campaign))
    assert "mode kept" in sentence


@pytest.mark.parametrize("form", ["md", "latex", "html"])
def test_a_failed_control_stands_above_the_table(invoke: Invoke, store: Store, path: Path, form: str) -> None:
    filled(store, reset("direct"), planted("stray", "direct"), {})
    shown = invoke("table", "corruption", "--store", path, "--format", form).stdout
    sentence = "Control failed in mode rio: 1 of 1 resets without a fault lost or changed a file."
    assert (
        0
        < shown.index(sentence)
        < shown.index(
            "Corruptions</caption>"
            if form == "html"
            else "Corruptions**"
            if form == "md"
            else "textbf{Corruptions}"
        )
    )
    read = json.loads(invoke("table", "corruption", "--store", path, "--format", "json").stdout)
    assert read["statistics"]["failed_controls"] == [sentence]


def test_a_control_that_holds_says_nothing(invoke: Invoke, store: Store, path: Path) -> None:
    filled(store, reset(), planted("stray", "direct"), {})
    assert "Control failed" not in invoke("table", "corruption", "--store", path).stdout


FAULTS = [{}, {"mode": "delayed"}, {"mode": "write-through", "outcome": "discard"}]


@pytest.mark.parametrize(
    ("fields", "spec", "said"),
    [
        ([], "", []),
        ([reset(), planted("written", "none")], "", []),
        ([{"outcome": "discard"}, {"outcome": "infra_error"}], "", []),
        (FAULTS, "", ["class none in modes rio, delayed; class planted in mode rio"]),
        ([*FAULTS, reset(), reset("direct", "delayed")], "", ["class planted in mode rio"]),
        ([*FAULTS, planted("stray", "direct")], "", ["class none in modes rio, delayed"]),
        (
            [*FAULTS, {"fault_class": "none", "outcome": "infra_error"}],
            "",
            ["class none in modes rio, delayed; class planted in mode rio"],
        ),
        # A campaign that cannot plant, or shall not.
        (FAULTS, "controls: {none: 0.1}", ["class none in modes rio, delayed"]),
        (FAULTS, "controls: {none: 0.1, planted: 0}", ["class none in modes rio, delayed"]),
        (FAULTS, "controls: null", ["class none in modes rio, delayed"]),
        (FAULTS, "controls: {planted: 0.1}", ["class none in modes rio, delayed; class planted in mode rio"]),
        # A crash that does not count needs no control.
        (
            [{"recovery": RECOVERY | {"interrupted": {"planned_s": 0.1, "at_s": 0.1, "phase": "done"}}}],
            "",
            [],
        ),
    ],
)
def test_which_controls_are_missing(
    store: Store, fields: list[dict[str, Any]], spec: str, said: list[str]
) -> None:
    found = missing_controls(read_results(filled(store, *fields, spec=spec)))
    assert found == [f"Controls that have not run: {each}." for each in said]


ABOUT_FAULTS = ["corruption", "comparison", "faults", "titles", "stories", "oracles", "starts"]


@pytest.mark.parametrize("table", ABOUT_FAULTS)
def test_every_table_about_faults_says_what_its_controls_say(
    invoke: Invoke, store: Store, path: Path, table: str
) -> None:
    fault = {"requested": 1, "recovery": RECOVERY}
    others = [planted("written", "none"), {"mode": "delayed", "outcome": "discard"}]
    filled(store, fault | {"fresh_boot": True}, fault | {"corruption": "direct"}, *others)
    failed, missing = (
        "Control failed in mode rio: 1 of 1 planted",
        "Controls that have not run: class none in mode rio.",
    )
    assert {each.name for each in CAMPAIGN_TABLES if each.about_faults} == set(ABOUT_FAULTS)
    shown = invoke("table", table, "--store", path).stdout
    assert 0 < shown.index(failed) < shown.index(missing) < shown.index("\n| ")
    page = campaign_pages(read_results(store))[table]
    assert render(page, "md") == shown


def test_tables_about_something_else_do_not(invoke: Invoke, store: Store, path: Path) -> None:
    filled(store, {"phases": {"check": 1.0}}, reset("direct"), planted("written", "none"))
    for table in ("phases", "no-fault", "planted"):
        assert "Control failed" not in invoke("table", table, "--store", path).stdout
    read = json.loads(invoke("table", "corruption", "--store", path, "--format", "json").stdout)
    assert len(read["statistics"]["failed_controls"]) == 2 and read["statistics"]["missing_controls"] == []
