# SPDX-License-Identifier: Apache-2.0
"""Export the rows of a campaign, for analyses outside riobed.

An export also has what follows from a row by riobed's definitions, so that no reader needs riobed for it.
"""

import json
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

from riobed_results.store.base import Base, columns, values
from riobed_results.store.definitions import corrupted_by, counted_by
from riobed_results.store.oracles import oracles
from riobed_results.store.trial import FaultRow, TrialRow

_GROUP = 1000  # trials in a row group of Parquet
_FOLLOWS = {"oracles": oracles, "counted_by": counted_by, "corrupted_by": corrupted_by}


def follows(row: TrialRow) -> dict[str, list[str]]:
    """Return which oracles found something, which definitions count the row, and by which it is a hit."""
    return {name: of(row) for name, of in _FOLLOWS.items()}


def trials_parquet(campaign: str, rows: Iterable[TrialRow], path: Path) -> None:
    """Write a Parquet file, one row per trial: `campaign`, every column, what `follows`, and `faults`.

    `faults` is a list of structs, what follows are lists of names.

    Columns that are JSON in the store are JSON text here, null where there is no value.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    faults = pa.list_(pa.struct(_fields(FaultRow)))
    names = [pa.field(name, pa.list_(pa.string())) for name in _FOLLOWS]
    schema = pa.schema(
        [pa.field("campaign", pa.string()), *_fields(TrialRow), *names, pa.field("faults", faults)]
    )
    left = iter(rows)
    with pq.ParquetWriter(path, schema, compression="zstd") as file:
        while some := list(islice(left, _GROUP)):
            file.write_table(pa.Table.from_pylist([_whole(campaign, row) for row in some], schema=schema))


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
