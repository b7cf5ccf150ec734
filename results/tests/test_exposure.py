# SPDX-License-Identifier: Apache-2.0
"""The table exposure: corruption against the share of RAM that the file cache had."""

from typing import Any

import pytest
from publishing.claims.crashes import doses
from results_builders import fill, recovered
from riobed_results.errors import StoreError
from riobed_results.stats.proportions import share_of
from riobed_results.store.store import Store
from riobed_results.tables.corruption.exposure import ALL, EXPOSURE, Exposure, exposure_table
from riobed_results.tables.framework.render import render

MODES = ["rio-3pct", "rio-60pct", "write-through"]
SPEC = "own_modes: {rio-3pct: {cache_share: 0.03}, rio-60pct: {cache_share: 0.6}}\n"


def run(mode: str, share: float | None, corruption: str = "none", **fields: Any) -> dict[str, Any]:
    sums = recovered() if mode != "write-through" else recovered(checksums=None)
    base = {"mode": mode, "cache_share": share, "dirty_share": share and share / 2, "corruption": corruption}
    return base | {"fault_class": "copy_overrun", "recovery": sums} | fields


def test_corruption_against_exposure(store: Store) -> None:
    rows = [
        run("rio-3pct", 0.04),
        run("rio-3pct", 0.03, "indirect", outcome="survived"),
        run("rio-60pct", 0.61, "direct"),
        run("rio-60pct", 0.63, "direct", fault_class="kernel_heap", outcome="stuck"),
        run("rio-60pct", 0.65, fault_class="kernel_heap"),
        run("write-through", 0.30, "unclassified"),
        # None of these are runs with faults of which the share is known.
        run("rio-3pct", None, "direct"),
        run("rio-3pct", 0.9, "direct", fault_class="planted"),
        run("rio-3pct", 0.9, "direct", recovery=recovered(phase="done")),
        run("rio-3pct", 0.9, None, outcome="infra_error"),  # type: ignore[arg-type]
    ]
    results = fill(store, *rows, modes=MODES, classes=["copy_overrun", "kernel_heap"], spec=SPEC)
    table = exposure_table(results)
    lines = {(line.fault_class, line.mode): line for line in table.lines}

    def counted(line: Exposure) -> tuple[int, ...]:
        return (
            line.runs,
            line.crashes,
            line.wrong_checksum.count,
            line.wrong_checksum.total,
            line.corrupted.count,
        )

    assert [line.mode for line in table.lines if line.fault_class == ALL] == MODES
    assert counted(lines[ALL, "rio-3pct"]) == (2, 1, 0, 2, 1)
    assert counted(lines[ALL, "rio-60pct"]) == (3, 2, 2, 3, 2)
    assert counted(lines["kernel_heap", "rio-60pct"]) == (2, 1, 1, 2, 1)
    assert counted(lines[ALL, "write-through"]) == (1, 1, 0, 0, 1)
    full = lines[ALL, "rio-60pct"]
    assert (full.arm, full.target, full.cache, full.dirty) == ("rio", 0.6, (0.61, 0.63, 0.65), 0.315)
    assert full.wrong_checksum.share == share_of(2, 3) and ("kernel_heap", "rio-3pct") not in lines
    assert lines[ALL, "write-through"].arm == "write-through"
    page = render(EXPOSURE.page(table), "md")
    assert "| rio-60pct | 3 | 2 | 63.0 (61.0 to 65.0) | 31.5 | 2 of 3 (66.7 %) |" in page
    assert "| write-through | 1 | 1 | 30.0 (30.0 to 30.0) | 15.0 | - | - | 1 of 1" in page
    claims = {claim.key: claim.text for claim in doses(results)}
    assert claims["exposure_all_rio_60pct_direct"] == "2 of 3 (66.7 %)"
    assert claims["exposure_kernel_heap_rio_60pct_cache"] == "64.0 %"


def test_a_store_that_does_not_know_shares_has_no_such_table(store: Store) -> None:
    results = fill(store, run("rio-3pct", None))
    assert not EXPOSURE.present(results.rows)
    with pytest.raises(StoreError, match="share of RAM is known"):
        exposure_table(results)
