# SPDX-License-Identifier: Apache-2.0
"""Store: the rows of campaigns, the files beside them, and the queries on both.

May import errors only.
"""

from riobed_results.store.check_report import CheckReport, Difference
from riobed_results.store.export import trials_parquet
from riobed_results.store.jsonl import add_line, read_lines
from riobed_results.store.location import DEFAULT_STORE, REPORT_FILE, STORE_FILE, locate
from riobed_results.store.lock import locked
from riobed_results.store.logs import ARCHIVE, Links, Logs, label, pack
from riobed_results.store.models import (
    CampaignRow,
    Corruption,
    CorruptionWhere,
    CrashKind,
    FaultRow,
    TrialRow,
    utc_now,
    values,
)
from riobed_results.store.provenance import CAMPAIGN, KERNEL, SERIES, WORKER, KernelProvenance, Provenance
from riobed_results.store.queries import (
    PANICS,
    Counts,
    CrashesBySeed,
    Results,
    cell_counts,
    counted,
    crashes_by_seed,
    in_order,
    kernels,
    read_results,
    result_at,
    stored_spec,
    trial_rows,
    vcpus,
)
from riobed_results.store.recovery_report import (
    ENDED,
    Interruption,
    Mismatch,
    RecoveryReport,
    counts,
    cut_short,
    is_direct,
)
from riobed_results.store.store import Store, open_store, try_store

__all__ = [
    "ARCHIVE",
    "CAMPAIGN",
    "DEFAULT_STORE",
    "ENDED",
    "KERNEL",
    "PANICS",
    "REPORT_FILE",
    "SERIES",
    "STORE_FILE",
    "WORKER",
    "CampaignRow",
    "CheckReport",
    "Corruption",
    "CorruptionWhere",
    "Counts",
    "CrashKind",
    "CrashesBySeed",
    "Difference",
    "FaultRow",
    "Interruption",
    "KernelProvenance",
    "Links",
    "Logs",
    "Mismatch",
    "Provenance",
    "RecoveryReport",
    "Results",
    "Store",
    "TrialRow",
    "add_line",
    "cell_counts",
    "counted",
    "counts",
    "crashes_by_seed",
    "cut_short",
    "in_order",
    "is_direct",
    "kernels",
    "label",
    "locate",
    "locked",
    "open_store",
    "pack",
    "read_lines",
    "read_results",
    "result_at",
    "stored_spec",
    "trial_rows",
    "trials_parquet",
    "try_store",
    "utc_now",
    "values",
    "vcpus",
]
