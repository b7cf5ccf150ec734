# SPDX-License-Identifier: Apache-2.0
"""The trials of a campaign as an Arrow table or a Parquet file: `campaign`, columns, what follows, `faults`.

`faults` is a list of structs, what follows are lists of names. Columns that are JSON in the store are JSON
text here, null where there is no value.
"""

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from riobed_results.export.follows import FOLLOWS, follows
from riobed_results.store import Base, FaultRow, Results, TrialRow, values
from riobed_results.store.base import columns

if TYPE_CHECKING:
    import pyarrow as pa

_GROUP = 1000  # trials in a row group of Parquet


def trials_table(results: Results) -> "pa.Table":
    """Return the trials of a campaign, one row each; pandas, polars and pyarrow take the table as it is."""
    import pyarrow as pa

    return pa.Table.from_batches(_batches(results.campaign.name, results.stream()), schema=_schema())


def trials_parquet(campaign: str, rows: Iterable[TrialRow], path: Path) -> None:
    """Write a Parquet file, one row per trial."""
    import pyarrow.parquet as pq

    with pq.ParquetWriter(path, _schema(), compression="zstd") as file:
        for batch in _batches(campaign, rows):
            file.write_batch(batch)


def _batches(campaign: str, rows: Iterable[TrialRow]) -> Iterator["pa.RecordBatch"]:
    import pyarrow as pa

    left, schema = iter(rows), _schema()
    while some := list(islice(left, _GROUP)):
        yield pa.RecordBatch.from_pylist([_whole(campaign, row) for row in some], schema=schema)


def _schema() -> "pa.Schema":
    import pyarrow as pa

    names = [pa.field(name, pa.list_(pa.string())) for name in FOLLOWS]
    faults = pa.field("faults", pa.list_(pa.struct(_fields(FaultRow))))
    return pa.schema([pa.field("campaign", pa.string()), *_fields(TrialRow), *names, faults])


def _whole(campaign: str, row: TrialRow) -> dict[str, Any]:
    faults = [_values(fault) for fault in row.faults]
    return {"campaign": campaign} | _values(row) | follows(row) | {"faults": faults}


def _fields(model: type[Base]) -> list[Any]:
    import pyarrow as pa

    types = {int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    return [
        pa.field(column.name, types.get(column.type.python_type, pa.string())) for column in columns(model)
    ]


def _values(row: Base) -> dict[str, Any]:
    return {
        name: json.dumps(value) if isinstance(value, dict) else value for name, value in values(row).items()
    }
