# SPDX-License-Identifier: Apache-2.0
"""Parquet has what JSON has."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from results_builders import Invoke, faults, fill
from riobed_results.errors import StoreUsageError
from riobed_results.store.models import FaultRow, TrialRow
from riobed_results.store.store import Store

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
    assert set(read[0]) == {c.key for c in TrialRow.__table__.columns} | {"campaign", "faults"}
    assert set(read[1]["faults"][0]) == {c.key for c in FaultRow.__table__.columns}


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
