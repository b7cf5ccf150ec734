# SPDX-License-Identifier: Apache-2.0
"""Controls that fail are said above the table, those that hold are not."""

import json
from pathlib import Path
from typing import Any

import pytest
from results_builders import Invoke, campaign, trial
from riobed_results.controls import failed_controls
from riobed_results.models import FaultRow
from riobed_results.queries import read_results
from riobed_results.store import Store

SUMS = {"intact": 5, "corrupt": 0, "changing": 0, "mismatches": []}
RECOVERY = {"entries": {"rejected": 0}, "metadata": {"written": 1}, "data": {"pages": 1}, "checksums": SUMS}


def planted(kind: str, corruption: str, mode: str = "rio") -> dict[str, Any]:
    fault = FaultRow(index=0, fault_class="planted", injected=True, params={"kind": kind})
    return {"fault_class": "planted", "mode": mode, "corruption": corruption, "faults": [fault]} | {
        "recovery": RECOVERY
    }


def reset(corruption: str = "none", mode: str = "rio") -> dict[str, Any]:
    return {"fault_class": "none", "mode": mode, "corruption": corruption, "recovery": RECOVERY}


def filled(store: Store, *fields: dict[str, Any]) -> Store:
    added = store.add_campaign(campaign("controlled", ["rio", "delayed"], ["none", "planted", "kernel_text"]))
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
    ],
)
def test_which_controls_failed(store: Store, fields: list[dict[str, Any]], sentences: list[str]) -> None:
    found = failed_controls(read_results(filled(store, *fields)).rows)
    assert len(found) == len(sentences)
    assert all(said in sentence for said, sentence in zip(sentences, found, strict=True))


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
