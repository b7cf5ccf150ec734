# SPDX-License-Identifier: Apache-2.0
"""A soak's file and table: what counts as good, what is shown, what is refused."""

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from results_builders import campaign, recovery
from riobed_results.errors import StoreError
from riobed_results.tables.controls.soak import (
    Soak,
    SoakProvenance,
    SoakRow,
    load_soak,
    save_soak,
    soak_page,
    verdict,
)

GOOD: dict[str, Any] = {
    **{"stressor": "tar", "what": "a tree packed", "seconds": 61.4, "status": 0, "files": 500},
    **dict.fromkeys(("traps", "mismatches", "recovery_mismatches", "files_different"), 0),
    "recovery": recovery(data={"pages": 40}, metadata={"written": 2}),
    "finished": "2026-01-02T03:04:09.000+00:00",
}


def row(**fields: Any) -> SoakRow:
    return SoakRow.model_validate(GOOD | fields)


def soak(*rows: SoakRow) -> Soak:
    on = campaign().provenance.model_dump() | {"mode": "rio-protected", "minutes": 60, "suite": "stress"}
    environment = SoakProvenance.model_validate(on | {"memory_mib": 512, "disk_mib": 1024, "vcpus": 2})
    return Soak(environment=environment, rows=list(rows))


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({}, "good"),
        ({"traps": None, "mismatches": None, "recovery_mismatches": None}, "good"),
        ({"crash": "protection trap in ext4_x", "traps": 1, "files": None}, "protection trap in ext4_x"),
        ({"mismatches": 1}, "checksum mismatch"),
        ({"recovery_mismatches": 1}, "checksum mismatch"),
        ({"files_different": 1}, "files differ"),
        ({"complaints": ["WARNING: x"]}, "kernel complained"),
        ({"status": 2}, "stressor failed"),
        ({"recovery_error": "no stage 0", "files": None}, "no recovery"),
        ({"files": None, "files_different": None}, "not compared"),
        ({"traps": 3}, "protection trap"),
        ({"infra_error": "agent lost"}, "infra error"),
    ],
)
def test_what_counts_as_good(fields: dict[str, Any], says: str) -> None:
    assert verdict(row(**fields)) == says
    assert row(**fields).good == (says == "good")


def test_the_table() -> None:
    page = soak_page(
        soak(row(), row(stressor="fio", mismatches=None, recovery=None, files_different=3, resets=7))
    )
    (grid,) = page.grids
    assert grid.body == [
        ["tar", "61", "0", "0", "0", "0", "42", "500", "0", "-", "good"],
        ["fio", "61", "0", "0", "-", "0", "-", "500", "3", "7", "files differ"],
    ]
    assert grid.foot == [["Total", "123", "", "0", "0", "0", "42", "1000", "3", "7", "1 of 2 good"]]
    for part in ("mode rio-protected", "2 CPUs", "seed 7", "0123abcd", "accelerator tcg"):
        assert part in page.source
    lines = list(csv.DictReader(io.StringIO(page.csv)))
    assert [(line["stressor"], line["files_different"]) for line in lines] == [("tar", "0"), ("fio", "3")]
    assert {len(line) for line in [grid.head, *grid.body, *grid.foot]} == {11}


def test_a_soak_that_has_not_begun_is_a_table_as_well() -> None:
    assert soak_page(soak()).grids[0].foot == [["Total", "0", "", *["-"] * 7, "0 of 0 good"]]


def test_it_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    saved = soak(row(), row(stressor="fio", different=["'./a': missing"], stats={"traps": 0}))
    save_soak(tmp_path / "new" / "folder", saved)
    assert load_soak(tmp_path / "new" / "folder") == saved
    assert [path.name for path in (tmp_path / "new" / "folder").iterdir()] == ["soak.json"]


@pytest.mark.parametrize(
    ("text", "says"),
    [(None, "No such file"), ("{", "file: Invalid JSON"), ("{}", "environment: Field required")],
)
def test_what_is_no_soak(tmp_path: Path, text: str | None, says: str) -> None:
    if text is not None:
        (tmp_path / "soak.json").write_text(text)
    with pytest.raises(StoreError) as caught:
        load_soak(tmp_path)
    assert str(caught.value).startswith(f"soak {tmp_path}/soak.json: {says}")
    assert "\n" not in str(caught.value)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="Not a directory"):
        save_soak(tmp_path / "file" / "below", soak())
