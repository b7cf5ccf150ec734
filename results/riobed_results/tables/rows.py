# SPDX-License-Identifier: Apache-2.0
"""Any table by its name, as rows for programs."""

import csv
import io
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from riobed_results.errors import StoreUsageError
from riobed_results.store import Results
from riobed_results.tables.framework.table import CampaignTable, FolderTable, Table
from riobed_results.tables.registry import CAMPAIGN_TABLES, FOLDER_TABLES, RUN_TABLES

if TYPE_CHECKING:
    import pyarrow as pa

AnyTable = TypeVar("AnyTable", bound=Table[Any])
_CAMPAIGN: dict[str, CampaignTable[Any]] = {each.name: each for each in (*CAMPAIGN_TABLES, *RUN_TABLES)}
_FOLDER: dict[str, FolderTable[Any]] = {each.name: each for each in FOLDER_TABLES}


def table(source: Results | Path, name: str, **options: Any) -> "pa.Table":
    """Compute a table of a campaign or, for the tables of folders, of a Path; return its CSV form as Arrow.

    `options` are those of the command `riobed table NAME`. Raises StoreUsageError for a name or option that
    the source has not, StoreError if there is nothing to show.
    """
    if isinstance(source, Path):
        return _arrow(_found(_FOLDER, name, options).of(source, **options).csv)
    return _arrow(_found(_CAMPAIGN, name, options).of(source, **options).csv)


def table_names(source: Results | Path) -> list[str]:
    """Return the names of the tables that such a source can have, whether it has content for them or not."""
    return list(_FOLDER if isinstance(source, Path) else _CAMPAIGN)


def _found(tables: dict[str, AnyTable], name: str, options: dict[str, Any]) -> AnyTable:
    if name not in tables:
        raise StoreUsageError(f"table {name!r}: want one of {', '.join(tables)}")
    known = [parameter.name for parameter in tables[name].options]
    if unknown := options.keys() - set(known):
        raise StoreUsageError(
            f"table {name}: no option {min(unknown)!r}; it has: {', '.join(known) or 'none'}"
        )
    return tables[name]


def _arrow(text: str) -> "pa.Table":
    """Return a CSV text as Arrow, with the narrowest type that fits each column; an empty cell is null.

    pyarrow.csv.read_csv would leave a handler of forks behind. It aborts the process that libvirt's embedded
    driver forks to start QEMU (SignalStopState in arrow/util/cancel.cc).
    """
    import pyarrow as pa

    head, *lines = csv.reader(io.StringIO(text))
    cells = list(zip(*lines, strict=True)) if lines else [()] * len(head)
    return pa.table({name: _typed(column) for name, column in zip(head, cells, strict=True)})


def _typed(column: Sequence[str]) -> list[Any]:
    for kind in (int, float, _truth):
        with suppress(ValueError, KeyError):
            return [kind(cell) if cell else None for cell in column]
    return [cell or None for cell in column]


def _truth(cell: str) -> bool:
    return {"True": True, "False": False}[cell]
