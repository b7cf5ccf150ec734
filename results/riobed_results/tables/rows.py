# SPDX-License-Identifier: Apache-2.0
"""Any table by its name, as rows for programs."""

import io
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


def _arrow(csv: str) -> "pa.Table":
    from pyarrow.csv import ConvertOptions, ParseOptions, read_csv

    return read_csv(
        io.BytesIO(csv.encode()),
        parse_options=ParseOptions(newlines_in_values=True),
        convert_options=ConvertOptions(null_values=[""], strings_can_be_null=True),
    )
