# SPDX-License-Identifier: Apache-2.0
"""riobed_results: store, queries, tables and report of riobed campaigns; it needs no machine.

The names below are the public face, for notebooks and programs of one's own (docs/notebook.md):

    from riobed_results import open_store, read_results, table, trials_table

    results = read_results(open_store("results/published/instrument"))
    trials = trials_table(results)  # an Arrow table: trials.to_pandas(), polars.from_arrow(trials)
    rates = table(results, "sensitivity").to_pylist()
"""

from typing import TYPE_CHECKING

from riobed_results.face import face

if TYPE_CHECKING:
    from riobed_results.errors import StoreError as StoreError
    from riobed_results.errors import StoreUsageError as StoreUsageError
    from riobed_results.export.arrow import trials_table as trials_table
    from riobed_results.store import Results as Results
    from riobed_results.store import Store as Store
    from riobed_results.store import open_store as open_store
    from riobed_results.store import read_results as read_results
    from riobed_results.tables.rows import table as table
    from riobed_results.tables.rows import table_names as table_names

_HOME = {
    "riobed_results.errors": "StoreError StoreUsageError",
    "riobed_results.export.arrow": "trials_table",
    "riobed_results.store": "Results Store open_store read_results",
    "riobed_results.tables.rows": "table table_names",
}
__getattr__, __dir__, __all__ = face(__name__, _HOME)
