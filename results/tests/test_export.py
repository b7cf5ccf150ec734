# SPDX-License-Identifier: Apache-2.0
"""Parquet has what JSON has."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from results_builders import Invoke, faults, fill, planted
from riobed_results.errors import StoreUsageError
from riobed_results.export import arrow, listing
from riobed_results.export.listing import trials_json
from riobed_results.rules.explained import explained_by
from riobed_results.rules.oracles import oracles
from riobed_results.store import queries
from riobed_results.store.queries import read_results
from riobed_results.store.store import Store, open_store
from riobed_results.store.trial import FaultRow, TrialRow
from riobed_results.tables.corruption.rates import sensitivity, wrong_checksum

JSON_COLUMNS = {"recovery", "check", "phases"}


def as_json(row: dict[str, Any], columns: set[str]) -> dict[str, Any]:
    return {
        name: json.loads(value) if name in columns and value is not None else value
        for name, value in row.items()
    }


def test_every_column_of_every_row_comes_back(invoke: Invoke, store: Store, path: Path) -> None:
    check = {"equal": True, "deep": [{"a": None}]}
    fill(
        store,
        {"outcome": "infra_error", "detail": "nul \0, surrogate \ud800, ünï"},
        {"position": 0, "attempt": 2, "faults": faults(3), "injected": 3, "check": check, "fresh_boot": True},
        {"outcome": "survived", "time_to_crash_s": None, "phases": {"watch": 15.0}},
    )
    output = path.with_name("trials.parquet")
    result = invoke("trials", "--store", path, "--format", "parquet", "--output", output)
    assert (result.exit_code, result.stdout) == (0, "")
    read = [as_json(row, JSON_COLUMNS) for row in pq.read_table(output).to_pylist()]
    for row in read:
        row["faults"] = [as_json(fault, {"params"}) for fault in row["faults"]]
    assert read == json.loads(invoke("trials", "--store", path, "--format", "json").stdout)
    follows = {"oracles", "endpoints", "endpoints_hit", "explained_by"}
    assert set(read[0]) == {c.key for c in TrialRow.__table__.columns} | follows | {"campaign", "faults"}
    assert set(read[1]["faults"][0]) == {c.key for c in FaultRow.__table__.columns}


@pytest.mark.parametrize("form", ["text", "json", "parquet"])
def test_a_list_that_is_read_in_parts_is_that_of_a_whole(
    invoke: Invoke, store: Store, path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    every: list[dict[str, Any]] = [{"position": number, "faults": faults(2)} for number in range(7)]
    every[4] |= {"corruption": "indirect", "corruption_where": "disk"}
    fill(store, *every)
    lists = []
    for part in (1000, 3, 7):
        for place in (queries, arrow, listing):
            for name in ("_ROWS_AT_ONCE", "_GROUP", "_AT_ONCE"):
                monkeypatch.setattr(place, name, part, raising=False)
        output = path.with_name(f"trials-{part}")
        invoke("trials", "--store", path, "--format", form, "--output", output)
        lists.append(pq.read_table(output) if form == "parquet" else output.read_text())
    assert lists[0] == lists[1] == lists[2]


def test_types_do_not_depend_on_the_rows(invoke: Invoke, store: Store, path: Path) -> None:
    """Files of two campaigns can be read as one."""
    fill(store, {"outcome": "survived"}, name="bare")
    fill(store, {"faults": faults(2), "time_to_crash_s": 1.0}, name="full")
    schemas = []
    for name in ("bare", "full"):
        output = path.with_name(f"{name}.parquet")
        invoke("trials", "--store", path, "--campaign", name, "--format", "parquet", "--output", output)
        schemas.append(pq.read_schema(output))
    assert schemas[0] == schemas[1]
    assert str(schemas[0].field("time_to_crash_s").type) == "double"


def test_a_terminal_gets_no_parquet(invoke: Invoke, store: Store, path: Path) -> None:
    fill(store, {})
    result = invoke("trials", "--store", path, "--format", "parquet")
    assert isinstance(result.exception, StoreUsageError) and "--output" in str(result.exception)


@pytest.mark.parametrize("name", ["copy-overrun", "quick"])
def test_an_export_counts_as_the_tables_do(name: str) -> None:
    """Whoever has the arrow needs no definition of ours to compute the table of sensitivity."""
    results = read_results(open_store(str(Path(__file__).parents[1] / "published" / name)))
    rows = json.loads("".join(trials_json(name, results.rows)))
    for table in (sensitivity(results), wrong_checksum(results)):
        for rate in table.rates:
            for mode, cell in rate.cells.items():
                mine = [row for row in rows if row["mode"] == mode and rate.name in row["endpoints"]]
                hits = sum(rate.name in row["endpoints_hit"] for row in mine)
                assert (len(mine), hits) == (cell.total, cell.count), (rate.name, mode)


def test_stores_of_published_overruns_explain_what_an_audit_matched() -> None:
    """It matched 35 of exposure's 81 by place and length; nearly all of the others are lost names."""
    results = read_results(open_store(str(Path(__file__).parents[1] / "published/exposure")))
    rows = [row for row in results.rows if row.fault_class == "copy_overrun" and row.corruption == "indirect"]
    assert (len(rows), sum(bool(explained_by(row)) for row in rows)) == (81, 34)


DAMAGED = {"checksums": {"intact": 9, "corrupt": 1, "changing": 0}, "entries": {"rejected": 1}}
NO_MOUNT = {"registry": "damaged", "e2fsck_status": 12, "mount_error": 22}
TRAP: dict[str, Any] = {"crash_kind": "trap", "workload_mismatch": True, "recovery": {"e2fsck_status": 1}}
MOUNTED = {"error": 0, "without_log": None, "repair_status": None}
SPOILED = {"error": 117, "without_log": True, "repair_status": 0}
BESIDE = {"equal": True, "beside": [{"equal": False, "workload": "andrew"}]}


def report(file_system: str | None, status: int, first: dict[str, Any] | None = None) -> dict[str, Any]:
    first = None if file_system in (None, "ext4") else first or MOUNTED
    return {"file_system": file_system, "first_mount": first, "e2fsck_status": status, "mount_error": 0}


# Exit statuses of a check, and what they say; the last are of a report that does not name the file system.
STATUSES: list[tuple[str | None, int, list[str]]] = [
    *(("ext4", status, []) for status in (0, 1, 2)),
    *(("ext4", status, ["fsck"]) for status in (4, 5, 8, 12)),
    *(("xfs", status, ["fsck"] if status > 0 else []) for status in (-1, 0, 1, 2)),
    *(("btrfs", status, ["fsck"] if status else []) for status in (0, 1, 255)),
    *(("f2fs", status, ["fsck"] if status else []) for status in (0, 1, 4, 8)),
    ("tmpfs", -1, []),
    ("a newer one", 1, []),
    (None, 1, []),
    (None, 4, ["fsck"]),
]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, []),
        ({"corruption": "unclassified"}, ["recovery"]),
        ({"corruption": "direct", "check": {}, "recovery": DAMAGED}, ["check", "checksums", "registry"]),
        ({"corruption": "indirect", "check": BESIDE, "recovery": {}}, ["check:andrew"]),
        ({"recovery": NO_MOUNT}, ["mount", "registry", "fsck"]),
        (TRAP, ["trap", "read"]),
        (planted("block", "indirect", {"e2fsck": True}, recovery={}), ["fsck"]),
        *(({"recovery": report(name, status)}, said) for name, status, said in STATUSES),
        ({"recovery": report("xfs", -1, SPOILED)}, ["first-mount"]),
        ({"recovery": report("xfs", -1, SPOILED) | {"mount_error": 5}}, ["mount", "first-mount"]),
    ],
)
def test_which_oracles_found_something(store: Store, fields: dict[str, Any], said: list[str]) -> None:
    (row,) = fill(store, fields).rows
    assert oracles(row) == said
