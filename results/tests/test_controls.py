# SPDX-License-Identifier: Apache-2.0
"""Controls that fail are said above the table, those that hold are not."""

from pathlib import Path
from typing import Any

import pytest
from results_builders import Invoke, fill, planted, recovered
from riobed_results.rules.controls import failed_controls, missing_controls
from riobed_results.store.queries import Results
from riobed_results.store.store import Store
from riobed_results.store.trial import PANICS
from riobed_results.tables.corruption.corruption import corruption_table
from riobed_results.tables.framework.render import render
from riobed_results.tables.framework.table import CampaignTable
from riobed_results.tables.registry import CAMPAIGN_TABLES

RECOVERY = recovered()


def plant(kind: str, corruption: str, mode: str = "rio") -> dict[str, Any]:
    return planted(kind, corruption, mode=mode, recovery=RECOVERY)


def canary_plant(first: int | None, hits: int = 1) -> dict[str, Any]:
    """A change of byte 9 of the NVDIMM, and the first one that differed after the crash."""
    return planted("canary", "none", {"offset": 9}) | {"canary_hits": hits, "canary_offset": first}


def entry_plant(during: str, rejected: int) -> dict[str, Any]:
    """A change of an entry after which no file differed."""
    recovery = RECOVERY | {"entries": {"rejected": rejected}}
    return planted("entry", "none", {"during": during}, mode="rio", recovery=recovery)


def reset(corruption: str = "none", mode: str = "rio") -> dict[str, Any]:
    return {"fault_class": "none", "mode": mode, "corruption": corruption, "recovery": RECOVERY}


def astray(**changes: Any) -> dict[str, Any]:
    return reset() | {"recovery": RECOVERY | changes}


def filled(store: Store, *fields: dict[str, Any], spec: str = "") -> Results:
    classes = ["kernel_text"] if spec else ["none", "planted", "kernel_text"]
    return fill(store, *fields, modes=["rio", "delayed"], classes=classes, spec=spec)


@pytest.mark.parametrize(
    ("fields", "sentences"),
    [
        ([{}], []),
        ([{"corruption": "direct"}], []),
        ([reset(), reset("indirect", "delayed"), reset("none", "delayed")], []),
        ([plant("stray", "direct"), plant("entry", "direct"), plant("written", "indirect")], []),
        (
            [astray(production=up) for up in (True, False, True)],
            ["rio: the production kernel did not come up after 1 of 3 recoveries"],
        ),
        ([plant("entry", "indirect")], ["rio: 1 of 1 planted changes were found but wrongly classed"]),
        ([reset("none", "delayed")] * 2, ["delayed: none of 2 resets without a fault lost anything"]),
        ([reset(), reset("direct")], ["rio: 1 of 2 resets without a fault lost or changed a file"]),
        ([plant("stray", "none")], ["rio: 1 of 1 planted changes were not found"]),
        (
            [plant("stray", "indirect"), plant("written", "indirect")],
            ["rio: 1 of 2 planted changes were found"],
        ),
        ([reset("direct"), plant("written", "none")], ["rio: 1 of 1 resets", "rio: 1 of 1 planted"]),
        ([reset(), astray(**recovered(corrupt=1))], ["rio: 1 of 2 resets without a fault left a page"]),
        ([reset(), astray(entries={"rejected": 1}), astray(registry="damaged")], ["rio: 2 of 3 resets"]),
        ([reset(), astray(entries={"rejected": 0, "senseless": 2})], ["that makes no sense"]),
        ([reset(), astray(log={"inconsistent": 1})], ["that makes no sense"]),
        ([reset(), astray(entries={"duplicates": 2})], ["two dirty registry entries for one page"]),
        (
            [reset(), reset() | {"canary_hits": 1}],
            ["rio: 1 of 2 resets without a fault left a hit in the canary"],
        ),
        ([canary_plant(9), canary_plant(9, hits=2)], []),
        ([canary_plant(8), canary_plant(None, hits=0)], ["rio: 2 of 2 planted changes were not found"]),
        # Of what the step in flight was to write, a page may be missing. At rest it may not.
        ([entry_plant("step", 1), entry_plant("step", 0) | {"corruption": "direct"}], []),
        ([entry_plant("step", 0), entry_plant("rest", 1)], ["rio: 2 of 2 planted changes were not found"]),
        # What a guest that died by itself lost is no reset's doing.
        ([reset(), reset("direct") | {"outcome": "panic"}], ["rio: 1 of 2 guests without a fault crashed"]),
        # Where data is lost anyway, the check finds something after each change.
        ([plant("stray", "indirect", "delayed"), plant("written", "none", "delayed")], []),
    ],
)
def test_which_controls_failed(store: Store, fields: list[dict[str, Any]], sentences: list[str]) -> None:
    results = filled(store, *fields)
    found = failed_controls(results.rows, results.campaign.vocabulary)
    assert len(found) == len(sentences)
    assert all(said in sentence for said, sentence in zip(sentences, found, strict=True))


def test_a_mode_of_ones_own_may_lose_data(store: Store) -> None:
    own = "own_modes: {kept: {sync_writes: true}, gone: {sync_writes: true, filesystem: tmpfs}, late: {}}\n"
    rows = [reset("unclassified", mode) for mode in ("kept", "gone", "late")]
    results = filled(store, *rows, spec=own)
    (sentence,) = failed_controls(results.rows, results.campaign.vocabulary)
    assert "mode kept" in sentence


def test_after_a_loss_of_power_only_what_is_durable_must_be_there(store: Store) -> None:
    own = "restart: power\nown_modes: {kept: {sync_writes: true}, gone: {restores_memory: true}}\n"
    modes = ["write-through", "rio", "delayed", "kept", "gone"]
    noise = recovered(registry="damaged")
    lost = [reset("unclassified", mode=mode) | {"restart": "power", "recovery": noise} for mode in modes]
    results = fill(store, *lost, modes=modes, spec=own)
    sentences = failed_controls(results.rows, results.campaign.vocabulary)
    assert sentences == [
        f"Control failed in mode {mode}: 1 of 1 losses of power without a fault lost or changed a file."
        for mode in ("write-through", "kept")
    ]


@pytest.mark.parametrize(("corruption", "failed"), [("none", 0), ("unclassified", 1)])
def test_a_mode_that_is_judged_by_what_was_synced_may_lose_steps_and_no_more(
    store: Store, corruption: str, failed: int
) -> None:
    row = reset(corruption, mode="delayed") | {"steps_lost": 4, "promise": "synced"}
    results = filled(store, row, row)
    assert len(failed_controls(results.rows, results.campaign.vocabulary)) == failed


@pytest.mark.parametrize(("mode", "steps", "failed"), [("delayed", 4, 0), ("delayed", 0, 1), ("rio", 4, 1)])
def test_lost_steps_are_a_loss(store: Store, mode: str, steps: int, failed: int) -> None:
    results = filled(store, reset("none", mode=mode) | {"steps_lost": steps})
    assert len(failed_controls(results.rows, results.campaign.vocabulary)) == failed


ABOUT_FAULTS = [
    "corruption",
    "protocol",
    "outcomes",
    "wrong-checksum",
    "nvram",
    "severity",
    "exposure",
    "comparison",
    "noninferiority",
    "sensitivity",
    "survival",
    "faults",
    "activated",
    "titles",
    "stories",
    "oracles",
    "starts",
    "victims",
]


@pytest.mark.parametrize("table", CAMPAIGN_TABLES, ids=lambda table: table.name)
def test_every_table_about_faults_says_first_what_its_controls_say(
    invoke: Invoke, store: Store, path: Path, table: CampaignTable[Any]
) -> None:
    fault = {"requested": 1, "recovery": RECOVERY, "fresh_boot": True, "cache_share": 0.5}
    fault |= {"restart": "parked", "victim": "sh", "injection_guest_s": 2.0, "crash_guest_s": 3.0}
    fault |= {"complaints": 0, "promise": "synced"}
    others = [plant("written", "none"), {"mode": "delayed", "outcome": "survived", "phases": {"check": 1.0}}]
    others += [reset("direct", "delayed"), reset(mode="odd") | {"recovery": recovered(phase="data")}]
    panic = {"fault_class": "panic", "mode": "odd", "crash_title": PANICS["nmi"]}
    others.append(panic | {"recovery": recovered(log={}, production=True)})
    mounted = {"file_system": "xfs", "first_mount": {"error": 0}}
    others.append({"mode": "odd", "outcome": "survived", "recovery": recovered(**mounted)})
    others.append({"mode": "odd", "restart": "power"})
    bad = {"corruption": "direct", "files_lost": 1, "bytes_lost": 1, "total_loss": False}
    spec = "protocol: {claims: [{mode: rio, than: delayed}]}\nmachine: {nvdimm_mib: 64}"
    page = table.of(filled(store, fault, fault | bad, *others, {"mode": "delayed"}, spec=spec))
    failed, missing = "Control failed in mode rio: 1 of 1 planted", "have not run: class none in mode rio."
    for form in ("md", "latex", "html"):
        shown = invoke("table", table.name, "--store", path, "--format", form).stdout
        assert shown == render(page, form)
        if table.name in ABOUT_FAULTS:
            title = shown.index(page.grids[0].title, shown.index(missing))
            assert 0 < shown.index(failed) < shown.index(missing) < title
        else:
            assert failed not in shown and missing not in shown
    assert table.about_faults == (table.name in ABOUT_FAULTS)


def test_a_program_is_told_of_controls(store: Store) -> None:
    results = filled(store, {}, reset("direct"), plant("written", "none"))
    statistics = corruption_table(results).statistics
    assert len(statistics.failed_controls) == 2 and statistics.missing_controls == []


FAULTS = [{}, {"mode": "delayed"}, {"mode": "write-through", "outcome": "survived"}]
NONE, PLANTED = "class none in modes rio, delayed", "class planted in mode rio"


@pytest.mark.parametrize(
    ("fields", "spec", "said"),
    [
        ([], "", ""),
        ([reset(), plant("written", "none")], "", ""),
        ([{"outcome": "survived"}, {"outcome": "infra_error"}], "", ""),
        (FAULTS, "", f"{NONE}; {PLANTED}"),
        ([*FAULTS, reset(), reset("direct", "delayed")], "", PLANTED),
        ([*FAULTS, plant("stray", "direct")], "", NONE),
        ([*FAULTS, {"fault_class": "none", "outcome": "infra_error"}], "", f"{NONE}; {PLANTED}"),
        # A campaign that cannot plant, or shall not.
        (FAULTS, "controls: {none: 0.1}", NONE),
        (FAULTS, "controls: {none: 0.1, planted: 0}", NONE),
        (FAULTS, "controls: null", NONE),
        (FAULTS, "controls: {planted: 0.1}", f"{NONE}; {PLANTED}"),
        # A crash that does not count needs no control.
        ([{"recovery": recovered(phase="done")}], "", ""),
    ],
)
def test_which_controls_are_missing(store: Store, fields: list[dict[str, Any]], spec: str, said: str) -> None:
    found = missing_controls(filled(store, *fields, spec=spec))
    assert found == ([f"Controls that have not run: {said}."] if said else [])
