# SPDX-License-Identifier: Apache-2.0
"""The table of machines with an NVDIMM: each kind of crash by itself, and nothing that was planted."""

from typing import Any

import pytest
from publishing.claims.nvdimm import nvdimm
from results_builders import fill, planted, recovered
from riobed_results.errors import StoreError
from riobed_results.store.queries import Results
from riobed_results.store.store import Store
from riobed_results.store.trial import PANICS
from riobed_results.tables.nvdimm.nvram import NVRAM, nvram_table
from riobed_results.tables.registry import campaign_pages

MACHINE = "machine: {nvdimm_mib: 80, canary_mib: 16}\n"
UNKEPT = {"recovery": recovered(checksums=None)}
POWER = UNKEPT | {"restart": "power"}
BAD = {"corruption": "unclassified"}


def filled(store: Store, *rows: dict[str, Any], spec: str = MACHINE) -> Results:
    return fill(store, *rows, modes=["delayed", "dax"], spec=spec)


def dax(**fields: Any) -> dict[str, Any]:
    return UNKEPT | {"mode": "dax", "canary_hits": 0} | fields


def test_each_kind_of_crash_is_a_line(store: Store) -> None:
    hit = {"canary_hits": 3, "canary_offset": 1 << 26}
    rows = [
        dax(),
        dax(**hit),
        dax(**hit, corruption="direct", outcome="stuck"),
        dax(**BAD, restart="parked"),
        dax(corruption="indirect", outcome="hang"),
        dax(crash_kind="trap"),
        dax(fault_class="none"),
        dax(fault_class="panic", crash_title=PANICS["nmi"]),
        dax(**BAD, restart="power"),
        dax(restart="power-lines", lines_open=12, lines_lost=5, unknown_flushes=1),
        dax(restart="power-lines", lines_open=2, lines_lost=0, unknown_flushes=0),
        # None of these is a judged run without a change of ours.
        dax(outcome="infra_error"),
        dax(recovery=recovered(phase="done")),
        planted("canary", "none", {"offset": 1 << 26}, mode="dax", **hit),
        POWER | {"mode": "delayed", "steps_lost": 2, "seconds_lost": 0.25, "steps_done": 9},
        POWER | {"mode": "delayed", "steps_lost": 0, "steps_done": 9},
        POWER | {"mode": "delayed", "steps_lost": 9, "steps_done": 9},
        POWER | BAD | {"mode": "delayed"},
    ]
    lines = {(line.mode, line.crash, line.faults): line for line in nvram_table(filled(store, *rows)).lines}
    assert list(lines) == [
        ("delayed", "power", True), ("dax", "reset", False), ("dax", "reset", True), ("dax", "power", True),
        ("dax", "power-lines", True),
    ]  # fmt: skip
    line = lines["dax", "reset", True]
    assert (line.runs, line.corrupted, line.wrong_checksum, line.right_checksums, line.unclassified) == (
        6,
        3,
        1,
        1,
        1,
    )
    assert (line.canary, line.canary_hit, line.hit_alone, line.steps_lost_most) == (6, 2, 1, None)
    # scipy.stats.beta.ppf(0.025, k, 6 - k + 1) and ppf(0.975, k + 1, 6 - k), by hand.
    assert (line.share.low, line.wrong_checksum_share.low) == pytest.approx((0.118, 0.0042), abs=0.001)
    assert (line.hit_share.low, line.hit_share.high, line.trapped) == pytest.approx(
        (0.043, 0.777, 1), abs=0.001
    )
    sound = lines["dax", "reset", False]
    assert (sound.runs, sound.corrupted, sound.canary_hit) == (2, 0, 0)
    line = lines["dax", "power-lines", True]
    assert (line.lines_open_median, line.lines_lost_median, line.unknown_flushes) == (7, 2.5, 1)
    late = lines["delayed", "power", True]
    assert (late.runs, late.corrupted, late.lost_steps, late.canary) == (4, 1, 2, 0)
    assert (late.steps_lost_median, late.steps_lost_most, late.seconds_lost_most) == (2, 9, 0.25)


def test_each_fault_class_is_a_cell_of_each_mode(store: Store) -> None:
    pointer = {"fault_class": "pointer"}
    results = fill(
        store,
        *(
            dax(**pointer, **fields)
            for fields in ({}, BAD, {"outcome": "survived"}, BAD | {"restart": "power"})
        ),
        dax(),
        dax(fault_class="none"),
        UNKEPT | pointer | BAD | {"mode": "delayed"},
        modes=["delayed", "dax"],
        classes=["none", "pointer"],
        spec=MACHINE,
    )
    by_class = {grid.title: [grid.head, *grid.body] for grid in NVRAM.of(results).grids[1:]}
    assert by_class == {
        "Corrupted by fault class, reset": [
            ["Fault class", "delayed", "dax"],
            ["pointer", "1 of 1", "1 of 3"],
            ["kernel_text", "-", "0 of 1"],
        ],
        "Corrupted by fault class, power": [["Fault class", "dax"], ["pointer", "1 of 1"]],
    }
    claims = {claim.key: claim.text for claim in nvdimm(results)}
    assert claims["nvram_dax_reset_pointer"] == "1 of 3"
    # Nothing was injected there.
    assert "nvram_dax_reset_none" not in claims


def test_what_nobody_could_count_is_no_zero(store: Store) -> None:
    page = NVRAM.of(filled(store, dax(**BAD), POWER | {"mode": "delayed", "steps_lost": 1}))
    body = {line[0]: line[1:] for line in page.grids[0].body}
    assert body["dax"][2:] == [
        "1 of 1 (100.0 %)",
        "2.5 to 100.0 %",
        "0",
        "0.0 to 97.5 %",
        "0",
        "1",
        "0 of 1",
        "0.0 to 97.5 %",
        "0",
        "0",
        "0",
        *"-------",
    ]
    assert body["delayed"][-12:] == [*"---0111-----"]


@pytest.mark.parametrize("spec", ["", "machine: {nvdimm_mib: 0}\n", "machine: 3\n"])
def test_a_campaign_without_an_nvdimm_has_no_such_table(store: Store, spec: str) -> None:
    results = filled(store, dax(), spec=spec)
    assert "nvram" not in campaign_pages(results)
    with pytest.raises(StoreError, match="no judged runs of machines with an NVDIMM"):
        nvram_table(results)


def test_a_campaign_with_one_has_it(store: Store) -> None:
    assert "nvram" in campaign_pages(filled(store, dax()))
