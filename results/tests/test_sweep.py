# SPDX-License-Identifier: Apache-2.0
"""A sweep's file and table: what counts as good, what is shown, what is refused."""

from pathlib import Path
from typing import Any

import pytest
from publishing.claims.folder import folder_claims
from results_builders import campaign
from riobed_results.errors import StoreError
from riobed_results.tables.controls.sweep import (
    FILE,
    Sweep,
    SweepProvenance,
    SweepRow,
    load_sweep,
    save_sweep,
    sweep_page,
    verdict,
)

GOOD: dict[str, Any] = {
    **{"operation": "rename", "data": "disk", "beside": "nothing", "vcpus": 1},
    **{"points": 140, "compared": 52, "seconds": 6.5, "finished": "2026-01-02T03:04:09.000+00:00"},
}


def row(**fields: Any) -> SweepRow:
    return SweepRow.model_validate(GOOD | fields)


def sweep(*rows: SweepRow) -> Sweep:
    on = campaign().provenance.model_dump() | {"mode": "rio", "copy_step": 64}
    environment = SweepProvenance.model_validate(on | {"memory_mib": 256, "disk_mib": 64})
    return Sweep(environment=environment, rows=list(rows))


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({}, "good"),
        ({"unexplained": 2, "said": ["point 7: /it/a: missing"]}, "point 7: /it/a: missing"),
        ({"compared": 0}, "nothing compared"),
        ({"infra_error": "agent lost"}, "infra error"),
    ],
)
def test_what_counts_as_good(fields: dict[str, Any], says: str) -> None:
    assert verdict([row(), row(**fields)]) == says
    assert row(**fields).good == (says == "good")


def test_a_line_sums_an_operations_cases(tmp_path: Path) -> None:
    torn = row(data="newer", unexplained=1, said=["point 3: /it/b: extra"])
    rows = [row(), torn, row(operation="link"), row(recovery=True, points=70, compared=70)]
    (tmp_path / "rio").mkdir()
    save_sweep(tmp_path / "rio", sweep(*rows))
    page = sweep_page(load_sweep(tmp_path / "rio"))
    assert page.grids[0].body == [
        ["rename", "2", "280", "104", "1", "point 3: /it/b: extra"],
        ["link", "1", "140", "52", "0", "good"],
    ]
    assert page.grids[1].body == [["rename", "1", "70", "70", "0", "good"]]
    claims = {claim.key: claim.value for claim in folder_claims(tmp_path)}
    assert claims == {
        f"{name}{key}": value
        for name in ("", "rio_")
        for key, value in {
            **{"operations": 2, "crash_points": 420, "compared": 156, "unexplained": 1},
            **{"recovery_crash_points": 70, "recovery_compared": 70, "recovery_unexplained": 0},
        }.items()
    }


def test_what_is_no_sweep_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="give the folder of a sweep"):
        load_sweep(tmp_path)
    (tmp_path / FILE).write_text('{"rows": []}')
    with pytest.raises(StoreError, match="environment: Field required; restore it from a copy"):
        load_sweep(tmp_path)
